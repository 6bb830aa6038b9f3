"""Bytes <-> Arrow: record batches (magic 2) both ways, message sets (magic 0 and 1) read-only.

Start with `layout`, which shows the bytes. `encode` writes and `decode` reads; `scan` walks
headers. They share `batches.BatchTable`. Importing this package costs nothing: the first module
that needs a kernel loads numba.
"""
