"""The command line `sparklog`: topics, produce, consume and offsets, without a JVM.

Start with `app`, which puts the commands together and turns errors into one line and an exit code.
A command is a dataclass of its options and a function that takes it. The function imports heavy
modules, so that `--help` and completion answer at once.
"""

import sys


def main() -> None:
    """Run the command line and leave with its exit code: 0, 1 for a failure, 2 for misuse."""
    from sparklog.cli.app import run

    sys.exit(run(sys.argv[1:]))
