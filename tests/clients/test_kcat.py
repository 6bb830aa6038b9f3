"""kcat (Debian's package): the old librdkafka under it asks for old versions."""

import json
import shutil
import subprocess

import pytest

from tests.clients.conftest import Served, numbers

pytestmark = pytest.mark.clients


def kcat(served: Served, *arguments: str, given: str = "") -> str:
    """What kcat prints."""
    found = shutil.which("kcat")
    if found is None:
        pytest.fail("no kcat: apt-get install kcat")
    command = [found, "-b", served.address, *arguments]
    run = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_lists_topics(served: Served) -> None:
    topic = served.new_topic(partitions=3)
    told = json.loads(kcat(served, "-L", "-J"))
    [found] = [one for one in told["topics"] if one["topic"] == topic]
    assert [one["partition"] for one in found["partitions"]] == [0, 1, 2]
    assert [one["name"] for one in told["brokers"]] == [served.address]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_produces_and_reads(served: Served, codec: str) -> None:
    topic, sent = served.new_topic(), numbers(0, 500)
    kcat(served, "-P", "-t", topic, "-K:", "-z", codec, given="\n".join(f"{n}:{n}" for n in sent))
    assert served.values(topic) == sent
    assert sorted(kcat(served, "-C", "-t", topic, "-e", "-q").split()) == sent
    assert len(kcat(served, "-C", "-t", topic, "-p", "1", "-o", "-7", "-e", "-q").split()) == 7


def test_reads_in_a_group_and_goes_on(served: Served) -> None:
    topic, group, sent = served.new_topic(), served.new_name(), numbers(0, 300)
    kcat(served, "-P", "-t", topic, "-p", "0", given="\n".join(sent))
    member = ["-G", group, "-X", "auto.offset.reset=earliest", "-e", "-q", topic]
    assert sorted(kcat(served, *member).split()) == sent
    more = numbers(300, 310)
    kcat(served, "-P", "-t", topic, "-p", "0", given="\n".join(more))
    assert sorted(kcat(served, *member).split()) == more


def test_finds_a_time(served: Served) -> None:
    topic = served.new_topic(partitions=1)
    kcat(served, "-P", "-t", topic, given="a\nb")
    assert kcat(served, "-Q", "-t", f"{topic}:0:1").strip() == f"{topic} [0] offset 0"
