"""The command line `sparklog`: topics, produce, consume and offsets, without a JVM.

Start with `app`, which puts the commands together and turns errors into one line and an exit code.
A command is a dataclass of its options and a function that takes it; what is heavy is imported by
the function, so that `--help` and completion answer at once.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class WithoutPandas:
    """Says, when it stands in sys.meta_path, that pandas is not installed.

    Where it is, pyarrow imports it with the first array it makes: 200 ms that no command needs.
    """

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas; leave the rest to others."""
        if name == "pandas":
            raise ModuleNotFoundError("the command line does without pandas", name=name)
        return None


def main() -> None:
    """Run the command line and leave with its exit code: 0, 1 for a failure, 2 for misuse."""
    if not {"produce", "rest", "jobs"} & set(sys.argv):  # Spark or a user's partitioner may want it
        sys.meta_path.insert(0, WithoutPandas())
    from sparklog.cli.app import run

    sys.exit(run(sys.argv[1:]))
