"""Requests made up from the OpenAPI document, right and wrong ones: every answer keeps to it."""

from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.schemas import BaseSchema

from api.app import create_app
from tests.api.conftest import settings_for
from tests.api.tokens import bearer, root_file
from tests.logs import new_topic

OPERATIONS = sorted(
    f"{method.upper()} {path}"
    for path, operations in create_app(settings_for("unused")).openapi()["paths"].items()
    for method in operations
)


WITHOUT_INPUT = ("GET /healthy", "GET /ready")
"""There is nothing to get wrong."""

# Base64 in any value, one of two fields, bounds of a log: what a schema does not say is a 4xx.
CONFIG = schemathesis.Config.from_dict(
    {"checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "4xx"]}}}
)


@pytest.fixture
def document(log_dir: str, tmp_path: Path) -> BaseSchema:
    new_topic(log_dir, "flights", 2)
    limits = {"max_poll_ms": 5, "max_body_bytes": 100_000}
    app = create_app(settings_for(log_dir, tokens_file=root_file(tmp_path), **limits))
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=CONFIG)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_keeps_to_the_document(
    document: BaseSchema, operation: str, mode: GenerationMode
) -> None:
    if mode is GenerationMode.NEGATIVE and operation in WITHOUT_INPUT:
        return
    method, path = operation.split()

    @given(data=st.data())
    @settings(
        max_examples=4,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answers(data: st.DataObject) -> None:
        case = data.draw(document[path][method].as_strategy(generation_mode=mode))
        case.call_and_validate(headers=bearer())

    answers()
