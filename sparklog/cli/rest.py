"""`sparklog rest`: the REST service. Its options are the service's settings.

They are looked up when the command runs: the extra `rest` may not be there, and takes long to load.
"""

from dataclasses import field, make_dataclass
from typing import Annotated, Any, get_args, get_origin

import typer

from sparklog.cli.arguments import add_lazily, app_within, run_within, with_signature
from sparklog.cli.extras import extra
from sparklog.errors import InvalidOptionError


def rest(context: typer.Context) -> None:
    """Serve the log dir over HTTP until SIGTERM; `sparklog rest --help` has the options."""
    before = context.find_root().params
    if before["storage"]:
        raise InvalidOptionError(
            "-S/--storage: the service takes storage settings from the environment alone",
            option="storage",
        )
    with extra("rest"):
        from sparklog.rest.server import serve
        from sparklog.rest.settings import Settings, option_of, settings_of

    def start(context: typer.Context, **given: Any) -> None:
        """Serve the log dir over HTTP until SIGTERM.

        Every option is a variable, too: --linger-ms is SPARKLOG_LINGER_MS.
        """
        del context
        options = {name: value for name, value in given.items() if value is not None}
        told = {"log_dir": before["log_dir"]} if before["log_dir"] else {}
        serve(settings_of(told | options))

    fields = [
        (name, _option(option_of(name), info), field(default=None))
        for name, info in Settings.model_fields.items()
    ]
    service = app_within()
    service.command()(with_signature(start, make_dataclass("RestArguments", fields)))
    run_within(context, service, context.args)


def _option(name: str, setting: Any) -> Any:
    """Return the annotation of one option; the settings check its value.

    A setting of several values is an option that is given several times.
    """
    kind, default = setting.annotation, setting.default
    is_tuple = get_origin(kind) is tuple
    shown = ", ".join(default) if is_tuple else default
    is_shown = not setting.is_required() and default is not None
    about = f"{setting.description} [default: {shown}]" if is_shown else setting.description
    if kind is bool:
        names = f"{name}/--no-{name.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(names, help=about)]
    values = [one for one in get_args(kind) if isinstance(one, str)]
    metavar = "|".join(values) or ("N" if kind is int else "TEXT")
    option = typer.Option(name, help=about, metavar=metavar)
    return Annotated[list[str] | None if is_tuple else str | None, option]


def add_to(app: typer.Typer) -> None:
    """Register `rest`."""
    add_lazily(app, "rest", rest, "[OPTIONS]")
