"""All ways to find the leader of a topic agree."""

from hypothesis import given
from hypothesis import strategies as st

from sparklog.wire.instances import Instance, leader_of, leader_of_topic

NODE_IDS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5, unique=True)


class TestLeader:
    @given(st.text(min_size=1, max_size=22), NODE_IDS)
    def test_of_a_topic_is_the_one_of_its_id(self, topic_id: str, node_ids: list[int]) -> None:
        instances = [Instance(one, "localhost", 9092) for one in node_ids]
        leader = leader_of(topic_id, instances)
        assert leader_of_topic(topic_id, tuple(node_ids)) == leader.node_id
