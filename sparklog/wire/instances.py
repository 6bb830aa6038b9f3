"""Instances: the gateways of a log dir, each a broker to clients; and which one leads a topic."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple


class Instance(NamedTuple):
    """One gateway, at the address that clients are told."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Instances:
    """The instances that are alive, this one included."""

    def __init__(self, own: Instance) -> None:
        self.own = own

    @property
    def alive(self) -> Sequence[Instance]:
        """The instances, by node id. Never empty."""
        return [self.own]


def leader_of(name: str, instances: Sequence[Instance]) -> Instance:
    """Return the instance that rendezvous hashing gives a name: all instances agree.

    When an instance joins or leaves, only names that it leads, or led, change their leader.
    """
    if len(instances) == 1:
        return instances[0]
    return max(instances, key=lambda one: (_weight(name, one.node_id), one.node_id))


def _weight(name: str, node_id: int) -> bytes:
    return blake2b(f"{node_id} {name}".encode(), digest_size=8).digest()
