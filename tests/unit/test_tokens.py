"""Tokens: read from a file, known by their hash, made at random; and where none are needed."""

import hashlib
import os
from pathlib import Path

import pytest

from sparklog.errors import InvalidConfigError
from sparklog.tokens import EVERYBODY, Resource, Scope, Tokens, is_loopback, new_token


def file_of(folder: Path, text: str) -> Path:
    path = folder / "tokens.toml"
    path.write_text(text, encoding="utf-8")
    return path


def text_of(secret: str) -> str:
    """The file of one token, which may read topics that begin with a."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    grants = '[{ prefix = "a", scopes = ["read"] }]'
    return f"[[tokens]]\nname = 'etl'\nsha256 = '{digest}'\ngrants = {grants}"


class TestTokens:
    def test_are_known_by_their_hash(self, tmp_path: Path) -> None:
        tokens = Tokens(file_of(tmp_path, text_of("secret")))

        found = tokens.known("secret")
        assert found is not None
        assert (found.name, tokens.known("secret2")) == ("etl", None)
        assert [found.allows(Scope.READ, topic) for topic in ("ab", "b")] == [True, False]
        assert not found.allows(Scope.WRITE, "ab")

    def test_without_a_file_everybody_may_do_everything(self) -> None:
        assert Tokens(None).known("") is Tokens(None).user("alice") is EVERYBODY
        assert all(EVERYBODY.allows(scope, "t", kind) for scope in Scope for kind in Resource)

    def test_have_grants_for_one_kind_of_resource(self, tmp_path: Path) -> None:
        text = text_of("secret").replace('prefix = "a"', 'resource = "group", prefix = "a"')
        found = Tokens(file_of(tmp_path, text)).known("secret")

        assert found is not None
        assert found.allows(Scope.READ, "ab", Resource.GROUP)
        assert not found.allows(Scope.READ, "ab")
        assert found.allows_somewhere(Scope.READ, Resource.GROUP)
        assert not found.allows_somewhere(Scope.READ)

    def test_users_have_the_grants_of_the_file_or_none(self, tmp_path: Path) -> None:
        grants = '[{ prefix = "a", scopes = ["write"] }]'
        path = file_of(tmp_path, f"[[users]]\nname = 'alice'\ngrants = {grants}")
        tokens = Tokens(path)

        assert tokens.user("alice").allows(Scope.WRITE, "ab")
        assert tokens.user("bob").grants == ()

    def test_users_have_the_grants_of_all_their_entries(self, tmp_path: Path) -> None:
        entry = "[[users]]\nname = 'alice'\ngrants = [{ prefix = '%s', scopes = ['read'] }]\n"
        alice = Tokens(file_of(tmp_path, entry % "a" + entry % "b")).user("alice")

        assert [alice.allows(Scope.READ, topic) for topic in "abc"] == [True, True, False]

    def test_are_made_at_random(self) -> None:
        first, second = new_token(), new_token()

        assert first[0] != second[0]
        assert first[1] == hashlib.sha256(first[0].encode()).hexdigest()

    @pytest.mark.parametrize("text", ["tokens = 5", "[", "[[tokens]]\nname = 'a'\nsha256 = 'x'"])
    def test_of_a_damaged_file_are_refused(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InvalidConfigError, match=r"file of tokens .*tokens\.toml: "):
            Tokens(file_of(tmp_path, text))

    @pytest.mark.parametrize(
        "text",
        [text_of("x").replace("sha256 = ", "sha256 = 'hush' # "), "users = [{password = 'hush'}]"],
    )
    def test_that_stand_in_a_wrong_place_are_not_shown(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InvalidConfigError) as raised:
            Tokens(file_of(tmp_path, text))
        assert "hush" not in str(raised.value)

    def test_that_are_no_hash_are_named_without_a_lecture(self, tmp_path: Path) -> None:
        """As when the token itself was put there."""
        text = text_of("x").replace("sha256 = '", "sha256 = 'q")
        with pytest.raises(InvalidConfigError, match=r"toml: tokens.0.sha256: .*64\}\$'$"):
            Tokens(file_of(tmp_path, text))

    def test_of_a_missing_file_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfigError, match="No such file"):
            Tokens(tmp_path / "missing")


class TestRotation:
    def test_a_user_has_the_grants_of_the_new_file(self, tmp_path: Path) -> None:
        tokens = Tokens(file_of(tmp_path, text_of("old")))
        etl, alice = tokens.known("old"), tokens.user("alice")
        grants = '[{ prefix = "a", scopes = ["read"] }]'
        text = f"{text_of('old')}\n[[users]]\nname = 'alice'\ngrants = {grants}"
        file_of(tmp_path, text.replace("etl", "other"))

        assert etl is not None
        assert tokens.file is not None
        assert tokens.file.again(etl) is None
        found = tokens.file.again(alice)
        assert found is not None
        assert found.allows(Scope.READ, "ab")

    def test_a_file_that_changes_is_read_again(self, tmp_path: Path) -> None:
        tokens = Tokens(file_of(tmp_path, text_of("old")))
        file_of(tmp_path, text_of("the new one"))

        assert tokens.known("old") is None
        assert tokens.known("the new one") is not None

    def test_a_file_in_place_of_it_is_read_again(self, tmp_path: Path) -> None:
        path = file_of(tmp_path, text_of("old"))
        tokens = Tokens(path)
        (tmp_path / "new").write_text(text_of("new"))
        os.utime(tmp_path / "new", ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        (tmp_path / "new").replace(path)

        assert (tokens.known("old"), tokens.known("new") is not None) == (None, True)

    def test_a_damaged_file_changes_nothing_and_is_told_once(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = file_of(tmp_path, text_of("old"))
        tokens = Tokens(path)
        file_of(tmp_path, "[")
        known = [tokens.known("old")]
        path.unlink()
        known += [tokens.known("old"), tokens.known("old")]

        assert None not in known
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
        assert "the tokens stay as they were" in caplog.text


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.0.2.1", False),
        ("example.org", False),
    ],
)
def test_this_machine_is_known_by_its_addresses(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
