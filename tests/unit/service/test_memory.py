"""A service's process takes no more memory than it needs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparklog.service import memory
from sparklog.service.memory import leave_out_unused

LINUX = pytest.mark.skipif(
    not Path("/proc/self/smaps").exists(), reason="Linux tells what is there"
)

CODE = """
import sys
from pathlib import Path
from sparklog.service.memory import spare_memory
spare_memory()
import kio.static.primitive, pyarrow
pyarrow.array([None])
print([name for name in ("hypothesis.strategies", "pandas.core") if name in sys.modules])
"""


def test_packages_that_nobody_uses_are_not_loaded() -> None:
    command = [sys.executable, "-c", CODE]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_imports_of_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    leave_out_unused()
    leave_out_unused()
    [hook] = sys.meta_path
    assert hook.find_spec("orjson", None) is None
    with pytest.raises(ModuleNotFoundError, match="without pandas"):
        hook.find_spec("pandas", None)


CODE_OF_A_HEAP = """
from sparklog.service.memory import give_back

def resident():
    [line] = [one for one in open("/proc/self/status") if one.startswith("VmRSS:")]
    return int(line.split()[1])

size = 1000
blocks = [b"x" * size for _ in range(50_000)]
above = b"x" * size  # the C library itself gives back only what is free at the top of a heap
del blocks
before = resident()
give_back()
print(before - resident() > 30_000)
"""


@LINUX
def test_what_is_free_is_given_back() -> None:
    command = [sys.executable, "-c", CODE_OF_A_HEAP]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


def test_a_library_without_such_calls_is_left_alone() -> None:
    memory._call("no_such_call", 0)


def test_arrow_uses_the_heaps_of_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    memory.spare_arrow()
    assert os.environ["ARROW_DEFAULT_MEMORY_POOL"] == "system"


CODE_OF_A_LIBRARY = """
import pyarrow
from sparklog.service import memory

def resident():
    found, is_code = 0, False
    for line in open("/proc/self/smaps"):
        if "-" in line.split()[0]:
            is_code = "r-xp" in line and "/libarrow.so" in line
        elif is_code and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found

memory.COMPILER = "libarrow.so"
before = resident()
memory.give_back_code()
print(resident() < before / 2, pyarrow.array([1, 2]).to_pylist())
"""


@LINUX
def test_code_that_is_not_used_is_given_back() -> None:
    command = [sys.executable, "-c", CODE_OF_A_LIBRARY]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == "True [1, 2]\n"


def test_a_system_that_does_not_tell_where_code_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", fails)
    memory.give_back_code()
