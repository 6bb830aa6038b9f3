"""Ways to a log dir, one for each gateway: one can be cut while the others stay open.

LinkedWay     a symbolic link to a local log dir. Cut, it leads nowhere, so that every call
              fails, or to an empty directory: a mount point whose file system is gone
ProxiedWay    a proxy of its own in front of an object store. Cut, it holds every request; when
              it is mended, the store gets half of them, late, and the others fail
"""

import os
import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tests.s3 import S3LogDir
from tests.store_proxy import Answer, Request, StoreProxy, said


class Way(Protocol):
    """A gateway's way to its log dir, and the variables that lead there."""

    uri: str
    environ: Mapping[str, str]

    def cut(self) -> None:
        """Let nothing pass."""

    def mend(self) -> None:
        """Let all pass again."""


class LinkedWay:
    """The way to `target`; the link is made at `path`."""

    environ: Mapping[str, str] = {}

    def __init__(self, path: Path, target: Path, rng: random.Random) -> None:
        self.uri = str(path)
        self.empty = path.with_suffix(".empty")
        """Where the way may lead to while it is cut."""
        self.empty.mkdir()
        self._target = target
        self._rng = rng
        self.mend()

    def cut(self) -> None:
        """Lead nowhere, or to the empty directory."""
        self._lead_to(self._rng.choice([self.uri, str(self.empty)]))

    def mend(self) -> None:
        """Lead to the log dir."""
        self._lead_to(str(self._target))

    def _lead_to(self, target: str) -> None:
        os.symlink(target, f"{self.uri}.new")
        os.replace(f"{self.uri}.new", self.uri)


class ProxiedWay:
    """The way to a log dir in an object store, by a proxy that its maker enters."""

    def __init__(self, log_dir: S3LogDir, rng: random.Random) -> None:
        self.uri = log_dir.uri
        self._is_open = threading.Event()
        self._is_open.set()
        self._rng = rng
        self.proxy = StoreProxy(log_dir.options["AWS_ENDPOINT_URL"], refuse=self._held)
        self.environ: Mapping[str, str] = log_dir.options | {
            "AWS_ENDPOINT_URL": self.proxy.endpoint
        }

    def cut(self) -> None:
        """Hold requests from now on."""
        self._is_open.clear()

    def mend(self) -> None:
        """Let requests pass; those that were held pass late, or not at all."""
        self._is_open.set()

    def _held(self, _: Request) -> Answer | None:
        if self._is_open.is_set():
            return None
        self._is_open.wait()
        return self._rng.choice([None, said(503)])
