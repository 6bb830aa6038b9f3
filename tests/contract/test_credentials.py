"""Credentials that expire: where they come from, and that reading goes on with the next ones."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sparklog.clock import ManualClock
from sparklog.errors import StoragePermissionError
from sparklog.storage import open_files
from sparklog.storage.objects.aws_credentials import ContainerCredentials, provided
from sparklog.storage.settings import STORAGE_SETTINGS
from tests.s3 import S3LogDir, S3Server
from tests.store_proxy import Answer, Request, StoreProxy

LIFETIME_S = 1.0


class Endpoint:
    """A container's credentials endpoint."""

    def __init__(self) -> None:
        self.answer: Any = {
            "AccessKeyId": "AKIAID",
            "SecretAccessKey": "s3cret",
            "Token": "t0ken",
            "Expiration": "2026-11-22T10:00:00Z",
        }
        self.tokens: list[str | None] = []
        self.hand_out: Callable[[], Any] = lambda: self.answer
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                endpoint.tokens.append(self.headers.get("Authorization"))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(endpoint.hand_out()).encode())

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - their name
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/credentials"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    threading.Thread(target=found.server.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(autouse=True)
def no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in STORAGE_SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


class TestContainerCredentials:
    def test_asks_the_containers_endpoint(self, endpoint: Endpoint) -> None:
        environ = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint.address,
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "who I am",
        }
        provider = provided(environ)

        assert provider is not None
        assert provider() == {
            "access_key_id": "AKIAID",
            "secret_access_key": "s3cret",
            "token": "t0ken",
            "expires_at": datetime(2026, 11, 22, 10, tzinfo=UTC),
        }
        assert endpoint.tokens == ["who I am"]

    def test_may_have_no_token_and_no_end(self, endpoint: Endpoint) -> None:
        del endpoint.answer["Token"], endpoint.answer["Expiration"]
        found = ContainerCredentials(endpoint.address, None)()

        assert (found["token"], found["expires_at"]) == (None, None)
        assert endpoint.tokens == [None]

    @pytest.mark.parametrize(
        "answer", ({"message": "who?"}, [], "s3cret", {"AccessKeyId": "s3cret"})
    )
    def test_says_that_there_are_none_and_shows_no_secret(
        self, endpoint: Endpoint, answer: Any
    ) -> None:
        endpoint.answer = answer

        with pytest.raises(StoragePermissionError, match="gives no credentials: ") as caught:
            ContainerCredentials(endpoint.address, "s3cret")()

        assert "s3cret" not in str(caught.value)

    def test_lasts_until_its_end_when_nobody_answers(self, endpoint: Endpoint) -> None:
        clock = ManualClock(int(datetime(2026, 11, 22, 9, 59, tzinfo=UTC).timestamp() * 1000))
        provider = ContainerCredentials(endpoint.address, None, clock)
        first, endpoint.answer = provider(), {"message": "later"}
        clock.advance(59_999)

        assert provider() == first
        clock.advance(1)
        with pytest.raises(StoragePermissionError, match="gives no credentials: KeyError"):
            provider()

    def test_says_that_nobody_is_there(self) -> None:
        with pytest.raises(StoragePermissionError, match="gives no credentials: URLError"):
            ContainerCredentials("http://127.0.0.1:1/", None)()


class Tokens:
    """Gives out tokens that expire soon, and passes on requests with a valid one."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.seen: set[str] = set()
        self.refused = 0
        self._ends: dict[str, float] = {}
        self._endpoint = endpoint
        endpoint.hand_out = self.next

    def next(self) -> dict[str, str]:
        """A new token."""
        token = f"token-{len(self._ends)}"
        self._ends[token] = time.monotonic() + LIFETIME_S
        ends = datetime.now(UTC) + timedelta(seconds=LIFETIME_S)
        return {
            "AccessKeyId": "AKIAID",
            "SecretAccessKey": "s3cret",
            "Token": token,
            "Expiration": ends.isoformat(),
        }

    def refuse(self, request: Request) -> Answer | None:
        """As S3 does, with status 400, or as others do."""
        token = request.headers.get("x-amz-security-token", "")
        if time.monotonic() < self._ends.get(token, 0):
            self.seen.add(token)
            return None
        self.refused += 1
        return Answer(403, {}, b"<Error><Code>ExpiredToken</Code></Error>")


@pytest.mark.s3
class TestRenewal:
    @pytest.fixture
    def tokens(self, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Tokens:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", endpoint.address)
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "who I am")
        return Tokens(endpoint)

    @pytest.fixture
    def proxy(self, s3_server: S3Server, tokens: Tokens) -> Iterator[StoreProxy]:
        with StoreProxy(s3_server.endpoint, refuse=tokens.refuse) as found:
            yield found

    @pytest.fixture
    def place(self, s3_log_dir: S3LogDir, proxy: StoreProxy) -> S3LogDir:
        """A log dir behind the proxy, without credentials."""
        options = {"AWS_ENDPOINT_URL": proxy.endpoint, "AWS_ALLOW_HTTP": "true"}
        return S3LogDir(s3_log_dir.uri, options)

    def test_reading_goes_on_when_the_token_has_expired(
        self, place: S3LogDir, tokens: Tokens
    ) -> None:
        files = open_files(place.uri, place.options)
        files.write_new("a", b"abc")
        deadline = time.monotonic() + 3 * LIFETIME_S
        while time.monotonic() < deadline:
            assert bytes(files.read("a")) == b"abc"
            time.sleep(0.1)

        assert len(tokens.seen) > 2
        assert tokens.refused == 0

    def test_a_token_that_has_expired_is_refused(self, place: S3LogDir, tokens: Tokens) -> None:
        found = tokens.next()
        given = {
            "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
            "AWS_SESSION_TOKEN": found["Token"],
        }
        files = open_files(place.uri, place.options | given)
        files.write_new("a", b"abc")
        time.sleep(LIFETIME_S)

        with pytest.raises(StoragePermissionError, match="cannot read a in .*ExpiredToken"):
            files.read("a")

        assert tokens.refused == 1
