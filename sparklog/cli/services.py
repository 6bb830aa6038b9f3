"""`sparklog rest` and `sparklog gateway`: services. Their options are the service's settings.

The settings are loaded when the command runs: their extra may be missing, and takes long to load.
"""

from collections.abc import Callable
from dataclasses import field, make_dataclass
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand

from sparklog.cli.extras import extra
from sparklog.errors import InvalidOptionError


class ServiceCommand(TyperCommand):
    """A command whose options are the settings of its service."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options, and --help."""
        if not self.params:
            service = typer.Typer(add_completion=False)
            service.command()(_arguments(_SETTINGS[str(self.name)]()))
            self.params = typer.main.get_command(service).params
        return super().get_params(ctx)

    def invoke(self, ctx: Any) -> None:
        """Call the function, which reads the options from the context."""
        ctx.invoke(self.callback)


def rest(context: typer.Context) -> None:
    """Serve the log dir over HTTP until SIGTERM.

    Every option is a variable, too: --linger-ms is SPARKLOG_LINGER_MS.
    """
    with extra("rest"):
        from sparklog.rest.server import serve
    serve(_given(context, _rest_settings()))


def gateway(context: typer.Context) -> None:
    """Serve the log dir to Kafka's clients until SIGTERM.

    Every option is a variable, too: --num-partitions is SPARKLOG_NUM_PARTITIONS.
    """
    from sparklog.service.memory import leave_out_unused, spare_arrow

    leave_out_unused()
    spare_arrow()
    with extra("gateway"):
        from sparklog.wire.serving.server import serve
    serve(_given(context, _gateway_settings()))


def _rest_settings() -> type[Any]:
    with extra("rest"):
        from sparklog.rest.settings import Settings
    return Settings


def _gateway_settings() -> type[Any]:
    with extra("gateway"):
        from sparklog.wire.settings import Settings
    return Settings


_SETTINGS: dict[str, Callable[[], type[Any]]] = {
    "rest": _rest_settings,
    "gateway": _gateway_settings,
}


def _given(context: typer.Context, kind: type[Any]) -> Any:
    """Return the settings: the options that were given, and for the rest the environment."""
    from sparklog.service.settings import settings_of

    before = context.find_root().params
    if before["storage"]:
        raise InvalidOptionError(
            "-S/--storage: the service takes storage settings from the environment alone",
            option="storage",
        )
    given = {name: value for name, value in context.params.items() if value not in (None, ())}
    told = {"log_dir": before["log_dir"]} if before["log_dir"] else {}
    return settings_of(kind, told | given)


def _arguments(kind: type[Any]) -> type:
    """Return a class with a field for each setting, None where the option is not given."""
    from sparklog.service.settings import option_of

    return make_dataclass(
        "ServiceArguments",
        [
            (name, _option(option_of(name), info), field(default=None))
            for name, info in kind.model_fields.items()
        ],
    )


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
    """Register `rest` and `gateway`."""
    app.command("rest", cls=ServiceCommand)(rest)
    app.command("gateway", cls=ServiceCommand)(gateway)
