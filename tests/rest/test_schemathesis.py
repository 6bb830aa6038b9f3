"""Requests made up from the OpenAPI document: every answer keeps to it, whatever is sent.

All of schemathesis' phases (examples, coverage, fuzzing, stateful) and all of its checks, as its
own command does it. With tokens the coverage phase is left out: its requests are always the same.

    st --config-file tests/rest/schemathesis.toml run http://127.0.0.1:8082/openapi.json
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis.engine import events, from_schema
from schemathesis.engine.run import PhaseName

from tests.logs import FOREVER, append, new_topic
from tests.rest.servers import Instance
from tests.rest.tokens import bearer, root_file

CONFIG = tomllib.loads(Path(__file__).with_name("schemathesis.toml").read_text())
LIMITS = {"max_poll_ms": 1, "max_body_bytes": 1_000_000, "access_log": False}
ERRORS = (events.NonFatalError, events.FatalError)
PHASES = {PhaseName.EXAMPLES, PhaseName.FUZZING, PhaseName.STATEFUL_TESTING}
GUARDED = {"headers": bearer(), "phases": {"coverage": {"enabled": False}}}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("is_guarded", [False, True])
def test_every_answer_keeps_to_the_document(log_dir: str, tmp_path: Path, is_guarded: bool) -> None:
    new_topic(log_dir, "flights", 2, FOREVER)
    append(log_dir, 1, range(30), topic="flights")
    tokens: dict[str, Any] = {"tokens_file": root_file(tmp_path)} if is_guarded else {}
    config = schemathesis.Config.from_dict({**CONFIG, **(GUARDED if is_guarded else {})})
    with Instance(log_dir, tmp_path, **LIMITS, **tokens) as instance:
        schema = schemathesis.openapi.from_url(f"{instance.url}/openapi.json", config=config)
        run = list(from_schema(schema).execute())
        code = instance.stop()

    scenarios = [event for event in run if isinstance(event, events.ScenarioFinished)]
    checks = [one for event in scenarios for some in event.recorder.checks.values() for one in some]
    assert [(one.name, one.failure_info) for one in checks if one.failure_info] == []
    assert [event for event in run if isinstance(event, ERRORS)] == []
    done = [event.phase for event in run if isinstance(event, events.PhaseFinished)]
    ran = {phase.name for phase in done if phase.skip_reason is None}
    assert ran >= (PHASES if is_guarded else PHASES | {PhaseName.COVERAGE})
    assert code == 0
