"""Compiles the kernels into numba's cache: `python -m sparklog.record.kernels`.

Run it once per machine or image, so that the first job need not compile. It prints a line for each
kernel: its name, and whether it was compiled or came from the cache.
"""

from sparklog.record.kernels import warm_up

for name, origin in warm_up().items():
    print(f"{name}: {origin}")
