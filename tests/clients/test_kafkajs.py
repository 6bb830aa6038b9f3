"""kafkajs, installed by npm into `.cache`."""

import json
import subprocess
from pathlib import Path

import pytest

from sparklog.config import TOPIC_CONFIG_KEYS
from tests.clients.conftest import Served, numbers
from tests.emulators import installed

pytestmark = pytest.mark.clients

KAFKAJS = "2.2.4"
COUNT = 400


def test_goes_the_whole_way(served: Served) -> None:
    npm = ["npm", "install", "--no-audit", "--no-fund", "--prefix", "{}", f"kafkajs@{KAFKAJS}"]
    folder = installed(f"kafkajs-{KAFKAJS}", npm, {}, "node_modules/kafkajs")
    topic, group = served.new_name(), served.new_name()
    script = Path(__file__).parent / "journey.mjs"
    command = ["node", str(script), str(folder), served.address, topic, group, str(COUNT)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    told = json.loads(run.stdout)
    assert told == {
        "found": numbers(0, COUNT),
        "committed": COUNT,
        "end": COUNT,
        "isListed": True,
        "configs": len(TOPIC_CONFIG_KEYS),
    }
    assert served.values(topic) == numbers(0, COUNT)
