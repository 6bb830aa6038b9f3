"""The OpenAPI document as the code has it: `python -m tests.api.openapi` writes it anew."""

import json
from pathlib import Path

from api.app import create_app
from api.settings import Settings

GOLDEN = Path(__file__).parents[2] / "schemas" / "openapi.json"


def document() -> str:
    """Return the document as its file has it."""
    app = create_app(Settings(log_dir="log"))
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(document(), encoding="utf-8")
