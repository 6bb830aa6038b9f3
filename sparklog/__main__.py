"""`python -m sparklog`: the command line where `sparklog` is not on the path."""

from sparklog.cli import main

if __name__ == "__main__":
    main()
