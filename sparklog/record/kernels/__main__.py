"""Compiles the kernels into numba's cache: `python -m sparklog.record.kernels`.

Worth running once per machine or image, so that the first job need not. Prints a line per kernel:
its name, and whether it was compiled or came from the cache.
"""

from sparklog.record.kernels import warm_up

for name, origin in warm_up().items():
    print(f"{name}: {origin}")
