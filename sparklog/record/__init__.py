"""Bytes <-> Arrow: record batches (magic 2) both ways, message sets (magic 0 and 1) read-only.

Start with `layout`, which shows the bytes. `encode` writes, `decode` reads, and `scan` walks
headers; all three share `batches.BatchTable`. `codecs/` compresses, and `kernels/` are the loops.
This package itself imports nothing: numba is loaded with the first module that needs a kernel.
"""
