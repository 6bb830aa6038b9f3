"""An S3-compatible server on loopback, as a process of its own (moto_server), and its fixtures.

A test module that wants them imports both: `from tests.s3 import s3_log_dir, s3_server`.
"""

import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

import pytest

__all__ = ["S3LogDir", "S3Server", "s3_log_dir", "s3_server", "start_s3_server"]

BUCKET = "sparklog-tests"
START_SECONDS = 60


class S3LogDir(NamedTuple):
    """A fresh, empty prefix, and the storage options that lead to it."""

    uri: str
    options: dict[str, str]


class S3Server(NamedTuple):
    """Where the server listens. It believes any credentials unless told otherwise."""

    endpoint: str

    def options(self) -> dict[str, str]:
        """Storage options under delta-rs's names."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "AKIATESTACCESSKEY",
            "AWS_SECRET_ACCESS_KEY": "test-secret-key",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def new_log_dir(self) -> S3LogDir:
        """A log dir that no other test has."""
        return S3LogDir(f"s3://{BUCKET}/{uuid.uuid4().hex}", self.options())


ATOMIC_MOTO = """
import sys
from threading import Lock

from moto.s3.responses import S3Response
from moto.server import main

lock, put = Lock(), S3Response._key_response_put

def one_at_a_time(self, *args, **kwargs):
    with lock:
        return put(self, *args, **kwargs)

S3Response._key_response_put = one_at_a_time
main(sys.argv[1:])
"""
"""moto_server with puts one at a time: by itself it checks If-None-Match and puts in two steps."""


def start_s3_server(
    log_file: Path, environ: Mapping[str, str] | None = None
) -> tuple[S3Server, "subprocess.Popen[bytes]"]:
    """Start a server with one bucket on a port that the system picks; the caller terminates it.

    `environ` are variables for moto on top of this process's.
    """
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", ATOMIC_MOTO, "-H", "127.0.0.1", "-p", "0"],
            stdout=log,
            stderr=log,
            env=os.environ | (environ or {}),
        )
    deadline = time.monotonic() + START_SECONDS
    while not (found := re.search(r"http://127\.0\.0\.1:\d+", log_file.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise RuntimeError(f"moto_server did not start: {log_file.read_text()}")
        time.sleep(0.05)
    server = S3Server(found[0])
    with urlopen(Request(f"{server.endpoint}/{BUCKET}", method="PUT")) as answer:
        answer.read()
    return server, process


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for all tests of this process; its log is in pytest's temporary directory."""
    server, process = start_s3_server(tmp_path_factory.mktemp("s3") / "moto.log")
    yield server
    process.terminate()
    process.wait()


@pytest.fixture
def s3_log_dir(s3_server: S3Server) -> S3LogDir:
    """(uri, options) of an empty log dir in the object store."""
    return s3_server.new_log_dir()
