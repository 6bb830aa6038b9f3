"""Bodies: encode equals kio's own writer, parse passes over tagged fields that it does not know."""

import struct
from importlib import import_module

import pytest

from sparklog.errors import InvalidRequestError
from sparklog.wire.protocol.messages import encode, parse
from sparklog.wire.protocol.versions import ApiKey
from tests.wire.requests import encoded


def test_an_answer_is_written_as_kio_writes_it() -> None:
    kio = import_module("kio.schema.api_versions.v4.response")
    feature = {"name": "transaction.version", "min_version": 0, "max_version": 2}
    fields = {
        "error_code": 35,
        "api_keys": [{"api_key": 3, "min_version": 0, "max_version": 13}],
        "supported_features": [feature],
        "finalized_features_epoch": 7,
        "a_field_of_another_version": 1,
    }
    expected = kio.ApiVersionsResponse(
        error_code=kio.ErrorCode(35),
        api_keys=(kio.ApiVersion(api_key=3, min_version=0, max_version=13),),
        throttle_time=kio.i32Timedelta.parse(__import__("datetime").timedelta(0)),
        supported_features=(kio.SupportedFeatureKey(**feature),),
        finalized_features_epoch=7,
    )
    assert encode(ApiKey.API_VERSIONS, 4, fields) == encoded(expected)


def test_what_is_left_out_has_its_default() -> None:
    assert encode(ApiKey.API_VERSIONS, 0, {}) == bytes(6)


class TestParse:
    NAME = b"\x05rust"
    VERSION = b"\x021"

    def test_passes_over_an_unknown_tagged_field(self) -> None:
        body = self.NAME + self.VERSION + b"\x01\x63\x03abc"
        found = parse(ApiKey.API_VERSIONS, 4, memoryview(body), 0)
        assert (found.client_software_name, found.client_software_version) == ("rust", "1")

    def test_passes_over_one_inside_an_array(self) -> None:
        topic = bytes(16) + b"\x02t" + b"\x01\x09\x01x"
        body = b"\x02" + topic + b"\x01\x00" + b"\x01\x07\x00"
        [found] = parse(ApiKey.METADATA, 12, memoryview(body), 0).topics
        assert found.name == "t"

    def test_keeps_the_tagged_fields_that_it_knows(self) -> None:
        fixed = struct.pack(">iiiib", -1, 500, 1, 1024, 0) + struct.pack(">ii", 0, -1)
        tags = b"\x02" + b"\x00\x04\x04abc" + b"\x63\x00"
        body = fixed + b"\x01" + b"\x01" + b"\x01" + tags
        assert parse(ApiKey.FETCH, 12, memoryview(body), 0).cluster_id == "abc"

    @pytest.mark.parametrize(("tag", "size"), [(b"\x00", 16), (b"\x63", 5)])
    def test_goes_over_tagged_fields_behind_sizes_that_are_always_the_same(
        self, tag: bytes, size: int
    ) -> None:
        fixed = struct.pack(">iiib", 500, 1, 1024, 0) + struct.pack(">ii", 0, -1)
        partition = struct.pack(">iiqiqi", 7, -1, 0, -1, -1, 1024)
        partition += b"\x01" + tag + bytes([size]) + bytes(size)
        body = fixed + b"\x02" + bytes(16) + b"\x02" + partition + b"\0" + b"\x01\x01\0"
        [topic] = parse(ApiKey.FETCH, 17, memoryview(body), 0).topics
        assert [one.partition for one in topic.partitions] == [7]

    @pytest.mark.parametrize("cursor", [b"\xff", b"\x01\x02t\x00\x00\x00\x07\x00"])
    def test_passes_over_one_behind_a_struct_that_may_be_null(self, cursor: bytes) -> None:
        body = b"\x01" + struct.pack(">i", 10) + cursor + b"\x01\x63\x00"
        found = parse(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, memoryview(body), 0).cursor
        assert (found and found.partition_index) == (7 if cursor[0] == 1 else None)

    def test_refuses_one_that_is_cut_behind_it(self) -> None:
        topic = bytes(16) + b"\x02t" + b"\x01\x09\x01x"
        with pytest.raises(InvalidRequestError, match="a body is cut at position 25"):
            parse(ApiKey.METADATA, 12, memoryview(b"\x02" + topic + b"\0\0"), 0)

    @pytest.mark.parametrize(
        ("key", "version", "body"),
        [
            (ApiKey.PRODUCE, 11, b"\0\xff\xff\0\0\0\0" + b"\xff\xff\xff\xff\x2c"),
            (ApiKey.PRODUCE, 3, b"\xff\xff\xff\xff\0\0\0\0" + b"\x7f\xff\xff\xff"),
            (ApiKey.METADATA, 1, b"\x7f\xff\xff\xff"),
            (ApiKey.DELETE_GROUPS, 0, b"\x7f\xff\xff\xff"),
            (ApiKey.DELETE_GROUPS, 2, b"\xff\xff\xff\xff\x07"),
            (ApiKey.DESCRIBE_LOG_DIRS, 1, b"\0\0\0\1\0\1t\x7f\xff\xff\xff"),
        ],
    )
    def test_refuses_an_array_that_is_longer_than_the_body(
        self, key: ApiKey, version: int, body: bytes
    ) -> None:
        with pytest.raises(InvalidRequestError, match="an array of [0-9]{9,} items at position"):
            parse(key, version, memoryview(body), 0)

    @pytest.mark.parametrize("size", [b"\x05", b"\x02"])
    def test_refuses_a_tagged_field_whose_size_is_not_its_own(self, size: bytes) -> None:
        fixed = struct.pack(">iiiib", -1, 500, 1, 1024, 0) + struct.pack(">ii", 0, -1)
        tags = b"\x01" + b"\x00" + size + b"\x04abc\0\0"
        with pytest.raises(InvalidRequestError, match=f"a tagged field of {size[0]} bytes"):
            parse(ApiKey.FETCH, 12, memoryview(fixed + b"\x01\x01\x01" + tags), 0)

    def test_refuses_one_that_ends_behind_the_body(self) -> None:
        with pytest.raises(InvalidRequestError, match="a tagged field of 9 bytes at position"):
            parse(ApiKey.METADATA, 12, memoryview(b"\x01\0\0\x01\x63\x09abc"), 0)

    def test_refuses_more_tagged_fields_than_anyone_sends(self) -> None:
        """Each takes two bytes, and a client need not be authenticated to send them."""
        body = self.NAME + self.VERSION + b"\x65" + b"\x63\0" * 101
        with pytest.raises(
            InvalidRequestError, match="101 tagged fields: a struct has at most 100"
        ):
            parse(ApiKey.API_VERSIONS, 4, memoryview(body), 0)

    def test_refuses_more_items_than_it_can_read_beside_other_requests(self) -> None:
        half = 500_000
        topic = struct.pack(">hi", 0, half) + bytes(4 * half)
        body = struct.pack(">i", 3) + 2 * topic + struct.pack(">hi", 0, 0)
        with pytest.raises(InvalidRequestError, match="1000003 items in arrays"):
            parse(ApiKey.DESCRIBE_LOG_DIRS, 1, memoryview(body), 0)

    def test_ignores_bytes_behind_the_body(self) -> None:
        body = self.NAME + self.VERSION + b"\0" + b"more"
        assert parse(ApiKey.API_VERSIONS, 4, memoryview(body), 0).client_software_name == "rust"

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            NAME,
            NAME + VERSION + b"\x01\x63\x7fabc",
            b"\xff\xff\xff\xff\x0fabc",
            b"\x03\xff\xfe" + VERSION + b"\0",
            NAME + VERSION + b"\x02\x63\x00\x64\xff\xff\xff\xff\xff\xff",
        ],
    )
    def test_refuses_a_body_that_is_cut_or_lies(self, body: bytes) -> None:
        with pytest.raises(InvalidRequestError, match="API_VERSIONS version 4|position"):
            parse(ApiKey.API_VERSIONS, 4, memoryview(body), 0)
