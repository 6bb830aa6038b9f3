"""Tokens of a service under test, and the file that knows them."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = "root-token"


def token_file(folder: Path, grants: Mapping[str, Sequence[tuple[str, Sequence[str]]]]) -> Path:
    """Write the file: by token, what it grants as (prefix, scopes)."""
    lines = []
    for token, granted in grants.items():
        tables = ", ".join(
            f'{{ prefix = "{prefix}", scopes = {list(scopes)} }}' for prefix, scopes in granted
        )
        digest = hashlib.sha256(token.encode()).hexdigest()
        lines += ["[[tokens]]", f'name = "{token}"', f'sha256 = "{digest}"', f"grants = [{tables}]"]
    path = folder / "tokens.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def root_file(folder: Path) -> Path:
    """Write a file with one token that may do everything."""
    return token_file(folder, {ROOT: [("", ["read", "write", "admin"])]})


def bearer(token: str = ROOT) -> dict[str, str]:
    """Return the header that shows a token."""
    return {"Authorization": f"Bearer {token}"}
