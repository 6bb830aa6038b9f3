"""A proxy in front of an object store's server, which is slow, wrong or forgetful on request.

    with StoreProxy(server.endpoint, delay_s=0.03, bytes_per_s=50e6) as proxy:
        files = open_files(uri, options | {"AWS_ENDPOINT_URL": proxy.endpoint})
        proxy.add(Fault("PUT", "_delta_log", answer=503, after=True))
        ...
        assert [one.method for one in proxy.requests] == ["PUT", "PUT"]

Each connection has a thread. Every request waits `delay_s` before it is passed on, and every answer
leaves at `bytes_per_s` a connection. A fault is taken from the list when a request fits it:

    Fault("PUT", "a.log", answer=503)                   503, and the store has heard nothing
    Fault("PUT", "a.log", answer=503, after=True)       the store has done it, the answer is 503
    Fault("PUT", "a.log", answer=412, after=True)       "it exists", after one's own success
    Fault("PUT", "a.log", answer=409)                   a conflict with nothing written
    Fault("GET", "a.log", drop=True)                    the connection breaks
    Fault("GET", "a.log", stall_s=5)                    nothing happens for a while

`times` says how many requests a fault is for, `skip` how many that fit pass before it. `without`
are headers that are not passed on ("if-none-match": a store that ignores conditions). `refuse`
looks at each request and may answer it.
"""

import http.client
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self
from urllib.parse import urlsplit

CHUNK: Final = 64 * 1024
_CODES: Final = {
    403: "AccessDenied",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    500: "InternalError",
    503: "SlowDown",
}


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request; header names are in lower case."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The client's answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Fault:
    """A fault of the requests whose method and path (a regular expression) fit."""

    method: str = ""
    path: str = ""
    answer: int | None = None
    after: bool = False
    drop: bool = False
    stall_s: float = 0
    times: int = 1
    skip: int = 0

    def fits(self, request: Request) -> bool:
        is_method = self.method in {"", request.method}
        return is_method and re.search(self.path, request.path) is not None


class StoreProxy:
    """See the module; a context manager."""

    def __init__(
        self,
        target: str,
        *,
        delay_s: float = 0,
        bytes_per_s: float | None = None,
        without: Collection[str] = (),
        refuse: Callable[[Request], Answer | None] = lambda _: None,
    ) -> None:
        self.requests: list[Request] = []
        """All that came, also those that failed."""
        self.delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        self._target = urlsplit(target).netloc
        self._without = frozenset(without)
        self._refuse = refuse
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def add(self, *faults: Fault) -> None:
        """Let these go wrong from now on; the first that fits a request is taken."""
        with self._lock:
            self._faults += faults

    def fault_for(self, request: Request) -> Fault | None:
        """The fault of a request, which is noted."""
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if fault.fits(request):
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    if not fault.times:
                        self._faults.remove(fault)
                    return fault
        return None

    def answer(self, request: Request) -> Answer:
        """The store's answer; other proxies may answer instead of the store."""
        refused = self._refuse(request)
        return self.passed_on(request) if refused is None else refused

    def passed_on(self, request: Request) -> Answer:
        """Ask the store."""
        kept = {name: value for name, value in request.headers.items() if name not in self._without}
        store = http.client.HTTPConnection(self._target, timeout=60)
        try:
            store.request(request.method, request.path, request.body or None, kept)
            found = store.getresponse()
            headers = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, headers, found.read())
        finally:
            store.close()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is none."""


def said(status: int) -> Answer:
    """An answer of S3's that is an error."""
    code = _CODES.get(status, "Error")
    body = f"<Error><Code>{code}</Code><Message>said the proxy</Message></Error>"
    return Answer(status, {"content-type": "application/xml"}, body.encode())


def _handler(proxy: StoreProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - their name
            pass

        def _serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(size))
            fault = proxy.fault_for(request) or Fault()
            time.sleep(proxy.delay_s + fault.stall_s)
            is_passed_on = fault.after or not (fault.drop or fault.answer)
            answer = proxy.answer(request) if is_passed_on else said(503)
            if fault.drop:
                self.close_connection = True
                return
            self._send(answer if fault.answer is None else said(fault.answer))

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in _sent_headers(self.command, answer).items():
                self.send_header(name, value)
            self.end_headers()
            view = memoryview(answer.body if self.command != "HEAD" else b"")
            for start in range(0, len(view), CHUNK):
                self.wfile.write(view[start : start + CHUNK])
                if proxy.bytes_per_s:
                    time.sleep(min(CHUNK, len(view) - start) / proxy.bytes_per_s)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - their names

    return Handler


def _sent_headers(method: str, answer: Answer) -> dict[str, str]:
    """The store's headers, but for those of its own connection."""
    of_the_connection = {"connection", "content-length", "transfer-encoding", "date"}
    headers = {name: answer.headers[name] for name in answer.headers.keys() - of_the_connection}
    # The answer to a HEAD has the length of a body that it does not hold.
    told = answer.headers.get("content-length") if method == "HEAD" else None
    return headers | {"content-length": told or str(len(answer.body))}
