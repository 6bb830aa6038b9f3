"""`sparklog users`: the users that authenticate with SCRAM at a gateway."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from sparklog.cli.arguments import CommonArguments, add_command, stdin
from sparklog.cli.output import print_json, print_table
from sparklog.errors import InvalidOptionError, UsageError

Name = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]


@dataclass(frozen=True, kw_only=True)
class AddArguments(CommonArguments):
    """Options of `users add`."""

    name: Name
    iterations: Annotated[
        int, typer.Option("--iterations", help="Rounds of the hash: 4096 to 16384.")
    ] = 4096


def add(arguments: AddArguments) -> None:
    """Add a user, or give it another password, which is read from the terminal or a pipe.

    The user's grants are in the gateway's file of tokens.
    """
    from sparklog.metadata.plans.cluster import with_users
    from sparklog.metadata.state.cluster import SCRAM_MECHANISMS, ScramCredential, UserKey
    from sparklog.wire.security.scram import (
        ITERATIONS,
        ITERATIONS_MAX,
        SALT_BYTES,
        credential,
        salted_password,
    )

    if not arguments.name:
        raise InvalidOptionError("a user's name must not be empty", option="name")
    with _as_text("the user's name", "name"):
        arguments.name.encode()
    if not ITERATIONS <= arguments.iterations <= ITERATIONS_MAX:
        raise InvalidOptionError(
            f"--iterations {arguments.iterations}: allowed are {ITERATIONS} to {ITERATIONS_MAX}",
            option="iterations",
        )
    password = _password()
    changes: dict[UserKey, ScramCredential | None] = {}
    for mechanism in SCRAM_MECHANISMS:
        salt = os.urandom(SALT_BYTES)
        salted = salted_password(mechanism, password, salt, arguments.iterations)
        changes[arguments.name, mechanism] = credential(
            mechanism, salted, salt, arguments.iterations
        )
    arguments.catalog().log.commit(lambda image: with_users(image, changes))
    arguments.tell({"user": arguments.name, "added": True}, f"Added user {arguments.name}.")


def _password() -> str:
    given = stdin()
    with _as_text("the password", "password"):
        if given.isatty():
            found: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        else:
            found = given.readline().rstrip("\n")
        found.encode()
    if not found:
        raise InvalidOptionError("no password: give one on the standard input", option="password")
    return found


@contextmanager
def _as_text(what: str, option: str) -> Iterator[None]:
    """Raise InvalidOptionError for bytes that are not UTF-8; it does not show them."""
    try:
        yield
    except UnicodeError:
        raise InvalidOptionError(f"{what} is not UTF-8: allowed is UTF-8", option=option) from None


def list_users(arguments: CommonArguments) -> None:
    """List the users, their mechanisms and iterations."""
    users = arguments.catalog().log.image().users
    rows = [(name, mechanism, users[name, mechanism].iterations) for name, mechanism in users]
    if arguments.is_json:
        for name, mechanism, iterations in sorted(rows):
            print_json({"user": name, "mechanism": mechanism, "iterations": iterations})
    else:
        print_table("Users", ["user", "mechanism", "iterations"], sorted(rows))


@dataclass(frozen=True, kw_only=True)
class DeleteArguments(CommonArguments):
    """Options of `users delete`."""

    name: Name


def delete(arguments: DeleteArguments) -> None:
    """Delete a user. The user's open connections stay open."""
    from sparklog.metadata.plans.cluster import with_users

    log = arguments.catalog().log
    keys = [key for key in log.image().users if key[0] == arguments.name]
    if not keys:
        raise UsageError(f"there is no user {arguments.name!r}")
    log.commit(lambda image: with_users(image, dict.fromkeys(keys)))
    arguments.tell({"user": arguments.name, "deleted": True}, f"Deleted user {arguments.name}.")


def add_to(app: typer.Typer) -> None:
    """Register `users` with its commands."""
    group = typer.Typer(help="Add, list and delete the users of gateways (SCRAM).")
    add_command(group, "add", add)
    add_command(group, "list", list_users)
    add_command(group, "delete", delete)
    app.add_typer(group, name="users")
