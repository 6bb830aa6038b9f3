"""What waits to be committed in one process: its plans share one entry.

Plans run one after another, each on the image as the one before leaves it. One that fails, in
planning, checking, applying or encoding, fails alone. A refusal may rest on what plans before it
would do; so it stands only when they land.
"""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass

import orjson

from sparklog.errors import CommitOutcomeUnknownError
from sparklog.metadata.check import check
from sparklog.metadata.codec import edit_of, texts
from sparklog.metadata.edit import Done, Edit, Stamp
from sparklog.metadata.entry import encode_edits
from sparklog.metadata.image import Image

Plan = Callable[[Image], Edit | Done]
"""What should become of the image, and nothing else: it is called again on every try."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit's answer: the image after it, and the edit that made it; None when none was needed.

    `before` is the image that the winning plan saw.
    """

    image: Image
    before: Image
    edit: Edit | None


class Request:
    """One call of `commit`: its plan, what the newest try makes of it, and its outcome."""

    def __init__(self, plan: Plan, topics: Collection[str]) -> None:
        self.plan = plan
        self.topics = topics
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
            # What nobody could read must not get into the log: it is read here first.
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
        """Settle the request as it was planned last."""
        if not self.is_settled:
            self._outcome = self._planned
            self.is_settled = True

    def fail(self, error: BaseException) -> None:
        """Settle the request with an error, unless it is settled."""
        if not self.is_settled:
            self._outcome = error
            self.is_settled = True

    def answer(self) -> Committed:
        """Return or raise the outcome."""
        if isinstance(self._outcome, Committed):
            return self._outcome
        if self._outcome is None:
            raise CommitOutcomeUnknownError("a request that nobody planned was settled")
        raise self._outcome


@dataclass(frozen=True, slots=True)
class Planned:
    """What a try of a batch puts: the edits, their JSON as one list, and the image after them."""

    edits: Sequence[Edit]
    data: bytes
    image: Image


class Batch:
    """The requests that share one entry."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.is_in_flight = False
        """Whether the entry may be in its slot, and nobody knows yet."""

    @property
    def waiting(self) -> list[Request]:
        """The requests without an outcome."""
        return [request for request in self.requests if not request.is_settled]

    @property
    def topics(self) -> list[str]:
        """The topics that the plans look into."""
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
        """Settle all requests as they were planned last."""
        for request in self.requests:
            request.land()

    def fail(self, error: BaseException) -> None:
        """Settle the requests that have no outcome with an error, each with one of its own."""
        for request in self.waiting:
            request.fail(copy(error))

    def interrupted(self, request: Request) -> list[Request]:
        """Settle what an interruption of the thread of `request` leaves; return the others.

        Nobody knows of an entry in flight whether it lands; else the others go on without it.
        """
        if self.is_in_flight:
            self.fail(
                CommitOutcomeUnknownError(
                    "the thread that committed was interrupted: the entry may have landed; replay "
                    "with the same txnAppId and txnVersion"
                )
            )
        return [one for one in self.waiting if one is not request]
