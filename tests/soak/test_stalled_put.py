"""A put that a proxy holds for minutes while hundreds of others commit: its records land once."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparklog.admin import AdminClient, NewTopic
from sparklog.log_writer import WriteOptions
from sparklog.metadata.catalog import Catalog
from sparklog.storage import open_files
from tests.logs import append_to, columns, rows
from tests.s3 import S3LogDir, S3Server, s3_log_dir, s3_server
from tests.store_proxy import Fault, StoreProxy

__all__ = ["s3_log_dir", "s3_server"]

STALL_S = 75
OTHERS = 300

pytestmark = [pytest.mark.soak, pytest.mark.s3]


def opened(log_dir: S3LogDir) -> Catalog:
    """A committer that has read the topic."""
    found = Catalog(open_files(log_dir.uri, log_dir.options))
    found.topic_image(found.topic("t"))
    return found


def produce(committer: Catalog, value: str) -> None:
    append_to(committer, [0], columns([value]), options=WriteOptions())


def test_a_put_that_is_held_lands_once(s3_server: S3Server, s3_log_dir: S3LogDir) -> None:
    AdminClient(s3_log_dir.uri, s3_log_dir.options).create_topics([NewTopic("t", 1)])
    others = opened(s3_log_dir)
    with StoreProxy(s3_server.endpoint) as proxy, ThreadPoolExecutor(1) as pool:
        there = {**s3_log_dir.options, "AWS_ENDPOINT_URL": proxy.endpoint}
        slow = opened(S3LogDir(s3_log_dir.uri, there))
        produce(slow, "first")  # the store is probed
        began = time.monotonic()
        proxy.add(Fault("PUT", "_delta_log", stall_s=STALL_S))
        held = pool.submit(produce, slow, "held")
        for number in range(OTHERS):
            produce(others, str(number))
        held.result()
        took_s = time.monotonic() - began
        time.sleep(max(0, STALL_S + 5 - took_s))  # a put that was given up is over

    found = [bytes(row.value or b"") for row in rows(s3_log_dir.uri, "t", s3_log_dir.options)[0]]
    assert sorted(map(bytes.decode, found)) == sorted(["first", "held", *map(str, range(OTHERS))])
