"""docs/cli.md says what there is, and nothing that is not; the README's lines work."""

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer import Context

from sparklog.cli.app import COMMANDS as LISTED
from sparklog.cli.app import app
from sparklog.cli.arguments import CommonArguments
from tests.command_line import CommandLine

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands_of(group: Any, path: str = "sparklog") -> Iterator[tuple[str, Any]]:
    """Every command; one whose own are loaded when it runs, as `jobs`, stands for them."""
    context = Context(group)
    for name in group.commands:
        command = group.get_command(context, name)
        if getattr(command, "commands", None):
            yield from commands_of(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def options_of(command: Any) -> set[str]:
    """The option names that `--help` shows; arguments have none."""
    return {name for param in command.params for name in param.opts if name.startswith("-")}


def common_options() -> set[str]:
    probe = typer.Typer()
    probe.command()(CommonArguments)
    return options_of(typer.main.get_command(probe)) - {
        "--install-completion",
        "--show-completion",
    }


COMMANDS = dict(commands_of(typer.main.get_command(app)))
SECTIONS = {
    heading.strip("`"): text
    for heading, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", PAGE, re.MULTILINE)
}


def documented_options(text: str) -> set[str]:
    """Options in the first cells of the first table."""
    table = text.partition("| option |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\|([^|]+)\|", table, re.MULTILINE)
    return set(re.findall(r"`(-[^`]+)`", " ".join(cells)))


class TestHelp:
    def test_the_list_of_commands_has_the_first_lines_of_their_help(self) -> None:
        group: Any = typer.main.get_group(app)
        context = Context(group)
        for name, one in LISTED.items():
            first, _, _ = inspect.cleandoc(group.get_command(context, name).help).partition("\n\n")
            assert one.about == first.replace("\n", " ")


class TestPage:
    def test_it_has_every_command_and_no_other(self) -> None:
        assert set(SECTIONS) == {"Everywhere", *COMMANDS}

    def test_options_that_all_commands_have_stand_once(self) -> None:
        assert documented_options(SECTIONS["Everywhere"]) == common_options()

    def test_it_has_every_option_and_no_other(self) -> None:
        documented = {name: documented_options(SECTIONS[name]) for name in COMMANDS}

        assert documented == {
            name: options_of(command) - common_options() for name, command in COMMANDS.items()
        }


class TestReadme:
    def test_its_lines_work(self, sparklog: CommandLine) -> None:
        """All but those of services, which run until they are told to end."""
        sparklog.done("topic", "create", "numbers", "-p4")
        others = r"^sparklog (?!rest|gateway|jobs scheduler)([^#\n]+)"
        lines = re.findall(others, README, re.MULTILINE)

        assert lines
        for line in lines:
            outcome = sparklog(*shlex.split(line.replace("--log-dir log", "")))
            nothing_to_do = 3 if line.startswith("jobs ") else 0
            assert (outcome.code in (0, nothing_to_do), outcome.err) == (True, "")

    def test_its_examples_and_those_of_the_page_fit_into_one_log_dir(self) -> None:
        made = re.findall(r'NewTopic\("([\w-]+)"', README)
        made += re.findall(r"^sparklog topic create ([\w-]+)", PAGE, re.MULTILINE)

        assert sorted(made) == ["copy", "flights", "flights-copy", "numbers"]
