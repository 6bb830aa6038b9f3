"""Pages of v3 lists: `page_size` elements, and the URL of the next page in `metadata.next`.

    GET …/topics?page_size=2      ["a", "b"]   next: …/topics?page_size=2&page_token=ImIi
    GET …/topics?page_size=2&…    ["c"]        next: null

A token names the last element of its page, not a count. So if elements are added or removed between
two pages, no element is listed twice, and no element that was there all the time is left out.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeVar

import orjson
from fastapi import Depends, Query, Request

from sparklog.rest.errors import ApiError

PAGE_SIZE_MAX: Final = 10_000
TOKEN_MAX: Final = 16 * 1024
"""Enough for a name of 2,000 characters, each escaped; by default max_header_bytes leaves room."""

Element = TypeVar("Element")
Key = TypeVar("Key", str, int)


class Page:
    """The page of a list that a request asks for; without `page_size`: all the rest."""

    def __init__(
        self,
        request: Request,
        page_size: Annotated[
            int | None, Query(ge=1, le=PAGE_SIZE_MAX, description="Elements per page; default all")
        ] = None,
        page_token: Annotated[
            str | None,
            Query(
                max_length=TOKEN_MAX,
                pattern="^[A-Za-z0-9_-]*$",
                description="The token in metadata.next",
            ),
        ] = None,
    ) -> None:
        self._url = request.url
        self._size = page_size
        self._token = page_token

    def of(
        self, elements: Sequence[Element], key: Callable[[Element], Key], kind: type[Key]
    ) -> tuple[list[Element], str | None]:
        """Return the elements on the page, and the URL of the next page or None.

        `elements` are sorted by `key`, which returns a `kind`. Raises ApiError (422) for a token
        that does not belong to this list.
        """
        start = 0
        if self._token is not None:
            start = bisect_right(elements, _last(self._token, kind), key=key)
        rest = list(elements[start:])
        if self._size is None or self._size >= len(rest):
            return rest, None
        chosen = rest[: self._size]
        token = base64.urlsafe_b64encode(orjson.dumps(key(chosen[-1]))).decode().rstrip("=")
        link = self._url.include_query_params(page_size=self._size, page_token=token)
        return chosen, str(link)


def _last(token: str, kind: type[Key]) -> Key:
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError):
        found = None
    if type(found) is not kind:
        raise ApiError(422, "query.page_token: not of this list; take it from metadata.next")
    return found


PageAsked = Annotated[Page, Depends(Page)]
