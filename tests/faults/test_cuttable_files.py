"""Files whose power can be cut, where a commit is one file that is put."""

import random
from pathlib import Path

import pytest

from tests.power import CuttableFiles


def left(root: Path, *, durable: bool, synced: bool, seed: int) -> dict[str, bytes]:
    """The state that one put leaves behind."""
    files = CuttableFiles(str(root / str(seed)), -1, random.Random(seed))
    assert files.put_new("a", b"entry", durable=durable)
    assert not files.put_new("a", b"other", durable=durable)
    if synced:
        files.sync_directory("")
    return files.survivors()


class TestPutNew:
    @pytest.mark.parametrize(
        ("durable", "synced", "possible"),
        (
            (True, True, {b"entry"}),
            (True, False, {b"entry", None}),
            (False, True, {b"entry", b""}),
            (False, False, {b"entry", b"", None}),
        ),
    )
    def test_keeps_what_was_promised(
        self, tmp_path: Path, durable: bool, synced: bool, possible: set[bytes | None]
    ) -> None:
        found = {
            left(tmp_path, durable=durable, synced=synced, seed=seed).get("a") for seed in range(40)
        }

        assert found == possible
