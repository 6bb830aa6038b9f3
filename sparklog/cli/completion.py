"""Shell completion of topic names from the log dir, and the arguments that have it."""

import os
from contextlib import suppress
from typing import Annotated

import typer

from sparklog.cli.arguments import LOG_DIR_VARIABLE, log_dir_of
from sparklog.errors import SparklogError


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the topics that begin with the typed text; [] if the log dir cannot be read."""
    with suppress(SparklogError):
        return [name for name in _topics(context) if name.startswith(incomplete)]
    return []


def _topics(context: typer.Context) -> list[str]:
    from sparklog.config.pairs import pairs
    from sparklog.metadata.catalog import Catalog
    from sparklog.storage import open_files

    log_dir = log_dir_of(context) or os.environ.get(LOG_DIR_VARIABLE)
    if not log_dir:
        return []
    given = [context.params, context.find_root().params]
    storage = pairs([text for p in given for text in p.get("storage") or ()], "-S")
    return list(Catalog(open_files(log_dir, storage)).topics())


TopicArgument = Annotated[
    str | None,
    typer.Argument(metavar="TOPIC", help="The topic.", autocompletion=topic_names),
]
TopicsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC", help="All topics if none is named.", autocompletion=topic_names
    ),
]
