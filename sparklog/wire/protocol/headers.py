"""The headers of requests and answers.

    request   int16 api key, int16 version, int32 correlation id, nullable string client id; then
              (header v2) tagged fields, from the API's first flexible version on
    answer    int32 correlation id; then tagged fields, from the API's first flexible version on.
              ApiVersions never has them: the client does not know the versions yet

Header v0, without a client id, belongs to ControlledShutdown alone, which is not served.
"""

import struct
from typing import Final, NamedTuple

from sparklog.errors import InvalidRequestError
from sparklog.wire.protocol.versions import APIS, ApiKey

_FIXED: Final = struct.Struct(">hhih")
_SERVED: Final = {int(api_key): (api_key, api) for api_key, api in APIS.items()}
_VARINT_MAX: Final = 5
NULL: Final = -1
TAGS_MAX: Final = 100
"""The most tagged fields of a struct. No API has ten. An unknown one takes two bytes, and longer to
read than a client to send: half a megabyte of them, before authentication, a fifth of a second."""


class RequestHeader(NamedTuple):
    """The header of a request; its body begins at `body_at` of the frame.

    `is_flexible`: the version of the API has tagged fields.
    """

    api_key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int
    is_flexible: bool = False


NO_HEADER: Final = RequestHeader(ApiKey.SASL_AUTHENTICATE, 0, 0, None, 0)
"""The header of a SASL message, which comes as a frame without a header."""


def request_header(frame: memoryview) -> RequestHeader:
    """Return the header of a frame.

    Raises InvalidRequestError for one that is cut, for a client id that is no UTF-8, and for an API
    that is not served. ApiVersions may have any version: its answer names those that are served.
    """
    try:
        number, version, correlation_id, length = _FIXED.unpack_from(frame)
    except struct.error:
        raise InvalidRequestError(f"a request header of {len(frame)} bytes") from None
    at = _FIXED.size + max(length, 0)
    if length < NULL or at > len(frame):
        raise InvalidRequestError(f"a client id of {length} bytes in a frame of {len(frame)}")
    client_id = None if length == NULL else _text(frame[_FIXED.size : at])
    served = _SERVED.get(number)
    if served is None:
        raise InvalidRequestError(f"API key {number} is not served")
    api_key, api = served
    is_flexible = version >= api.flexible_from
    if not api.serves(version):
        if api_key != ApiKey.API_VERSIONS:
            raise InvalidRequestError(
                f"{api_key.name} version {version}: served are "
                f"{max(api.min_version, api.served_from)} to {api.max_version}"
            )
    elif is_flexible:
        at = _behind_tags(frame, at)
    return RequestHeader(api_key, version, correlation_id, client_id, at, is_flexible)


def answer_header(header: RequestHeader) -> bytes:
    """Return the header of the answer to a request."""
    head = header.correlation_id.to_bytes(4, "big", signed=True)
    return head + b"\0" if header.is_flexible and header.api_key != ApiKey.API_VERSIONS else head


def _text(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        raise InvalidRequestError("a client id that is no UTF-8") from None


def _behind_tags(frame: memoryview, at: int) -> int:
    """Return the position behind tagged fields; the fields of a header are not used."""
    if at < len(frame) and not frame[at]:  # mostly there are none
        return at + 1
    count, at = read_varint(frame, at)
    for _ in range(checked_tags(count)):
        _, at = read_varint(frame, at)
        size, at = read_varint(frame, at)
        at += size
    if at > len(frame):
        raise InvalidRequestError("tagged fields beyond the end of the request")
    return at


def checked_tags(count: int) -> int:
    """Return the number of tagged fields of a struct. Raises InvalidRequestError for too many."""
    if count > TAGS_MAX:
        raise InvalidRequestError(f"{count} tagged fields: a struct has at most {TAGS_MAX}")
    return count


def read_varint(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """Return the unsigned varint at a position, and the position behind it.

    Raises InvalidRequestError.
    """
    value = 0
    for place in range(_VARINT_MAX):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise InvalidRequestError(f"no unsigned varint at position {at}")
