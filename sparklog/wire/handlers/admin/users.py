"""DescribeUserScramCredentials, AlterUserScramCredentials (KIP-554): requests of kafka-configs.

A request sets and removes credentials of users. If one change of a user is refused, none of that
user's changes is made (ScramControlManager). An answer never has keys, and a request never has a
password: clients salt it.
"""

from collections import Counter
from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple

from sparklog.errors import ErrorCode, SparklogError
from sparklog.metadata.plans.cluster import with_users
from sparklog.metadata.state.cluster import SCRAM_MECHANISMS, ScramCredential, UserKey
from sparklog.metadata.state.image import Image
from sparklog.tokens import Resource, Scope
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.security.authorization import DENIED
from sparklog.wire.security.scram import ITERATIONS, ITERATIONS_MAX, credential

NUMBERS: Final = dict(enumerate(SCRAM_MECHANISMS, start=1))
"""The mechanisms as requests number them (ScramMechanism.type)."""


class _Refused(NamedTuple):
    """The reason why a user's changes are refused."""

    error_code: int
    error_message: str


async def describe_users(call: Call) -> Reply:
    """Return the answer: the mechanisms and iterations of users."""
    request = await call.request()
    if not call.allows(Scope.READ, resource=Resource.CLUSTER):
        return call.answer({"error_code": DENIED[Resource.CLUSTER]})
    image = await call.gateway.newest_image()

    def answered() -> Reply:
        asked = [one.name for one in request.users or ()]
        counts = Counter(asked or sorted({name for name, _ in image.users}))
        return call.answer({"results": [_described(image, name, counts[name]) for name in counts]})

    return await call.step(answered)


def _described(image: Image, name: str, count: int) -> Mapping[str, Any]:
    if count > 1:
        code, told = ErrorCode.DUPLICATE_RESOURCE, f"user {name!r} is named twice"
        return {"user": name, "error_code": code, "error_message": told}
    infos = [
        {"mechanism": number, "iterations": image.users[name, mechanism].iterations}
        for number, mechanism in NUMBERS.items()
        if (name, mechanism) in image.users
    ]
    if not infos:
        code, told = ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {name!r}"
        return {"user": name, "error_code": code, "error_message": told}
    return {"user": name, "credential_infos": infos}


async def alter_users(call: Call) -> Reply:
    """Return the answer: an outcome for each user that the request names."""
    request = await call.request()
    names = await call.step(
        lambda: list(dict.fromkeys(one.name for one in (*request.upsertions, *request.deletions)))
    )
    if not call.allows(Scope.ADMIN, resource=Resource.CLUSTER):
        denied = _Refused(DENIED[Resource.CLUSTER], "changes of users need ADMIN on the cluster")
        return await call.step(lambda: _answered(call, names, dict.fromkeys(names, denied)))
    image = await call.gateway.newest_image()
    refused = await call.step(lambda: _refused(image, request))
    changes = await call.step(lambda: _changes(request, refused))
    commit = call.gateway.catalog.log.commit
    try:
        await call.administer(lambda: commit(lambda image: with_users(image, changes)))
    except SparklogError as error:
        failed = _Refused(error.code, error.message)
        refused |= dict.fromkeys((name for name, _ in changes), failed)
    return await call.step(lambda: _answered(call, names, refused))


def _changes(request: Any, refused: Container[str]) -> dict[UserKey, ScramCredential | None]:
    """Return the changes of users that are not refused; None deletes a credential."""
    changes: dict[UserKey, ScramCredential | None] = {
        (one.name, NUMBERS[one.mechanism]): _credential(one)
        for one in request.upsertions
        if one.name not in refused
    }
    return changes | {
        (one.name, NUMBERS[one.mechanism]): None
        for one in request.deletions
        if one.name not in refused
    }


def _credential(one: Any) -> ScramCredential:
    mechanism = NUMBERS[one.mechanism]
    return credential(mechanism, bytes(one.salted_password), bytes(one.salt), one.iterations)


def _refused(image: Image, request: Any) -> dict[str, _Refused]:
    """Return the users with a refused change, and the first reason for each."""
    found: dict[str, _Refused] = {}
    keys = [(one.name, one.mechanism) for one in (*request.deletions, *request.upsertions)]
    for key, count in Counter(keys).items():
        if count > 1:
            told = "a user's credential is named twice"
            found.setdefault(key[0], _Refused(ErrorCode.DUPLICATE_RESOURCE, told))
    for name, number in keys:
        if not name:
            told = "a user's name must not be empty"
            found.setdefault(name, _Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, told))
        if number not in NUMBERS:
            told = f"unknown SCRAM mechanism {number}"
            found.setdefault(name, _Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, told))
    for one in request.upsertions:
        if not ITERATIONS <= one.iterations <= ITERATIONS_MAX:
            told = f"{one.iterations} iterations: allowed are {ITERATIONS} to {ITERATIONS_MAX}"
            found.setdefault(one.name, _Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, told))
    for one in request.deletions:
        if (one.name, NUMBERS.get(one.mechanism)) not in image.users:
            told = "there is no such credential to delete"
            found.setdefault(one.name, _Refused(ErrorCode.RESOURCE_NOT_FOUND, told))
    return found


def _answered(call: Call, names: list[str], refused: Mapping[str, _Refused]) -> Reply:
    done = _Refused(ErrorCode.NONE, "")
    results = []
    for name in names:
        code, told = refused.get(name, done)
        results.append({"user": name, "error_code": code, "error_message": told or None})
    return call.answer({"results": results})
