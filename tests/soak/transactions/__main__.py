"""`python -m tests.soak.transactions [--seed N] [--seconds S]`: a run, 1 when it found something.

`--nemesis sleeper` kills nobody, and stops gateways and clients for longer than a transaction may
take.

The history and the log stay in the folder that is named when something was found.
"""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.soak.transactions.run import NEMESES, main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.soak.transactions", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--nemesis", choices=NEMESES, default="killer")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sparklog-soak-"))
    sys.exit(main(folder, arguments.seed, arguments.seconds, arguments.nemesis))
