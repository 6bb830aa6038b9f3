"""The files of a log dir, on a file system or in an object store.

`files.py` is the interface, and the place to start. `open_files` picks the implementation: `local`,
`objects/` (S3, Google Cloud Storage, Azure) or `memory`. This package imports no heavy module by
itself. `log_dir` makes a directory a log dir; `settings` are those of every storage.
"""

from sparklog.storage.files import Files, FileStat, NewFile
from sparklog.storage.open import open_files

__all__ = ["FileStat", "Files", "NewFile", "open_files"]
