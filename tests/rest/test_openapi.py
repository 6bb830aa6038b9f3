"""The HTTP surface is what schemas/openapi.json says, and every operation tells what it is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.rest.app import create_app
from sparklog.rest.parameters import VERSION_END
from tests.rest.conftest import settings_for
from tests.rest.openapi import GOLDEN, document

ROOT = Path(__file__).parents[2]
DOCUMENT = json.loads(GOLDEN.read_text())
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}


def test_the_golden_file_says_what_the_code_does() -> None:
    assert GOLDEN.read_text() == document(), "rewrite it with `python -m tests.rest.openapi`"


def test_the_document_is_made_once(tmp_path: Path) -> None:
    app = create_app(settings_for(tmp_path))

    assert app.openapi() is app.openapi()


def test_without_tokens_none_is_asked_for(tmp_path: Path) -> None:
    found = create_app(settings_for(tmp_path)).openapi()

    assert "securitySchemes" not in found["components"]
    assert "security" not in found["paths"]["/topics"]["get"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_described_and_guarded(name: str) -> None:
    operation = OPERATIONS[name]

    assert operation["description"]
    assert {"400", "401", "403", "404", "422", "500", "503"} <= set(operation["responses"])
    assert ("security" in operation) is (name not in ("GET /healthy", "GET /ready"))


@pytest.mark.parametrize("name", [n for n, one in OPERATIONS.items() if "requestBody" in one])
def test_every_body_has_an_example(name: str) -> None:
    content = OPERATIONS[name]["requestBody"]["content"]

    assert all(kind["example"] for kind in content.values())


def test_a_version_has_the_same_bound_everywhere() -> None:
    parameters = [
        one for operation in OPERATIONS.values() for one in operation.get("parameters", ())
    ]
    schemas = [one["schema"] for one in parameters if one["name"] == "versionAsOf"]
    bounds = [(one.get("anyOf") or [one])[0]["exclusiveMaximum"] for one in schemas]

    assert len(bounds) > 1
    assert set(bounds) == {VERSION_END}


def test_every_reference_leads_somewhere() -> None:
    text = GOLDEN.read_text()
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert names <= set(DOCUMENT["components"]["schemas"])


def test_the_service_needs_no_jvm() -> None:
    code = (
        "import sys, sparklog.rest.server, sparklog.rest.routes.records\n"
        "print([name for name in ('pyspark', 'py4j', 'delta') if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "[]"


def test_a_token_can_be_made() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "sparklog.tokens"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert [line.split()[0] for line in run.stdout.splitlines()] == ["token", "sha256"]
