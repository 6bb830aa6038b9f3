"""The JDK's HttpClient against the REST service."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.kafka.jars import java
from tests.logs import all_values
from tests.rest.servers import Instance

pytestmark = pytest.mark.clients

PROGRAM = str(Path(__file__).with_name("Post.java"))


def test_produces(log_dir: str, tmp_path: Path) -> None:
    bodies = [json.dumps({"records": [{"value": value}]}) for value in ("YQ==", "Yg==")]
    with Instance(log_dir, tmp_path) as instance:
        url = f"{instance.url}/topics/t/partitions/0"
        command = [java(), "-XX:TieredStopAtLevel=1", PROGRAM, url, *bodies]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert run.stdout.split() == ["200", "200"], run.stderr
    assert all_values(log_dir) == ["a", "b"]
