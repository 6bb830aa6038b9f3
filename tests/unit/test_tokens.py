"""Tokens: read from a file, known by their hash, made at random; and where none are needed."""

import hashlib
from pathlib import Path

import pytest

from sparklog.errors import InvalidConfigError
from sparklog.tokens import EVERYBODY, Scope, Tokens, is_loopback, new_token


def file_of(folder: Path, text: str) -> Path:
    path = folder / "tokens.toml"
    path.write_text(text, encoding="utf-8")
    return path


class TestTokens:
    def test_are_known_by_their_hash(self, tmp_path: Path) -> None:
        digest = hashlib.sha256(b"secret").hexdigest()
        grants = '[{ prefix = "a", scopes = ["read"] }]'
        text = f"[[tokens]]\nname = 'etl'\nsha256 = '{digest}'\ngrants = {grants}"
        tokens = Tokens.read(file_of(tmp_path, text))

        found = tokens.known("secret")
        assert found is not None
        assert (found.name, tokens.known("secret2")) == ("etl", None)
        assert [found.allows(Scope.READ, topic) for topic in ("ab", "b")] == [True, False]
        assert not found.allows(Scope.WRITE, "ab")

    def test_without_a_file_everybody_may_do_everything(self) -> None:
        assert Tokens.read(None).known("") is EVERYBODY
        assert all(EVERYBODY.allows(scope, "t") for scope in Scope)

    def test_are_made_at_random(self) -> None:
        first, second = new_token(), new_token()

        assert first[0] != second[0]
        assert first[1] == hashlib.sha256(first[0].encode()).hexdigest()

    @pytest.mark.parametrize("text", ["tokens = 5", "[", "[[tokens]]\nname = 'a'\nsha256 = 'x'"])
    def test_of_a_damaged_file_are_refused(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InvalidConfigError, match=r"file of tokens .*tokens\.toml: "):
            Tokens.read(file_of(tmp_path, text))

    def test_of_a_missing_file_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidConfigError, match="No such file"):
            Tokens.read(tmp_path / "missing")


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
