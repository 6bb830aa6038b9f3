"""`python -m tests.soak.transactions [--seed N] [--seconds S]`: one run, 1 when it found something.

The history and the log stay in the folder that is named when something was found.
"""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.soak.transactions.run import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.soak.transactions", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sparklog-soak-"))
    sys.exit(main(folder, arguments.seed, arguments.seconds))
