"""`python -m api`: `sparklog rest` under its older name."""

import sys

from sparklog.cli.app import run

if __name__ == "__main__":
    sys.exit(run(["rest", *sys.argv[1:]]))
