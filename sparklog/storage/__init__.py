"""Where bytes live: files of a log dir on a file system or an object store.

Start with `files.py`, the interface. `open_files` picks the implementation; importing this package
imports none that is heavy.
"""

from sparklog.storage.files import Files, FileStat, NewFile
from sparklog.storage.open import open_files

__all__ = ["FileStat", "Files", "NewFile", "open_files"]
