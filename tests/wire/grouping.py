"""A member of a group, request by request."""

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta, i64Timedelta

from sparklog.wire.protocol.versions import ApiKey
from tests.wire.gateways import Client
from tests.wire.requests import body

QUICK = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 4}
"""Settings of a gateway whose groups do not wait for members."""
SESSION = i32Timedelta.parse(timedelta(seconds=10))
Offsets = Mapping[tuple[str, int], int]


class GroupMember:
    """A member that asks in one version of each API: the newest ones unless told."""

    session = SESSION

    def __init__(self, client: Client, group: str = "readers", **versions: int) -> None:
        self.client = client
        self.group = group
        self.versions = versions
        self.member_id = ""
        self.generation = -1
        self.leader = ""

    def version(self, api: ApiKey, newest: int) -> int:
        return self.versions.get(api.name.lower(), newest)

    def join(self, metadata: bytes = b"", instance_id: str | None = None) -> Any:
        """The answer to JoinGroup; a member that is told its id asks once more with it."""
        answer = self.client.ask(self.join_request(metadata, instance_id))
        self.member_id = answer.member_id
        if answer.error_code is ErrorCode.member_id_required:
            answer = self.client.ask(self.join_request(metadata, instance_id))
        if answer.error_code is ErrorCode.none:
            self.generation, self.leader = answer.generation_id, answer.leader
        return answer

    def join_request(self, metadata: bytes = b"", instance_id: str | None = None) -> Any:
        version = self.version(ApiKey.JOIN_GROUP, 9)
        kio = import_module(f"kio.schema.join_group.v{version}.request")
        return body(
            ApiKey.JOIN_GROUP,
            version,
            group_id=self.group,
            session_timeout=self.session,
            rebalance_timeout=self.session,
            member_id=self.member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=(kio.JoinGroupRequestProtocol(name="range", metadata=metadata),),
            reason=None,
        )

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> Any:
        version = self.version(ApiKey.SYNC_GROUP, 5)
        kio = import_module(f"kio.schema.sync_group.v{version}.request")
        parts = tuple(
            kio.SyncGroupRequestAssignment(member_id=one, assignment=data)
            for one, data in (assignments or {}).items()
        )
        return self.client.ask(
            body(
                ApiKey.SYNC_GROUP,
                version,
                assignments=parts,
                protocol_type="consumer",
                protocol_name="range",
                **self.identity(),
            )
        )

    def heartbeat(self) -> ErrorCode:
        version = self.version(ApiKey.HEARTBEAT, 4)
        answer = self.client.ask(body(ApiKey.HEARTBEAT, version, **self.identity()))
        code: ErrorCode = answer.error_code
        return code

    def leave(self) -> list[ErrorCode]:
        """The codes of the request and of its member."""
        version = self.version(ApiKey.LEAVE_GROUP, 5)
        kio = import_module(f"kio.schema.leave_group.v{version}.request")
        members: Any = ()
        if version >= 3:
            optional = {"reason": None} if version >= 5 else {}
            identity = {"member_id": self.member_id, "group_instance_id": None}
            members = (kio.MemberIdentity(**identity, **optional),)
        asked = body(
            ApiKey.LEAVE_GROUP,
            version,
            group_id=self.group,
            member_id=self.member_id,
            members=members,
        )
        answer = self.client.ask(asked)
        return [answer.error_code, *(one.error_code for one in getattr(answer, "members", ()))]

    def identity(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": None,
        }

    def commit(self, offsets: Offsets, metadata: str = "") -> list[ErrorCode]:
        """The code of each partition."""
        self.client.send(self.commit_request(offsets, metadata))
        return self.commit_answer()

    def commit_answer(self) -> list[ErrorCode]:
        """The codes of a commit that was sent."""
        version = self.version(ApiKey.OFFSET_COMMIT, 9)
        answer = self.client.receive(ApiKey.OFFSET_COMMIT, version)
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    def commit_request(self, offsets: Offsets, metadata: str = "") -> Any:
        version = self.version(ApiKey.OFFSET_COMMIT, 9)
        kio = import_module(f"kio.schema.offset_commit.v{version}.request")
        epoch = {"committed_leader_epoch": -1} if version >= 6 else {}
        topics = tuple(
            kio.OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    kio.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                        **epoch,
                    ),
                ),
            )
            for (topic, partition), offset in offsets.items()
        )
        return body(
            ApiKey.OFFSET_COMMIT,
            version,
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            retention_time=i64Timedelta.parse(timedelta(milliseconds=-1)),
            topics=topics,
        )

    def committed(self, *places: tuple[str, int]) -> dict[tuple[str, int], int]:
        """The offsets of partitions, -1 where there is none; without partitions, of all."""
        version = self.version(ApiKey.OFFSET_FETCH, 9)
        kio = import_module(f"kio.schema.offset_fetch.v{version}.request")
        if version >= 8:
            topics = tuple(
                kio.OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,))
                for topic, partition in places
            )
            epoch = {"member_id": None, "member_epoch": -1} if version >= 9 else {}
            wanted = kio.OffsetFetchRequestGroup(
                group_id=self.group, topics=topics or None, **epoch
            )
            asked = body(ApiKey.OFFSET_FETCH, version, groups=(wanted,), require_stable=False)
            answer = self.client.ask(asked)
            found = answer.groups[0].topics
        else:
            topics = tuple(
                kio.OffsetFetchRequestTopic(name=topic, partition_indexes=(partition,))
                for topic, partition in places
            )
            asked = body(
                ApiKey.OFFSET_FETCH,
                version,
                group_id=self.group,
                topics=topics or None,
                require_stable=False,
            )
            found = self.client.ask(asked).topics
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in found
            for one in topic.partitions
        }


def alone(client: Client, group: str = "readers", **versions: int) -> GroupMember:
    """The only member of a group, with an assignment."""
    member = GroupMember(client, group, **versions)
    member.join(b"subscription")
    member.sync({member.member_id: b"everything"})
    return member
