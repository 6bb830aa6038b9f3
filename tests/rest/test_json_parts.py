"""Bodies in parts: what is said of the parts is what is said of the whole."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.rest.errors import ApiError
from sparklog.rest.payloads import json_parts
from sparklog.rest.payloads.batch import batch_of
from sparklog.rest.payloads.json_parts import list_parts, stream_parts
from sparklog.rest.payloads.records import RECORDS_MAX, REFUSALS_MAX, rows_of, rows_of_stream

RECORDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "key": st.none() | st.text('a"\\[]{},:é'),
        "value": st.none() | st.lists(st.integers() | st.dictionaries(st.text(), st.none())),
        "partition": st.integers(-1, 3),
        "headers": st.none() | st.lists(st.just({"key": "h", "value": "YQ=="})),
        "nothing": st.just([{}]),
    },
)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every body were a large one, and had parts of four values."""
    monkeypatch.setattr(json_parts, "WHOLE_BYTES", 40)
    monkeypatch.setattr(json_parts, "PART_VALUES", 4)
    monkeypatch.setattr(json_parts, "VALUES_MAX", 20)


def answer_to(body: bytes) -> Any:
    """The columns of a body, or the codes of its refusal and the first problem."""
    try:
        return rows_of(body, None, is_json=True)
    except ApiError as refusal:
        return refusal.error_code, refusal.message.partition(";")[0]


def refusal_of(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as found:
        rows_of(body, None, is_json=True)
    return found.value


class TestList:
    @given(st.lists(RECORDS, min_size=1, max_size=30))
    @example([{}] * 9)
    def test_the_parts_say_what_the_whole_says(self, records: list[Any]) -> None:
        """Goal: one answer. Method: the same records, parsed at once and in parts of one value."""
        body = json.dumps({"records": records, "key_schema": None}).encode()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_parts, "WHOLE_BYTES", len(body))
            whole = answer_to(body)
            patch.setattr(json_parts, "WHOLE_BYTES", 40)
            patch.setattr(json_parts, "PART_VALUES", 1)

            assert answer_to(body) == whole

    def test_are_the_first_with_their_surroundings_then_the_others(self, in_parts: None) -> None:
        body = b'{"key_schema":null, "records" : [{"key":1},{},{"key":3},{},{}] }'

        assert [*list_parts(body, "records", 5)] == [
            b'{"key_schema":null, "records" : [{"key":1},{}] }',
            b'[{"key":3},{}]',
            b"[{}]",
        ]

    @pytest.mark.parametrize(
        ("body", "code", "message"),
        [
            (b'{"records":[{},{},{},{},{},{},{},{"key":1},]}', 422, "records.8: List should have"),
            (b'{"records":[{},{},{},{},{},{},{},{"key":1},5]}', 422, "records.8: Input should be"),
            (b'{"records":[{},{},{},{},{},{},{},{"key":1}', 42203, "Invalid JSON"),
            (b'{"records":[{},{},{},{},{},{},{}],"records":[{}]}', 422, "stands twice"),
            (b'{"records":[{"key":' + b"[" * 21 + b"]" * 21 + b"}]}", 413, "at most 20 values"),
            (b'{"nothing":[' + b"0," * 21 + b"0]}", 422, "must have a list 'records'"),
            (b'{"records":[{}],"key_schema":"' + b"x" * 40 + b'"}', 422, "at most 40 bytes beside"),
        ],
    )
    def test_what_is_wrong_is_told_by_its_place(
        self, in_parts: None, body: bytes, code: int, message: str
    ) -> None:
        refusal = refusal_of(body)

        assert (refusal.error_code, message in refusal.message) == (code, True), refusal.message

    def test_a_list_stands_once_in_a_small_body_too(self) -> None:
        refusal = refusal_of(b'{"records":[{"value":"YQ=="}],"records":[{}]}')
        assert (refusal.error_code, "stands twice" in refusal.message) == (422, True)
        body = b'{"records":[{"value":{"records":[1]}}]}'
        assert [*list_parts(body, "records", 5)] == [body]

    def test_of_too_many_elements_is_none(self, in_parts: None) -> None:
        with pytest.raises(ApiError, match="at most 5 records"):
            next(list_parts(b'{"records":[' + b"{}," * 20 + b"{}]}", "records", 5))

    def test_entries_of_a_batch_come_in_parts(self, in_parts: None) -> None:
        entries = [{"id": str(number), "value": {"data": "YQ=="}} for number in range(9)]
        ids, rows, sent = batch_of(json.dumps({"entries": entries}).encode())

        assert (ids, rows.value) == ([str(number) for number in range(9)], [b"a"] * 9)
        assert [one.refusal for one in sent] == [None] * 9


class TestStream:
    def test_is_cut_behind_objects(self, in_parts: None) -> None:
        body = b'{"a":[1,2]} {} {"b":"}"}  ' * 3
        parts = list(stream_parts(body, 9))

        assert [part for _, part in parts][:2] == [b'{"a":[1,2]} {}', b' {"b":"}"}  {"a":[1,2]}']
        assert b"".join(part for _, part in parts) == body
        assert all(body[start:].startswith(part) for start, part in parts)

    def test_the_parts_say_what_the_whole_says(self, in_parts: None) -> None:
        body = b'{"value":{"data":"YQ=="}} ' * 9 + b'{"nothing":1} 5 "x"{} ]'
        rows, sent = rows_of_stream(body)

        assert rows.value == [b"a"] * 9 + [None]
        assert [one.refusal is None for one in sent] == [True] * 9 + [False] * 3 + [True, False]
        last = sent[-1].refusal
        assert last is not None
        assert last.message == f"no JSON at byte {len(body) - 1}"

    def test_what_follows_text_that_is_no_json_is_not_looked_at(self, in_parts: None) -> None:
        _, sent = rows_of_stream(b"{}" * 5 + b" nothing " + b"{}" * 30)

        assert len(sent) == 6

    def test_of_too_many_objects_is_none(self, in_parts: None) -> None:
        with pytest.raises(ApiError, match="at most 5 records"):
            next(stream_parts(b"{}" * 30, 5))

    def test_of_too_many_refusals_is_refused(self) -> None:
        with pytest.raises(ApiError, match=f"more than {REFUSALS_MAX} objects are no records"):
            rows_of_stream(b"5 " * (REFUSALS_MAX + 1))
        assert RECORDS_MAX > REFUSALS_MAX

    @pytest.mark.parametrize("data", ["日本 🗾", ["日本 🗾", 2**70, 1.5]])
    @pytest.mark.parametrize("end", [b"", b" {}", b" NaN"])
    def test_a_large_object_is_parsed_as_a_small_one(
        self, in_parts: None, monkeypatch: pytest.MonkeyPatch, data: Any, end: bytes
    ) -> None:
        body = json.dumps({"value": {"type": "JSON", "data": data}}, ensure_ascii=False).encode()
        body += end
        whole = rows_of_stream(body)
        monkeypatch.setattr("sparklog.rest.payloads.records.PART_BYTES", 1)
        in_one = rows_of_stream(body)

        assert in_one[0] == whole[0]
        assert list(map(str, in_one[1])) == list(map(str, whole[1]))
