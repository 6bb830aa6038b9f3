"""What other people's programs rely on is what schemas/ says."""

from pathlib import Path

import pytest

from tests.schemas import FOLDER, as_text, contracts, write

CONTRACTS = contracts()


@pytest.mark.parametrize("name", CONTRACTS)
def test_the_golden_file_says_what_the_code_does(name: str) -> None:
    golden = (FOLDER / name).read_text()

    assert golden == as_text(CONTRACTS[name]), "rewrite it with `python -m tests.schemas`"


def test_the_golden_files_can_be_written_anew(tmp_path: Path) -> None:
    write(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} == set(CONTRACTS)


def test_every_golden_file_belongs_to_a_contract() -> None:
    by_others = {"openapi.json"}  # tests/rest/test_openapi.py
    assert {path.name for path in FOLDER.glob("*.json")} == {*CONTRACTS, *by_others}


def test_the_readme_lists_every_golden_file() -> None:
    readme = (FOLDER / "README.md").read_text()

    assert [name for name in CONTRACTS if f"`{name}`" not in readme] == []
