"""Servers that speak Azure's and Google's protocols on loopback, and their fixtures.

They are installed once: Azurite by npm, fake-gcs-server by go, into `.cache` (SPARKLOG_CACHE names
another folder). With SPARKLOG_OFFLINE=1 and nothing there the tests are skipped; otherwise a server
that cannot be had is a failure.

fake-gcs-server keeps no preconditions, and speaks only the reading half of Google's XML protocol.
`GcsProxy` stands before it: it turns the writing half into the JSON protocol, and keeps
`x-goog-if-generation-match: 0` (unless switched off), as the real service does.
"""

import base64
import email.utils
import hashlib
import hmac
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import pytest

from tests.kafka.jars import cache_dir, is_offline
from tests.s3 import S3LogDir
from tests.store_proxy import Answer, Request, StoreProxy

__all__ = ["azure_log_dir", "azurite", "fake_gcs", "gcs_log_dir", "gcs_proxy"]

AZURITE = "3.35.0"
FAKE_GCS_SERVER = "v1.56.1"
START_SECONDS = 60
ACCOUNT = "devstoreaccount1"
# The account and the key that every Azurite has; they are in its documentation.
ACCOUNT_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
BUCKET = "sparklog-tests"


def installed(name: str, command: list[str], environ: Mapping[str, str], inside: str) -> Path:
    """The path `inside` a folder of the cache that `command` fills; `{}` in it is the folder."""
    folder = cache_dir() / name
    if not (folder / inside).exists():
        if is_offline():
            pytest.skip(f"SPARKLOG_OFFLINE=1 and no {folder}")
        if shutil.which(command[0]) is None:
            pytest.fail(f"{name} is installed by {command[0]}, which is not there")
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Filled aside and renamed: nobody finds half of it.
        aside = tempfile.mkdtemp(prefix=f"{name}-", dir=folder.parent)
        asked = [part.format(aside) for part in command]
        variables = {key: value.format(aside) for key, value in environ.items()}
        done = subprocess.run(
            asked,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if done.returncode:
            shutil.rmtree(aside)
            pytest.fail(f"{name} cannot be installed: {done.stdout}{done.stderr}")
        try:
            os.rename(aside, folder)
        except OSError:  # another process was first
            shutil.rmtree(aside)
    return folder / inside


def started(
    command: list[str], log_file: Path, ready: str
) -> tuple["subprocess.Popen[bytes]", str]:
    """Start a server; returns it, and the match of the group in `ready` in its output."""
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + START_SECONDS
    while not (found := re.search(ready, log_file.read_text())):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise RuntimeError(f"{command[0]} did not start: {log_file.read_text()}")
        time.sleep(0.05)
    return process, found[1]


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Azurite with one container."""
    main = installed(
        f"azurite-{AZURITE}",
        ["npm", "install", "--no-audit", "--no-fund", "--prefix", "{}", f"azurite@{AZURITE}"],
        {},
        "node_modules/azurite/dist/src/blob/main.js",
    )
    command = ["node", str(main), "--blobHost", "127.0.0.1", "--blobPort", "0"]
    command += ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    log_file = tmp_path_factory.mktemp("azure") / "azurite.log"
    process, address = started(command, log_file, r"listens on (http://\S+)")
    endpoint = f"{address}/{ACCOUNT}"
    _make_container(endpoint)
    yield endpoint
    process.terminate()
    process.wait()


def _make_container(endpoint: str) -> None:
    """PUT the container, signed by the account's key (Azure's shared key)."""
    date, version = email.utils.formatdate(usegmt=True), "2021-08-06"
    text = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{version}\n"
    text += f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
    headers = {"x-ms-date": date, "x-ms-version": version, "Content-Length": "0"}
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    address = f"{endpoint}/{BUCKET}?restype=container"
    with urlopen(UrlRequest(address, method="PUT", headers=headers)) as answer:
        answer.read()


@pytest.fixture
def azure_log_dir(azurite: str) -> S3LogDir:
    """(uri, options) of an empty log dir in Azurite."""
    options = {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
        "AZURE_STORAGE_ENDPOINT": azurite,
        "AZURE_ALLOW_HTTP": "true",
    }
    return S3LogDir(f"az://{BUCKET}/{uuid.uuid4().hex}", options)


class GcsProxy(StoreProxy):
    """Google's XML protocol, where fake-gcs-server lacks it; see the module."""

    def __init__(self, target: str, *, keeps_conditions: bool = True) -> None:
        super().__init__(target)
        self._host = urlsplit(target).netloc
        self._keeps_conditions = keeps_conditions
        self._turn = threading.Lock()
        self._parts: dict[str, dict[int, bytes]] = {}

    def answer(self, request: Request) -> Answer:
        """Translate a write; pass on a read."""
        with self._turn:
            if request.method in {"PUT", "POST"}:
                return self._written(request)
            return self._asked(request.method, request.path, request.headers)

    def _written(self, request: Request) -> Answer:
        address = urlsplit(request.path)
        bucket, _, name = unquote(address.path.lstrip("/")).partition("/")
        query = parse_qs(address.query, keep_blank_values=True)
        if "uploads" in query:
            upload = uuid.uuid4().hex
            self._parts[upload] = {}
            result = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
            return _xml(200, f"{result}</InitiateMultipartUploadResult>")
        upload = query.get("uploadId", [""])[0]
        if upload and request.method == "PUT":
            number = int(query["partNumber"][0])
            self._parts[upload][number] = request.body
            return Answer(200, {"etag": f'"{number}"'}, b"")
        if self._is_refused(request, bucket, name):
            return _xml(412, "<Error><Code>PreconditionFailed</Code></Error>")
        if bucket != BUCKET:
            return _xml(404, "<Error><Code>NoSuchBucket</Code></Error>")
        if upload:
            parts = self._parts.pop(upload)
            done = self._put(bucket, name, b"".join(parts[number] for number in sorted(parts)))
            if done.status != 200:
                return done
            result = "<CompleteMultipartUploadResult><ETag>&quot;1&quot;</ETag>"
            return _xml(200, f"{result}</CompleteMultipartUploadResult>")
        source = request.headers.get("x-goog-copy-source")
        if source is not None:
            return self._copied(unquote(source), bucket, name)
        return self._put(bucket, name, request.body)

    def _is_refused(self, request: Request, bucket: str, name: str) -> bool:
        if not self._keeps_conditions or "x-goog-if-generation-match" not in request.headers:
            return False
        return self._asked("HEAD", f"/{bucket}/{quote(name, safe='')}").status == 200

    def _put(self, bucket: str, name: str, data: bytes) -> Answer:
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
        headers = {"content-type": "application/octet-stream"}
        return _with_etag(self._asked("POST", path, headers, data))

    def _copied(self, source: str, bucket: str, name: str) -> Answer:
        from_bucket, _, from_name = source.lstrip("/").partition("/")
        path = f"/storage/v1/b/{from_bucket}/o/{quote(from_name, safe='')}"
        path += f"/copyTo/b/{bucket}/o/{quote(name, safe='')}"
        return _with_etag(self._asked("POST", path))

    def _asked(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answer:
        # The server tells by the host that it is asked in XML.
        host = {"host": self._host}
        found = self.passed_on(Request(method, path, {**(headers or {}), **host}, body))
        bucket = unquote(urlsplit(path).path.split("/")[1])
        if found.status not in {404, 500} or bucket in {"upload", "storage", BUCKET}:
            return found
        # Google says so; the server says that there is no object, or that it has failed.
        return _xml(404, "<Error><Code>NoSuchBucket</Code></Error>")


def _with_etag(answer: Answer) -> Answer:
    return replace(answer, headers={**answer.headers, "etag": '"1"', "x-goog-generation": "1"})


def _xml(status: int, body: str) -> Answer:
    return Answer(status, {"content-type": "application/xml"}, body.encode())


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a fake-gcs-server with one bucket."""
    program = installed(
        f"fake-gcs-server-{FAKE_GCS_SERVER}",
        ["go", "install", f"github.com/fsouza/fake-gcs-server@{FAKE_GCS_SERVER}"],
        {"GOBIN": "{}"},
        "fake-gcs-server",
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-public-host", f"127.0.0.1:{port}"]
    log_file = tmp_path_factory.mktemp("gcs") / "fake-gcs-server.log"
    process, address = started(command, log_file, r"server started at (http://[^\s\"]+)")
    body = json.dumps({"name": BUCKET}).encode()
    headers = {"content-type": "application/json"}
    with urlopen(UrlRequest(f"{address}/storage/v1/b?project=x", body, headers)) as answer:
        answer.read()
    yield address
    process.terminate()
    process.wait()


@pytest.fixture(scope="session")
def gcs_proxy(fake_gcs: str) -> Iterator[GcsProxy]:
    """The way to it that keeps conditions."""
    with GcsProxy(fake_gcs) as proxy:
        yield proxy


@pytest.fixture
def gcs_log_dir(gcs_proxy: GcsProxy) -> S3LogDir:
    """(uri, options) of an empty log dir in fake-gcs-server."""
    return gcs_dir(gcs_proxy.endpoint)


def gcs_dir(endpoint: str) -> S3LogDir:
    """A log dir that no other test has, behind this address."""
    options = {
        "GOOGLE_BASE_URL": endpoint,
        "GOOGLE_BEARER_TOKEN": "gcs-secret-key",
        "GOOGLE_ALLOW_HTTP": "true",
    }
    return S3LogDir(f"gs://{BUCKET}/{uuid.uuid4().hex}", options)
