"""THE table: the APIs that the gateway serves, with Kafka 4.1.1's version ranges.

What is not in it is not announced. `flexible_from` is the first version with tagged fields
(KIP-482). Produce is announced from 0 and served from 3, as Kafka does (KAFKA-18659): librdkafka
sends uncompressed records to a broker that does not announce 0.
"""

from enum import IntEnum
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """Kafka's API keys (org.apache.kafka.common.protocol.ApiKeys)."""

    PRODUCE = 0
    METADATA = 3
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    SASL_AUTHENTICATE = 36


class Api(NamedTuple):
    """One API: the versions that are announced, the first flexible one, the first one served."""

    min_version: int
    max_version: int
    flexible_from: int
    served_from: int = 0

    def serves(self, version: int) -> bool:
        """Whether requests of a version are answered."""
        return max(self.min_version, self.served_from) <= version <= self.max_version


NEVER: Final = 2**15
"""The first flexible version of an API that has none."""

APIS: Final = {
    ApiKey.PRODUCE: Api(0, 13, 9, served_from=3),
    ApiKey.METADATA: Api(0, 13, 9),
    ApiKey.SASL_HANDSHAKE: Api(0, 1, NEVER),
    ApiKey.API_VERSIONS: Api(0, 4, 3),
    ApiKey.INIT_PRODUCER_ID: Api(0, 5, 2),
    ApiKey.SASL_AUTHENTICATE: Api(0, 2, 2),
}
