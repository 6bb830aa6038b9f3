"""Bytes <-> Arrow: record batches (magic 2) both ways, message sets (magic 0 and 1) read-only.

Start with `layout`, which draws the bytes. `encode` and `decode` are the two ways through, `scan`
walks headers, `batches.BatchTable` is what they hand to each other. Importing this package costs
nothing; numba is loaded with the first module that needs a kernel.
"""
