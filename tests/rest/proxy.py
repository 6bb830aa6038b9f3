"""A proxy that hands each request to the next instance, as a load balancer without memory does."""

import socket
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Self

import httpx2

GONE = 502
_KEPT = ("content-type", "accept", "idempotency-key", "host")


class RoundRobin:
    """Serves on a free port of loopback; 502 where the instance in turn does not answer."""

    def __init__(self, urls: Sequence[str]) -> None:
        turns, lock = cycle(urls), threading.Lock()
        client = httpx2.Client(timeout=60)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._forward()

            def do_POST(self) -> None:
                self._forward()

            def _forward(self) -> None:
                with lock:
                    url = next(turns)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name: self.headers[name] for name in _KEPT if name in self.headers}
                try:
                    answer = client.request(
                        self.command, url + self.path, content=body, headers=headers
                    )
                    status, content = answer.status_code, answer.content
                except httpx2.TransportError:
                    status, content = GONE, b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._client = client
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._client.close()


def connected(port: int, data: bytes) -> socket.socket:
    """Return a connection to a port of loopback on which `data` was sent."""
    found = socket.create_connection(("127.0.0.1", port), timeout=60)
    found.sendall(data)
    return found


def received(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes, and close."""
    parts = []
    with connection:
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)
