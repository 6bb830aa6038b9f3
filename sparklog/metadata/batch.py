"""The commit requests that wait in one process; their edits share one entry.

The plans run one after another, each on the image that the plan before leaves. A plan that fails
(in planning, checking, applying or encoding) does not stop the others. Its error may depend on the
edits of the plans before it, so the error is final only when they land.
"""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, TypeVar

import orjson

from sparklog.errors import CommitOutcomeUnknownError, SparklogError
from sparklog.garbage import without_frames
from sparklog.metadata.codec.edits import edit_of
from sparklog.metadata.codec.entry import encode_appends, encode_edits
from sparklog.metadata.codec.types import texts
from sparklog.metadata.state.check import check
from sparklog.metadata.state.edit import Done, Edit, Stamp
from sparklog.metadata.state.image import Image

T = TypeVar("T", bound=BaseException)
COUNTS: Final = frozenset({"segments", "records", "bytes", "removed"})
"""Parameters of a commit that are added up, if several commits share an entry."""


@dataclass(frozen=True, slots=True)
class CheckedEdit:
    """An edit whose topics have all passed `check_topic` on the plan's image."""

    edit: Edit


Plan = Callable[[Image], Edit | CheckedEdit | Done]
"""Returns the edit to commit on an image. It must be pure, because every try calls it again."""
Ready = Callable[[], None]
"""Returns when the files that an edit names are durable. Raises an error if they cannot be."""


class NotReadyError(Exception):
    """An edit of the entry names files that are not durable: plan again without that edit."""


def nothing_to_wait_for() -> None:
    """Return: the edit names no new file, or its files are durable already."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's answer: the image after its edit, and the edit.

    `edit` is None if there was nothing to commit. `before` is the image that the successful try
    planned on. `newest` is the image after the whole entry, which may have edits of other requests
    behind this one.
    """

    image: Image
    before: Image
    newest: Image
    edit: Edit | None


class Request:
    """One call of `commit`: its plan, the plan's newest result, and its outcome."""

    def __init__(
        self,
        plan: Plan,
        topics: Collection[str],
        *,
        is_patient: bool = False,
        ready: Ready = nothing_to_wait_for,
        principal: str | None = None,
    ) -> None:
        """`is_patient` is `patient` of `MetadataLog.commit`.

        `ready` is called before the entry gets its name, if the plan has returned an edit.
        `principal` is the client that asks for the commit.
        """
        self.plan = plan
        self.topics = topics
        self.is_patient = is_patient
        self.principal = principal
        self._ready = ready
        self.is_settled = False
        self._planned: Committed | Exception | None = None
        self._outcome: Committed | BaseException | None = None

    def run(
        self, image: Image, stamp: Stamp, *, is_first: bool
    ) -> tuple[Edit, bytes, Image] | None:
        """Plan on an image; return the edit, its JSON, and the image after it.

        None if there is nothing to commit, or if the plan failed. `is_first` says that no edit of
        this batch is in the image: then a failure is final. Any other result counts only if the
        edits before it land.
        """
        try:
            plan = self.plan(image)
            edit = plan.edit if isinstance(plan, CheckedEdit) else plan
            if isinstance(edit, Done) or edit.is_empty:
                self._planned = Committed(image, image, image, None)
                return None
            check(image, edit, skips_topics=isinstance(plan, CheckedEdit))
            data, read = _written(edit)
            after = image.apply((read,), stamp)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that asked
            self._planned = _kept(error)
            if is_first:
                self.fail(error)
            return None
        self._planned = Committed(after, image, after, edit)
        return edit, data, after

    def is_ready(self) -> bool:
        """Wait for the files that the edit names. If they cannot be durable, fail; return False."""
        if isinstance(self._planned, Committed) and self._planned.edit is not None:
            try:
                self._ready()
            except Exception as error:  # noqa: BLE001 - it is raised in the thread that asked
                self.fail(error)
                return False
        return True

    def land(self, newest: Image) -> None:
        """Make the result of the newest plan the outcome, unless the request has an outcome.

        `newest` is the image after the whole entry.
        """
        if not self.is_settled:
            planned = self._planned
            if isinstance(planned, Committed):
                planned = Committed(planned.image, planned.before, newest, planned.edit)
            self._outcome = planned
            self.is_settled = True

    def fail(self, error: BaseException) -> None:
        """Make an error the outcome, unless the request has an outcome."""
        if not self.is_settled:
            self._outcome = _kept(error)
            self.is_settled = True

    @property
    def outcome(self) -> Committed | BaseException:
        """The outcome: an answer, or an error."""
        if self._outcome is None:
            return CommitOutcomeUnknownError("a request was settled without a plan")
        return self._outcome

    def answer(self) -> Committed:
        """Return the outcome, or raise it: an error of sparklog as a copy."""
        outcome = self.outcome
        if isinstance(outcome, SparklogError):
            raise copy(outcome)  # the request does not hold the copy, whose frames hold the request
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def _kept(error: T) -> T:
    """Return an error in the form that a request keeps: an error of sparklog without its frames.

    The frames refer to the request, and the request to the error. An error of another kind is a bug
    and keeps its frames, which show where it happened.
    """
    return without_frames(error) if isinstance(error, SparklogError) else error


def _written(edit: Edit) -> tuple[bytes, Edit]:
    """Return the JSON of an edit, and the edit as every reader of the log decodes it.

    Raises the errors of the codec: an edit that cannot be read must not get into the log.
    """
    parameters = texts(dict(edit.parameters))
    data = encode_appends(edit)
    if data is not None:
        return data, edit
    data = encode_edits([edit])
    return data, edit_of(orjson.loads(data)[0], parameters)


@dataclass(frozen=True, slots=True)
class Planned:
    """One try of a batch: the edits, their JSON as one list, and the image after them.

    `principals` are the clients that asked for them, and None for an edit without a client.
    """

    edits: Sequence[Edit]
    data: bytes
    image: Image
    principals: Collection[str | None]

    def parameters(self, who: str) -> dict[str, str]:
        """Return the entry's parameters: those of its edits, and the process that commits them.

        Counts are added up. If one client asked for the whole entry, it is there, too.
        """
        told: dict[str, str] = {}
        for edit in self.edits:
            for name, value in edit.parameters.items():
                told[name] = _joined(name, told[name], value) if name in told else value
        told["who"] = who
        (principal, *others) = (*self.principals, None)
        if principal is not None and others == [None]:
            told["principal"] = principal
        return told


def _joined(name: str, first: str, second: str) -> str:
    if name in COUNTS:
        return str(int(first) + int(second))
    return ", ".join(dict.fromkeys((*first.split(", "), *second.split(", "))))


class Batch:
    """The commit requests that share one entry."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.is_in_flight = False
        """Whether the entry is being put: until the put ends, its outcome is unknown."""

    @property
    def waiting(self) -> list[Request]:
        """The requests without an outcome."""
        return [request for request in self.requests if not request.is_settled]

    @property
    def is_patient(self) -> bool:
        """Whether all waiting requests are patient."""
        return all(request.is_patient for request in self.waiting)

    @property
    def topics(self) -> list[str]:
        """The ids of the topics that the plans read."""
        return list(dict.fromkeys(topic for one in self.waiting for topic in one.topics))

    def plan(self, image: Image, stamp: Stamp) -> Planned:
        """Run the plans of all requests without an outcome, one after another."""
        edits: list[Edit] = []
        parts: list[bytes] = []
        principals: set[str | None] = set()
        for request in self.waiting:
            planned = request.run(image, stamp, is_first=not edits)
            if planned is not None:
                edit, data, image = planned
                edits.append(edit)
                parts.append(data[1:-1])
                principals.add(request.principal)
        return Planned(edits, b"[" + b",".join(parts) + b"]", image, principals)

    def await_files(self) -> None:
        """Wait for the files that the planned edits name.

        Fails the requests whose files are not durable, and then raises NotReadyError.
        """
        unready = [request for request in self.waiting if not request.is_ready()]
        if unready:
            raise NotReadyError

    def land(self, newest: Image) -> None:
        """Settle all requests with the results of their newest plans.

        `newest` is the image after the whole entry.
        """
        for request in self.requests:
            request.land(newest)

    def fail(self, error: BaseException) -> None:
        """Give the requests without an outcome an error, each its own copy."""
        for request in self.waiting:
            request.fail(copy(error))

    def interrupted(self, request: Request) -> list[Request]:
        """Return the requests that still wait, after the thread of `request` was interrupted.

        `request` itself is not one of them. If an entry is in flight, its outcome is unknown, so
        all requests get CommitOutcomeUnknownError.
        """
        if self.is_in_flight:
            self.fail(
                CommitOutcomeUnknownError(
                    "the thread that committed was interrupted: the entry may have landed; replay "
                    "with the same txnAppId and txnVersion"
                )
            )
        return [one for one in self.waiting if one is not request]
