import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparklog.log.names import INDEX_SUFFIX, LOG_SUFFIX, segment_name, uuid7
from sparklog.log.vacuum import Fate, fates
from tests.naive import vacuum as naive

HORIZON = 1_700_000_000_000


def file(born_ms: int, directory: str = "t-0", suffix: str = LOG_SUFFIX) -> str:
    return f"{directory}/{segment_name(0, uuid7(born_ms, bytes(10)), suffix)}"


def fate(path: str, kept: str = "", released: str = "") -> Fate | None:
    """What becomes of one file; None when it is not looked at."""
    found = fates([path], {kept}, {released}, HORIZON)
    return next((fate for fate, paths in found.items() if paths), None)


class TestFate:
    def test_what_a_segment_needs_is_kept_however_old(self) -> None:
        assert fate(file(0), kept=file(0)) is Fate.KEPT

    def test_what_a_removed_segment_needed_goes_however_young(self) -> None:
        assert fate(file(HORIZON + 1), released=file(HORIZON + 1)) is Fate.REMOVED

    def test_what_both_name_is_kept(self) -> None:
        assert fate(file(0), kept=file(0), released=file(0)) is Fate.KEPT

    @pytest.mark.parametrize(
        ("born_ms", "expected"),
        [(0, Fate.ORPHAN), (HORIZON - 1, Fate.ORPHAN), (HORIZON, Fate.KEPT)],
    )
    def test_what_nobody_names_goes_by_its_age(self, born_ms: int, expected: Fate) -> None:
        assert fate(file(born_ms)) is expected
        assert fate(file(born_ms, suffix=INDEX_SUFFIX)) is expected

    @pytest.mark.parametrize(
        "path",
        [
            f"t-0/{0:020}.log",
            "t-0/notes.txt",
            "notes.txt",
            file(0).partition("/")[2],
            file(0, "t-0/deeper"),
            file(0, "backup"),
            file(0, "-0"),
            f"{file(0)}.deleted",
        ],
    )
    def test_another_name_or_another_place_is_left_alone(self, path: str) -> None:
        assert fate(path) is Fate.UNKNOWN

    def test_quarantine_is_not_looked_at(self) -> None:
        assert fate(file(0, "quarantine/t-0")) is None

    def test_kafkas_own_name_goes_with_its_segment(self) -> None:
        path = f"t-0/{0:020}.log"

        assert fate(path, released=path) is Fate.REMOVED


directories = st.sampled_from(["t-0", "t-11", "a-b-3", "quarantine", "t", "t-0/x", "-1"])
uuids = st.one_of(
    st.integers(HORIZON - 2, HORIZON + 2).map(lambda ms: f".{uuid7(ms, bytes(10))}"),
    st.sampled_from(["", ".x", f".{uuid7(0, bytes(10)).upper()}", ".01-7"]),
)
suffixes = st.sampled_from([".log", ".index", ".timeindex", ".keyindex", ".swap", ""])
paths = st.builds(
    lambda directory, base, uuid, suffix: f"{directory}/{base}{uuid}{suffix}",
    directories,
    st.sampled_from([f"{0:020}", f"{7:020}", "7", f"{0:021}"]),
    uuids,
    suffixes,
)


class TestTwin:
    @given(st.lists(paths, unique=True), st.sets(paths), st.sets(paths))
    @example([file(HORIZON)], set(), set())
    def test_decides_file_by_file(
        self, files: list[str], kept: set[str], released: set[str]
    ) -> None:
        """Goal: no file goes but those that must. Method: against one `if` after another."""
        found = fates(files, kept, released, HORIZON)

        assert {path: fate for fate, group in found.items() for path in group} == {
            path: fate
            for path in files
            if (fate := naive.fate(path, kept, released, HORIZON)) is not None
        }
