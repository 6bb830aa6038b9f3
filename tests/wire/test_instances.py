"""The leaders of partitions: spread evenly, the same to all, and where a name's leader is."""

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.wire.instances import Instance, in_racks_of, leader_of, leaders_of, node_ids_of

NODE_IDS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True)
TOPIC_IDS = st.text(min_size=1, max_size=22)


def instances(node_ids: list[int]) -> list[Instance]:
    return [Instance(one, "localhost", 9092) for one in node_ids]


class TestLeaders:
    @given(TOPIC_IDS, NODE_IDS)
    @example("Wg0HrG2TTiWUQGmXU8yFzw", [0])
    def test_the_first_is_the_one_of_the_name(self, topic_id: str, node_ids: list[int]) -> None:
        """Goal: who leads partition 0 also merges the topic. Method: compare both functions."""
        leader = leader_of(topic_id, instances(node_ids))
        assert leaders_of(topic_id, tuple(node_ids)).of(0) == leader.node_id

    @given(TOPIC_IDS, NODE_IDS, st.integers(1, 40))
    @example("Wg0HrG2TTiWUQGmXU8yFzw", [0, 1, 2], 8)
    def test_lead_as_many_partitions_each(
        self, topic_id: str, node_ids: list[int], partitions: int
    ) -> None:
        """Goal: no instance has more work than another. Method: count for any topic."""
        leaders = leaders_of(topic_id, node_ids_of(instances(node_ids)))
        counts = Counter(leaders.of(number) for number in range(partitions))
        each = [counts[one] for one in node_ids]
        assert sum(each) == partitions
        assert max(each) - min(each) <= 1

    @given(TOPIC_IDS, NODE_IDS)
    def test_are_the_same_in_whatever_order_instances_are_known(
        self, topic_id: str, node_ids: list[int]
    ) -> None:
        """Goal: all instances agree. Method: turn the instances round."""
        leaders = leaders_of(topic_id, tuple(node_ids))
        assert leaders_of(topic_id, tuple(reversed(node_ids))) == leaders
        assert sorted(leaders.node_ids) == sorted(node_ids)

    @given(TOPIC_IDS, NODE_IDS, st.integers(0, 2**31 - 1))
    def test_keep_their_order_when_one_joins_or_leaves(
        self, topic_id: str, node_ids: list[int], other: int
    ) -> None:
        """Goal: partition 0 moves only if it must. Method: with and without any one instance."""
        others = [one for one in node_ids if one != other]
        left = [one for one in leaders_of(topic_id, (*others, other)).node_ids if one != other]
        assert left == [*leaders_of(topic_id, tuple(others)).node_ids]

    @given(TOPIC_IDS, st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=5))
    def test_are_replicas_as_are_the_leaders_in_each_rack(
        self, topic_id: str, racks: list[str]
    ) -> None:
        """Goal: Java's consumers read in their rack. Method: each rack's leader, any racks."""
        alive = [
            one._replace(rack=rack)
            for one, rack in zip(instances([*range(len(racks))]), racks, strict=True)
        ]
        leaders = leaders_of(topic_id, node_ids_of(alive), in_racks_of(alive))
        for number in range(6):
            replicas = leaders.replicas(number)
            assert replicas[0] == leaders.of(number)
            assert len(set(replicas)) == len(replicas)
            for rack in {*racks} - {""}:
                near = node_ids_of(one for one in alive if one.rack == rack)
                assert leaders_of(topic_id, near).of(number) in replicas

    def test_without_racks_a_partition_has_one_replica(self) -> None:
        assert leaders_of("t", (0, 1, 2)).replicas(4) == (leaders_of("t", (0, 1, 2)).of(1),)

    def test_those_of_many_topics_begin_everywhere(self) -> None:
        firsts = Counter(leaders_of(f"topic-{one}", (0, 1, 2)).of(0) for one in range(300))
        assert min(firsts[one] for one in (0, 1, 2)) > 60
