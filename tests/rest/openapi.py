"""The OpenAPI document of a service with tokens: `python -m tests.rest.openapi` writes it anew."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from sparklog.rest.app import create_app
from sparklog.rest.settings import Settings
from tests.rest.tokens import root_file

GOLDEN = Path(__file__).parents[2] / "schemas" / "openapi.json"


def document() -> str:
    """Return the document as its file has it."""
    with TemporaryDirectory() as folder:
        app = create_app(Settings(log_dir="log", tokens_file=root_file(Path(folder))))
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(document(), encoding="utf-8")
