"""Kernels are compiled once on a machine, before a service listens."""

import errno
import fcntl
import os
import runpy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from sparklog.record import kernel_cache as cache
from sparklog.record import kernels
from sparklog.record.kernel_cache import compile_missing
from sparklog.record.kernels import jit
from tests.waiting import until


class TestCompileMissing:
    @pytest.fixture
    def mark(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        mark = tmp_path / "cache" / "complete"
        monkeypatch.setitem(kernels._mode, "is_plain", False)
        monkeypatch.setattr(jit, "complete_mark", lambda: mark)
        monkeypatch.setattr(cache, "is_complete", lambda: False)
        run = partial(runpy.run_module, run_name="__main__")
        monkeypatch.setattr(subprocess, "run", lambda command, **_: run(command[-1]))
        return mark

    def test_compiles_once(self, mark: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        compile_missing()
        compile_missing()
        assert mark.exists()
        assert len(caplog.messages) == 1

    def test_waits_for_another_process_that_compiles(
        self, mark: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        caplog.set_level("INFO")
        monkeypatch.delattr(subprocess, "run")
        with ThreadPoolExecutor() as pool:
            with cache._locked(mark.parent):
                waits = pool.submit(compile_missing)
                until(lambda: bool(caplog.messages))
                mark.touch()
            waits.result()

    def test_compiles_for_one_that_was_killed(self, mark: Path) -> None:
        mark.parent.mkdir()
        code = "import fcntl, os, sys; d = os.open(sys.argv[1], 0); fcntl.flock(d, fcntl.LOCK_EX)"
        command = [sys.executable, "-c", f"{code}; print(flush=True); input()", str(mark.parent)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            other.kill()
        compile_missing()
        assert mark.exists()

    @pytest.mark.parametrize("fails", ["flock", "mkdir"])
    def test_compiles_without_a_lock_where_there_is_none(
        self, mark: Path, monkeypatch: pytest.MonkeyPatch, fails: str
    ) -> None:
        def refused(*_: object, **__: object) -> None:
            raise OSError(errno.ENOLCK, "no locks here")

        ran: list[object] = []
        monkeypatch.setattr(subprocess, "run", lambda command, **_: ran.append(command))
        monkeypatch.setattr({"flock": fcntl, "mkdir": Path}[fails], fails, refused)
        compile_missing()
        assert len(ran) == 1

    def test_says_what_to_do_without_a_cache(
        self, mark: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(jit, "complete_mark", lambda: None)
        compile_missing()
        assert not mark.exists()
        assert "set NUMBA_CACHE_DIR" in caplog.text

    def test_does_not_load_numba_to_see_a_complete_cache(
        self, mark: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cache, "is_complete", lambda: True)
        monkeypatch.delattr(jit, "complete_mark")
        compile_missing()
        assert not mark.exists()

    def test_the_mark_lies_in_the_folder_that_is_chosen(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        assert not cache.is_complete()
        (tmp_path / "kernels_1").mkdir()
        (tmp_path / "kernels_1" / cache.COMPLETE).touch()
        assert cache.is_complete()

    @pytest.mark.parametrize("is_writable", [True, False])
    def test_the_mark_lies_beside_the_sources_if_numba_may_write_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_writable: bool
    ) -> None:
        monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
        monkeypatch.setattr(cache, "BESIDE_SOURCES", tmp_path)
        monkeypatch.setattr(os, "access", lambda *_: is_writable)
        assert not cache.is_complete()
        (tmp_path / cache.COMPLETE).touch()
        assert cache.is_complete() is is_writable
