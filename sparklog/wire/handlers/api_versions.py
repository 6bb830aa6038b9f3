"""ApiVersions: the table of versions, and the features (KIP-511, KIP-584).

A request of a version that is not served gets an answer of version 0, with UNSUPPORTED_VERSION and
the table. The client then asks again with a version that is served.
"""

import re
from typing import Final

from sparklog.errors import ErrorCode
from sparklog.wire.handlers.call import Call, Reply
from sparklog.wire.protocol import messages
from sparklog.wire.protocol.versions import APIS, ApiKey

FEATURES: Final = {"transaction.version": 2}
"""Features and their levels. With transaction.version 2 each end of a transaction raises the epoch
(KIP-890)."""

LEVEL_0_SINCE: Final = 4
NAMED_SINCE: Final = 3
"""The first version that names the client's software and its version (KIP-511)."""
_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(call: Call) -> Reply:
    """Return the answer."""
    keys = [
        {"api_key": key, "min_version": api.min_version, "max_version": api.max_version}
        for key, api in APIS.items()
    ]
    if not APIS[ApiKey.API_VERSIONS].serves(call.version):
        fields = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": keys}
        return [messages.encode(ApiKey.API_VERSIONS, 0, fields)]
    request = call.parsed()
    if call.version >= NAMED_SINCE and not (
        _is_name(request.client_software_name) and _is_name(request.client_software_version)
    ):
        return call.answer({"error_code": ErrorCode.INVALID_REQUEST, "api_keys": ()})
    # A client that asks with a version below 4 does not understand 0 here (KAFKA-17011).
    least = int(call.version < LEVEL_0_SINCE)
    features = {
        "supported_features": [
            {"name": name, "min_version": least, "max_version": level}
            for name, level in FEATURES.items()
        ],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in FEATURES.items()
        ],
    }
    return call.answer({"error_code": ErrorCode.NONE, "api_keys": keys, **features})


def _is_name(text: str) -> bool:
    """Return True if ApiVersionsRequest.isValid accepts a name or a version of software."""
    return _NAME.fullmatch(text) is not None
