"""A progress bar on a terminal's stderr; it disappears when the work is done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(what: str, count: int, *, is_quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show how many of `count` tasks are done; yield a function that adds to that number.

    Any thread may call the function. Nothing is shown with `is_quiet`, or if stderr is no terminal.
    """
    if is_quiet or sys.stderr is None or not sys.stderr.isatty():  # None: the shell has closed it
        yield lambda _done: None
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        yield partial(progress.advance, progress.add_task(what, total=count))
