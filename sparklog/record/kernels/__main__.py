"""Compiles the kernels into numba's cache: `python -m sparklog.record.kernels`.

Worth running once per machine or image, so that the first job need not.
"""

from sparklog.record.kernels import warm_up


def main() -> None:
    """Prints a line per kernel: its name, and whether it was compiled or came from the cache."""
    for name, origin in warm_up().items():
        print(f"{name}: {origin}")


if __name__ == "__main__":
    main()
