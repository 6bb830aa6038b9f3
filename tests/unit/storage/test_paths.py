import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.errors import LogDirError, UsageError
from sparklog.storage.paths import check_directory, check_path, check_range, parents

names = st.text(st.characters(exclude_characters="/\\\0", codec="utf-8"), min_size=1).filter(
    lambda name: name not in {".", ".."}
)


class TestCheckPath:
    @given(parts=st.lists(names, min_size=1, max_size=4))
    def test_allows_every_path_of_plain_names(self, parts: list[str]) -> None:
        """Goal: no name that a file may have is refused. Method: all text but the separators."""
        path = "/".join(parts)

        assert check_path(path) == path

    @pytest.mark.parametrize("path", ("...", "..a", "a..", "a b", "a/.b", "é", "-x"))
    def test_allows_dots_inside_of_names(self, path: str) -> None:
        assert check_path(path) == path

    @pytest.mark.parametrize(
        "path", ("/", "/etc/passwd", "..", "../a", "a/../b", "a/.", "./a", "a//b", "a/", "//host/a")
    )
    def test_refuses_what_could_lead_out(self, path: str) -> None:
        with pytest.raises(LogDirError, match="is absolute or has an empty, '.' or '..' part"):
            check_path(path)

    @pytest.mark.parametrize("path", ("a\\b", "..\\a", "a\0", "\0"))
    def test_refuses_characters_that_others_take_for_an_end_or_a_separator(self, path: str) -> None:
        with pytest.raises(LogDirError, match="holds a backslash or a NUL"):
            check_path(path)

    def test_refuses_nothing_at_all(self) -> None:
        with pytest.raises(LogDirError, match="the path is empty"):
            check_path("")


class TestCheckDirectory:
    def test_allows_the_log_dir_itself(self) -> None:
        assert check_directory("") == ""

    def test_is_as_strict_otherwise(self) -> None:
        assert check_directory("a/b") == "a/b"
        with pytest.raises(LogDirError):
            check_directory("a/..")


class TestCheckRange:
    @pytest.mark.parametrize(("start", "length"), ((0, None), (0, 0), (2**40, 1)))
    def test_allows_any_range_from_the_first_byte_on(self, start: int, length: int | None) -> None:
        check_range(start, length)

    @pytest.mark.parametrize(("start", "length"), ((-1, None), (0, -1), (-1, 1)))
    def test_refuses_negative_numbers(self, start: int, length: int | None) -> None:
        with pytest.raises(UsageError, match=f"{length} bytes from {start}"):
            check_range(start, length)


class TestParents:
    @pytest.mark.parametrize(
        ("paths", "expected"),
        (
            ([], []),
            (["a"], [""]),
            (["b/x", "a/x", "a/y"], ["a", "b", ""]),
            (["t/p/x", "m", "t/q/x"], ["t/p", "t/q", "t", ""]),
        ),
    )
    def test_are_each_named_once_deepest_first(self, paths: list[str], expected: list[str]) -> None:
        assert parents(paths) == expected
