"""Receipt files are read once to be known, and again only where a key may be."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklog.manifest import receipt_files
from sparklog.manifest.receipt_files import ReceiptFiles

keys = st.text(st.characters(codec="utf-8"), max_size=40)


class Folder:
    """Files by name, each the keys of its rows; notes which are read."""

    def __init__(self, **files: Sequence[str]) -> None:
        self.files = files
        self.read: list[str] = []
        self.receipts = ReceiptFiles(self._read)

    def _read(self, name: str) -> pa.Table:
        self.read.append(name)
        return pa.table({"app_id": pa.array(self.files[name], pa.string())})

    def holding(self, *wanted: str) -> list[list[str]]:
        """The keys of each file that may know one of those wanted."""
        found = self.receipts.holding(self.files.keys(), wanted)
        return [table.column("app_id").to_pylist() for table in found]


class TestReceiptFiles:
    def test_are_those_with_a_key(self) -> None:
        folder = Folder(a=["k1", "k2"], b=["k3"], c=[])

        assert folder.holding("k3", "k9") == [["k3"]]
        assert folder.holding("k9") == []

    def test_are_read_again_for_a_key_alone(self) -> None:
        folder = Folder(a=["k1", "k2"], b=["k3"])
        folder.holding("k9")
        folder.holding("k8")

        assert folder.read == ["a", "b"]
        folder.holding("k1")
        assert folder.read == ["a", "b", "a"]

    def test_are_not_read_without_a_key(self) -> None:
        folder = Folder(a=["k1"])

        assert folder.holding() == []
        assert folder.read == []

    def test_are_forgotten_when_they_are_gone(self) -> None:
        folder = Folder(a=["k1"], b=["k2"])
        folder.holding("k9")
        del folder.files["b"]

        assert folder.holding("k2") == []
        folder.files["b"] = ["k2"]
        assert folder.holding("k2") == [["k2"]]

    def test_may_share_a_hash_with_the_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(receipt_files, "_hashes", lambda keys: keys.is_valid().cast("int64"))
        folder = Folder(a=["k1"])

        assert folder.holding("other") == [["k1"]]

    @given(st.lists(st.lists(keys, max_size=4), max_size=4), st.lists(keys, max_size=3))
    def test_none_with_a_key_is_passed_over(
        self, files: list[list[str]], wanted: list[str]
    ) -> None:
        folder = Folder(**{f"f{number}": rows for number, rows in enumerate(files)})

        assert folder.holding(*wanted) == [rows for rows in files if set(rows) & set(wanted)]
