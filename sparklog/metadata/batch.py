"""The requests that wait for a commit in one process: their edits share one entry.

The plans run one after another, each on the image that the plan before leaves. A plan that fails,
in planning, checking, applying or encoding, does not stop the others. Its error may rest on the
edits of the plans before it, so the error stands only when they land.
"""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass

import orjson

from sparklog.errors import CommitOutcomeUnknownError
from sparklog.metadata.check import check
from sparklog.metadata.codec import edit_of
from sparklog.metadata.codec_types import texts
from sparklog.metadata.edit import Done, Edit, Stamp
from sparklog.metadata.entry import encode_edits
from sparklog.metadata.image import Image

Plan = Callable[[Image], Edit | Done]
"""Returns the edit to commit on an image. Pure: it is called again on every try."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's answer: the image after it, and its edit; None when there was nothing to commit.

    `before` is the image that the plan of the successful try saw.
    """

    image: Image
    before: Image
    edit: Edit | None


class Request:
    """One call of `commit`: its plan, the plan's result on the newest try, and its outcome."""

    def __init__(self, plan: Plan, topics: Collection[str], *, is_patient: bool = False) -> None:
        self.plan = plan
        self.topics = topics
        self.is_patient = is_patient
        self.is_settled = False
        self._planned: Committed | Exception | None = None
        self._outcome: Committed | BaseException | None = None

    def run(
        self, image: Image, stamp: Stamp, *, is_first: bool
    ) -> tuple[Edit, bytes, Image] | None:
        """Plan on an image; return the edit, its JSON, and the image after it.

        None when there is nothing to commit, or the plan failed. `is_first` says that the image is
        committed, with no edit of this batch in it. A plan that fails on such an image is settled.
        All else holds on condition that the rest of the batch lands.
        """
        try:
            edit = self.plan(image)
            if isinstance(edit, Done) or edit.is_empty:
                self._planned = Committed(image, image, None)
                return None
            check(image, edit)
            data = encode_edits([edit])
            # An edit that cannot be read back must not get into the log: read it here first.
            read = edit_of(orjson.loads(data)[0], texts(dict(edit.parameters)))
            after = image.apply((read,), stamp)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that asked
            self._planned = error
            if is_first:
                self.fail(error)
            return None
        self._planned = Committed(after, image, edit)
        return edit, data, after

    def land(self) -> None:
        """Settle the request with the result of its newest plan, unless it is settled."""
        if not self.is_settled:
            self._outcome = self._planned
            self.is_settled = True

    def fail(self, error: BaseException) -> None:
        """Settle the request with an error, unless it is settled."""
        if not self.is_settled:
            self._outcome = error
            self.is_settled = True

    @property
    def outcome(self) -> Committed | BaseException:
        """The outcome: an error, or the answer."""
        if self._outcome is None:
            return CommitOutcomeUnknownError("a request that nobody planned was settled")
        return self._outcome

    def answer(self) -> Committed:
        """Return or raise the outcome."""
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@dataclass(frozen=True, slots=True)
class Planned:
    """One try of a batch: the edits, their JSON as one list, and the image after them."""

    edits: Sequence[Edit]
    data: bytes
    image: Image


class Batch:
    """The requests that share one entry."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.is_in_flight = False
        """Whether the entry was put, and it is not yet known whether it is in its slot."""

    @property
    def waiting(self) -> list[Request]:
        """The requests without an outcome."""
        return [request for request in self.requests if not request.is_settled]

    @property
    def is_patient(self) -> bool:
        """Whether none of the requests is in a hurry."""
        return all(request.is_patient for request in self.waiting)

    @property
    def topics(self) -> list[str]:
        """The ids of the topics that the plans read."""
        return list(dict.fromkeys(topic for one in self.waiting for topic in one.topics))

    def plan(self, image: Image, stamp: Stamp) -> Planned:
        """Run all plans that have no outcome, one after another."""
        edits: list[Edit] = []
        parts: list[bytes] = []
        for request in self.waiting:
            planned = request.run(image, stamp, is_first=not edits)
            if planned is not None:
                edit, data, image = planned
                edits.append(edit)
                parts.append(data[1:-1])
        return Planned(edits, b"[" + b",".join(parts) + b"]", image)

    def land(self) -> None:
        """Settle all requests with the results of their newest plans."""
        for request in self.requests:
            request.land()

    def fail(self, error: BaseException) -> None:
        """Settle the requests that have no outcome with an error, each with its own copy."""
        for request in self.waiting:
            request.fail(copy(error))

    def interrupted(self, request: Request) -> list[Request]:
        """Return the requests without an outcome, after the thread of `request` was interrupted.

        `request` itself is not among them. While an entry is in flight its outcome is unknown, so
        all requests are settled with CommitOutcomeUnknownError.
        """
        if self.is_in_flight:
            self.fail(
                CommitOutcomeUnknownError(
                    "the thread that committed was interrupted: the entry may have landed; replay "
                    "with the same txnAppId and txnVersion"
                )
            )
        return [one for one in self.waiting if one is not request]
