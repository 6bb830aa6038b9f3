"""The command line `sparklog`: topics, produce, consume and offsets, without a JVM.

Start with `app`, which puts the commands together and turns errors into one line and an exit code.
A command is a dataclass of its options and a function that takes it. The function imports heavy
modules, so that `--help` and completion answer at once. `records/`, `consumer_groups/` and
`transfer/` have several commands each; `jobs` and `job_commands` are `sparklog jobs`.
"""

import sys
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line and leave with its exit code, also where Ctrl-C comes while it loads."""
    try:
        from sparklog.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)
