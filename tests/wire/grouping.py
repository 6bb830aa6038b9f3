"""A member of a group, request by request."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i32Timedelta, i64Timedelta

from sparklog.wire.protocol.versions import ApiKey
from tests.wire.gateways import Client
from tests.wire.requests import body, newest, part

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

    def version(self, api: ApiKey) -> int:
        return self.versions.get(api.name.lower(), newest(api))

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
        api, version = ApiKey.JOIN_GROUP, self.version(ApiKey.JOIN_GROUP)
        protocol = part(api, version, "JoinGroupRequestProtocol", name="range", metadata=metadata)
        return body(
            api,
            version,
            group_id=self.group,
            session_timeout=self.session,
            rebalance_timeout=self.session,
            member_id=self.member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=(protocol,),
            reason=None,
        )

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> Any:
        api, version = ApiKey.SYNC_GROUP, self.version(ApiKey.SYNC_GROUP)
        parts = tuple(
            part(api, version, "SyncGroupRequestAssignment", member_id=one, assignment=data)
            for one, data in (assignments or {}).items()
        )
        return self.client.ask(
            body(
                api,
                version,
                assignments=parts,
                protocol_type="consumer",
                protocol_name="range",
                **self.identity(),
            )
        )

    def heartbeat(self) -> ErrorCode:
        api = ApiKey.HEARTBEAT
        answer = self.client.ask(body(api, self.version(api), **self.identity()))
        code: ErrorCode = answer.error_code
        return code

    def leave(self) -> list[ErrorCode]:
        """The codes of the request and of its member."""
        api, version = ApiKey.LEAVE_GROUP, self.version(ApiKey.LEAVE_GROUP)
        fields: dict[str, Any] = {"member_id": self.member_id}
        if version >= 3:
            optional = {"group_instance_id": None, "reason": None}
            fields = {"members": (part(api, version, "MemberIdentity", **fields, **optional),)}
        answer = self.client.ask(body(api, version, group_id=self.group, **fields))
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
        answer = self.client.receive(ApiKey.OFFSET_COMMIT, self.version(ApiKey.OFFSET_COMMIT))
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    def commit_request(self, offsets: Offsets, metadata: str = "") -> Any:
        api, version = ApiKey.OFFSET_COMMIT, self.version(ApiKey.OFFSET_COMMIT)
        topics = [
            commit_topic(version, topic, (partition, offset, -1, metadata))
            for (topic, partition), offset in offsets.items()
        ]
        return body(
            api,
            version,
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=None,
            retention_time=i64Timedelta.parse(timedelta(milliseconds=-1)),
            topics=tuple(topics),
        )

    def committed(self, *places: tuple[str, int]) -> dict[tuple[str, int], int]:
        """The offsets of partitions, -1 where there is none; without partitions, of all."""
        api, version = ApiKey.OFFSET_FETCH, self.version(ApiKey.OFFSET_FETCH)
        kind = "OffsetFetchRequestTopics" if version >= 8 else "OffsetFetchRequestTopic"
        topics = tuple(
            part(api, version, kind, name=topic, partition_indexes=(partition,))
            for topic, partition in places
        )
        fields: dict[str, Any] = {"group_id": self.group, "topics": topics or None}
        if version >= 8:
            optional = {"member_id": None, "member_epoch": -1}
            group = part(api, version, "OffsetFetchRequestGroup", **fields, **optional)
            fields = {"groups": (group,)}
        answer = self.client.ask(body(api, version, require_stable=False, **fields))
        found = answer.groups[0] if version >= 8 else answer
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in found.topics
            for one in topic.partitions
        }


def commit_topic(version: int, name: str, *places: tuple[int, int, int, str | None]) -> Any:
    """A topic of an OffsetCommit; of each place partition, offset, leader epoch and metadata."""
    partitions = [
        part(
            ApiKey.OFFSET_COMMIT,
            version,
            "OffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            committed_metadata=metadata,
        )
        for partition, offset, epoch, metadata in places
    ]
    fields = {"name": name, "partitions": tuple(partitions)}
    return part(ApiKey.OFFSET_COMMIT, version, "OffsetCommitRequestTopic", **fields)


def alone(client: Client, group: str = "readers", **versions: int) -> GroupMember:
    """The only member of a group, with an assignment."""
    member = GroupMember(client, group, **versions)
    member.join(b"subscription")
    member.sync({member.member_id: b"everything"})
    return member
