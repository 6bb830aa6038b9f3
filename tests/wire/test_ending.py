"""Signals end a service while it starts, in order, and although something hangs."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from sparklog.admin import AdminClient
from tests.waiting import until
from tests.wire.processes import IN_TERMINAL, is_alive

SERVICES = {
    "gateway": (
        "from sparklog.wire import gateway as made; from sparklog.wire.serving import server",
        'listen=("127.0.0.1:0",)',
    ),
    "rest": ("from sparklog.rest import service as made, server", "port=0"),
}
PRELUDE = """
import os, sys, threading, time
from sparklog.service import end

def tell(*_):
    os.write(2, b"%d\\n" % os.getpid())  # at once: other threads log

def hangs(*_):
    tell()
    time.sleep(600)
"""
PATIENCE_S = 120
Told = tuple["subprocess.Popen[str]", int]


@contextmanager
def begun(service: str, log_dir: Path, code: str, timeout_ms: int = 100) -> Iterator[Told]:
    """A service in a process that runs `code` first; and the process id that it tells."""
    imports, address = SERVICES[service]
    given = f"log_dir={str(log_dir)!r}, {address}, shutdown_timeout_ms={timeout_ms}"
    lines = [imports, PRELUDE, code, f"server.serve(server.Settings({given}))"]
    command = [*IN_TERMINAL, sys.executable, "-c", "\n".join(lines)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        told: Any = run.stderr
        patience = Timer(PATIENCE_S, run.kill)
        patience.start()
        try:
            number = next((int(line) for line in told if line.strip().isdigit()), None)
            assert number is not None, "the service told no process id"
            yield run, number
        finally:
            patience.cancel()
            run.kill()


def told_until_the_end(run: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> str:
    """What a service tells after a signal, until it ends well."""
    run.send_signal(number)
    _, told = run.communicate(timeout=30)
    assert run.returncode == 0, told
    return told


COMPILES = """
from pathlib import Path
from sparklog.record import kernel_cache as cache, kernels
from sparklog.record.kernels import jit
kernels._mode["is_plain"], cache.is_complete = False, lambda: False
jit.complete_mark = lambda: Path("absent")
sys.executable = {compiler!r}
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_that_compiles_ends_at_once(tmp_path: Path, service: str, number: int) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\nsleep 1\necho $$ >&2\nexec sleep 600\n")
    compiler.chmod(0o755)
    code = COMPILES.format(compiler=str(compiler))
    with begun(service, tmp_path / "log", code) as (run, child):
        assert os.getpgid(child) == child  # Ctrl-C does not reach it: it would show a traceback
        assert told_until_the_end(run, number) == ""
    assert not is_alive(child)


SERVES = """
start, close = server.Server.{start}, server.Server.{close}

async def starts(*given, **named):
    await start(*given, **named)
    tell()

async def closes(*given, **named):
    await close(*given, **named)
    os.write(2, b"closed in order\\n")

server.Server.{start}, server.Server.{close} = starts, closes
"""


@pytest.mark.parametrize(
    ("service", "steps"),
    [("gateway", ("start", "close")), ("rest", ("startup", "shutdown"))],
)
def test_a_service_ends_in_order_when_its_terminal_is_closed(
    tmp_path: Path, service: str, steps: tuple[str, str]
) -> None:
    code = SERVES.format(start=steps[0], close=steps[1])
    with begun(service, tmp_path / "log", code, 60_000) as (run, _):
        assert "closed in order" in told_until_the_end(run, signal.SIGHUP)
    assert list((tmp_path / "log").glob("__gateways/*.json")) == []


@pytest.mark.parametrize(
    ("what", "timeout_ms"),
    [("server.Server", 60_000), ("made._load_kernels", 60_000), ("made.Membership.beat", 100)],
)
def test_a_gateway_ends_although_it_hangs(tmp_path: Path, what: str, timeout_ms: int) -> None:
    code = f"end.GRACE_S, {what} = 0.1, hangs"
    with begun("gateway", tmp_path / "log", code, timeout_ms) as (run, _):
        assert "work is still under way" in told_until_the_end(run)


COMES_LATE = """
end_within, make, is_told = server.end_within, server.Server, threading.Event()
end.GRACE_S = 60

def makes_late(*given):
    tell()
    is_told.wait(60)
    return make(*given)

def is_to_end(*given):
    end_within(*given)
    is_told.set()

server.Server, server.end_within = makes_late, is_to_end
"""


def test_a_gateway_that_opens_its_log_dir_after_the_signal_does_not_listen(tmp_path: Path) -> None:
    with begun("gateway", tmp_path / "log", COMES_LATE) as (run, _):
        assert told_until_the_end(run) == ""
    assert list((tmp_path / "log" / "__gateways").glob("*.json")) == []


LOADS = """
leave, has_left = made.try_to_leave, threading.Event()
end.GRACE_S = 60

def loads():
    tell()
    has_left.wait(600)

def leaves(membership):
    leave(membership)
    has_left.set()

made._load_kernels, made.try_to_leave = loads, leaves
"""


def test_a_gateway_that_loads_kernels_gives_its_node_id_back_first(tmp_path: Path) -> None:
    with begun("gateway", tmp_path / "log", LOADS, 60_000) as (run, _):
        assert "work is still under way" not in told_until_the_end(run)
    assert list((tmp_path / "log" / "__gateways").glob("*.json")) == []


DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(2, b"%d\\n" % os.getpid())
time.sleep(600)
"""
KEEPS_HOUSE = """
from sparklog.service.housekeeper import Housekeeper
end.GRACE_S, made.HOUSEKEEPER, Housekeeper._is_due = 0.1, "deaf", lambda *_: True
"""


@pytest.mark.parametrize("service", SERVICES)
def test_a_housekeeper_that_hangs_ends_with_its_service(
    tmp_path: Path, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deaf.py").write_text(DEAF)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    AdminClient(tmp_path / "log").create_log_dir()
    with begun(service, tmp_path / "log", KEEPS_HOUSE) as (run, child):
        assert "work is still under way" in told_until_the_end(run)
    until(lambda: not is_alive(child))
