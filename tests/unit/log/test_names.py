import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import InvalidTopicError, UsageError
from sparklog.log import names
from sparklog.log.names import SegmentName

UUID = "018bcfe5-6800-7000-8000-000000000000"
DIGITS = "00000000000000000042"


class TestSegmentName:
    @pytest.mark.parametrize(
        ("name", "parts"),
        (
            (f"{DIGITS}.{UUID}.log", SegmentName(42, UUID, ".log")),
            (f"{DIGITS}.{UUID}.index", SegmentName(42, UUID, ".index")),
            (f"{DIGITS}.{UUID}.timeindex", SegmentName(42, UUID, ".timeindex")),
            (f"{DIGITS}.log", SegmentName(42, None, ".log")),
            ("00000000000000000000.log", SegmentName(0, None, ".log")),
            ("09223372036854775807.index", SegmentName(2**63 - 1, None, ".index")),
        ),
    )
    def test_parses_what_it_writes(self, name: str, parts: SegmentName) -> None:
        parsed = names.parse_segment_name(name)

        assert parsed == parts
        assert names.segment_name(*parts) == name

    @pytest.mark.parametrize(
        "name",
        (
            "",
            ".log",
            DIGITS,
            f"{DIGITS}.",
            f"{DIGITS}log",
            f"{DIGITS}.LOG",
            f"{DIGITS}.snapshot",
            f"{DIGITS}.log.deleted",
            f"{DIGITS}.log.swap",
            f"{DIGITS}.log.tmp",
            f"{DIGITS}.log\n",
            f" {DIGITS}.log",
            f"+{DIGITS[1:]}.log",
            f"-{DIGITS[1:]}.log",
            f"{DIGITS[1:]}.log",
            f"0{DIGITS}.log",
            "09223372036854775808.log",
            "99999999999999999999.log",
            "0000000000000000004x.log",
            "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.log",
            f"{DIGITS}..log",
            f"{DIGITS}.{UUID}",
            f"{DIGITS}.{UUID.upper()}.log",
            f"{DIGITS}.{UUID[:-1]}.log",
            f"{DIGITS}.{UUID.replace('-', '')}.log",
            f"{DIGITS}.{UUID[:14]}4{UUID[15:]}.log",
            f"{DIGITS}.{UUID[:19]}c{UUID[20:]}.log",
            f"{DIGITS}.{UUID}.{UUID}.log",
            f"{DIGITS}.{UUID}.log.log",
            f"flights-0/{DIGITS}.log",
        ),
    )
    def test_refuses_every_other_name(self, name: str) -> None:
        assert names.parse_segment_name(name) is None

    @given(
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**48 - 1),
        st.binary(min_size=10, max_size=16),
        st.sampled_from([names.LOG_SUFFIX, names.INDEX_SUFFIX, names.TIME_INDEX_SUFFIX]),
    )
    def test_round_trips(self, base: int, now_ms: int, random: bytes, suffix: str) -> None:
        """Goal: no legal name is refused. Method: write, parse, compare over all values."""
        uuid = names.uuid7(now_ms, random)

        parsed = names.parse_segment_name(names.segment_name(base, uuid, suffix))

        assert parsed == SegmentName(base, uuid, suffix)


class TestPartitionDir:
    @pytest.mark.parametrize(
        ("topic", "partition", "name"), (("flights", 0, "flights-0"), ("a-b", 7, "a-b-7"))
    )
    def test_ends_with_the_partition(self, topic: str, partition: int, name: str) -> None:
        assert names.partition_dir(topic, partition) == name


class TestTopicDir:
    def test_ends_with_the_topic_id(self) -> None:
        assert names.topic_dir("flights", "A" * 22) == "flights-" + "A" * 22

    def test_cuts_a_long_topic_so_that_the_name_fits_a_file_system(self) -> None:
        assert names.topic_dir("t" * 249, "A" * 22) == "t" * 200 + "-" + "A" * 22


class TestTopicId:
    def test_is_a_version_4_uuid_in_base64url(self) -> None:
        assert names.random_uuid(bytes(16)) == "AAAAAAAAQACAAAAAAAAAAA"

    @given(st.binary(min_size=16, max_size=16).map(lambda raw: b"\xf9" + raw[1:]))
    def test_never_begins_with_a_dash(self, random: bytes) -> None:
        """Goal: an id is no option to a tool. Method: every first byte that would give '-'."""
        topic_id = names.random_uuid(random)

        assert len(topic_id) == 22
        assert topic_id[0] == "e"

    @pytest.mark.parametrize("size", (0, 15, 17))
    def test_takes_16_bytes_only(self, size: int) -> None:
        with pytest.raises(UsageError, match="16 random bytes"):
            names.random_uuid(bytes(size))


class TestUuid7:
    def test_matches_the_example_of_the_rfc(self) -> None:
        random = bytes.fromhex("0cc398c4dc0c0c07398f")

        assert names.uuid7(0x017F22E279B0, random) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"

    @given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
    def test_gives_its_time_back(self, now_ms: int, random: bytes) -> None:
        """Goal: age is read from names alone. Method: every time, whatever the random bits."""
        assert names.uuid7_ms(names.uuid7(now_ms, random)) == now_ms

    @pytest.mark.parametrize("now_ms", (-1, 2**48))
    def test_refuses_times_it_cannot_hold(self, now_ms: int) -> None:
        with pytest.raises(UsageError, match="holds times"):
            names.uuid7(now_ms, bytes(10))

    def test_refuses_too_few_random_bytes(self) -> None:
        with pytest.raises(UsageError, match="10 random bytes"):
            names.uuid7(0, bytes(9))


class TestTheTimeInAName:
    UUID = names.uuid7(4711, bytes(10))
    DIGITS = "0" * 20

    @pytest.mark.parametrize(
        "path",
        (
            *(f"{DIGITS}.{UUID}.log", f"t-x/t-0/{DIGITS}.{UUID}.keyindex", f"__shared/{UUID}.log"),
            *(f"part-{UUID}.parquet", f"_runs/{DIGITS}-{DIGITS}-{UUID}.parquet"),
            f"_edits/{DIGITS}-{UUID}.json",
        ),
    )
    def test_is_when_the_file_was_made(self, path: str) -> None:
        assert names.born_ms(path) == 4711

    @pytest.mark.parametrize(
        "path",
        (
            *(f"t-0/{DIGITS}.log", f"{UUID}.log", f"__shared/a/{UUID}.log", f"{DIGITS}.{UUID}.txt"),
            *("__shared/notes.log", "part-0187c5d1-0000-4000-8000-000000000000.parquet"),
            f"date=1/part-{UUID}.parquet",
        ),
    )
    def test_of_another_form_is_not_known(self, path: str) -> None:
        assert names.born_ms(path) is None


class TestTopicName:
    @pytest.mark.parametrize("name", ("a", "A.b_c-9", "...", "-", "__consumer_offsets", "x" * 249))
    def test_accepts_what_kafka_accepts(self, name: str) -> None:
        names.validate_topic_name(name)

        assert names.topic_name_problem(name) is None

    @pytest.mark.parametrize(
        ("name", "problem"),
        (
            ("", "is empty"),
            (".", "means a directory"),
            ("..", "means a directory"),
            ("x" * 250, "has 250 characters"),
            ("a b", "holds other characters"),
            ("a/b", "holds other characters"),
            ("a\n", "holds other characters"),
            ("ä", "holds other characters"),
            ("٣", "holds other characters"),
            ("a\0", "holds other characters"),
        ),
    )
    def test_says_what_is_wrong_and_what_is_allowed(self, name: str, problem: str) -> None:
        with pytest.raises(InvalidTopicError, match=f"{problem}.*allowed are 1 to 249"):
            names.validate_topic_name(name)

    @pytest.mark.parametrize(
        ("a", "b", "same"),
        (("a.b", "a_b", True), ("a.b", "a.b", True), ("a.b", "a-b", False), ("a", "A", False)),
    )
    def test_dots_and_underscores_are_one_to_metrics(self, a: str, b: str, same: bool) -> None:
        assert (names.metric_name(a) == names.metric_name(b)) is same
