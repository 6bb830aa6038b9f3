"""Instances: the gateways of a log dir. To clients, each is a broker, and leads some partitions.

The partitions of a topic are spread over the instances as over brokers. All other work that one
instance does for all (groups, merges of a topic) has a name, and goes to the instance that leads
the name.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from sparklog.metadata.state.cluster import Broker, Endpoint


class Instance(NamedTuple):
    """One gateway, at the address that clients get: that of its first listener."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    endpoints: tuple[Endpoint, ...] = ()

    def at(self, listener: str) -> "Instance | None":
        """Return the instance at its address of the named listener; None if it has none."""
        for one in self.endpoints:
            if one.name == listener:
                return self._replace(host=one.host, port=one.port)
        return None


def instance_of(broker: Broker) -> Instance:
    """Return a broker of the image as an instance."""
    first = broker.endpoints[0]
    return Instance(broker.node_id, first.host, first.port, broker.rack, broker.endpoints)


class Instances:
    """The instances that are alive, this one included."""

    def __init__(self, own: Instance) -> None:
        self.own = own
        self._brokers: Mapping[int, Broker] = {}
        self._alive: Sequence[Instance] = [own]

    @property
    def alive(self) -> Sequence[Instance]:
        """The instances, by node id, as of the image that was seen last. Never empty."""
        return self._alive

    def at(self, listener: str) -> Sequence[Instance]:
        """Return the instances that have the named listener, at their addresses of it.

        Clients of a listener cannot use addresses of another one: it may have TLS. So they see no
        other instances (KRaftMetadataCache.getAliveBrokerNodes). To them the first instance is the
        controller; nothing depends on it. Never empty for a listener of this instance.
        """
        found = (one.at(listener) for one in self.alive)
        return [one for one in found if one is not None]

    def become(self, own: Instance) -> None:
        """Take note of this instance's place: it may have got another node id.

        `alive` has the former place until the next call of `saw`.
        """
        if own != self.own:
            self.own, self._brokers = own, {}

    def saw(self, brokers: Mapping[int, Broker]) -> None:
        """Take note of the brokers of an image."""
        if brokers is self._brokers:
            return
        others = [one for node_id, one in brokers.items() if node_id != self.own.node_id]
        found = [self.own, *map(instance_of, others)]
        self._alive = sorted(found, key=lambda one: one.node_id)
        self._brokers = brokers  # last: another thread may ask between the two


def leader_of(name: str, instances: Sequence[Instance]) -> Instance:
    """Return the instance that leads a name, by rendezvous hashing: all instances agree.

    When an instance joins or leaves, only names that it leads, or led, change their leader.
    """
    if len(instances) == 1:
        return instances[0]
    return max(instances, key=lambda one: _rank(name, one.node_id))


class Leaders(NamedTuple):
    """The leaders of the partitions of a topic: the instances lead them in turns."""

    node_ids: tuple[int, ...]
    """The leaders of partitions 0, 1, 2 and so on; behind the last one it begins again."""
    in_racks: tuple[int, ...] = ()
    """The instances that have a rack."""

    def of(self, partition: int) -> int:
        """Return the node id of the instance that leads a partition."""
        return self.node_ids[partition % len(self.node_ids)]

    def replicas(self, partition: int) -> tuple[int, ...]:
        """Return the node ids of a partition's replicas: the leader, then the instances in racks.

        Java's consumer reads from an instance of its rack only if it is a replica
        (AbstractFetch.selectReadReplica).
        """
        leader = self.of(partition)
        return leader, *(one for one in self.in_racks if one != leader)


@lru_cache(maxsize=100_000)
def leaders_of(topic_id: str, node_ids: tuple[int, ...], in_racks: tuple[int, ...] = ()) -> Leaders:
    """Return the leaders of a topic's partitions, of the instances with these ids: all agree.

    The first one, which leads partition 0, is that of `leader_of`. When an instance joins or
    leaves, the others keep their order, but most partitions change their leader.

    Answers are kept, so this is for the ids of topics alone: names that clients choose may be long.
    """
    turns = sorted(node_ids, key=lambda one: _rank(topic_id, one), reverse=True)
    return Leaders(tuple(turns), in_racks)


def node_ids_of(instances: Iterable[Instance]) -> tuple[int, ...]:
    """Return the node ids of instances, in the same order."""
    return tuple(one.node_id for one in instances)


def in_racks_of(instances: Iterable[Instance]) -> tuple[int, ...]:
    """Return the node ids of the instances that have a rack, in the same order."""
    return tuple(one.node_id for one in instances if one.rack)


def _rank(name: str, node_id: int) -> tuple[bytes, int]:
    return blake2b(f"{node_id} {name}".encode(), digest_size=8).digest(), node_id
