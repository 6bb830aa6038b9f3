"""A service's process takes no more memory than it needs."""

import subprocess
import sys

import pytest

from sparklog import service_memory
from sparklog.service_memory import give_back, leave_out_unused

CODE = """
import sys
from sparklog.service_memory import spare_memory
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


def test_what_is_free_is_given_back() -> None:
    give_back()


def test_a_library_without_such_calls_is_left_alone() -> None:
    service_memory._call("no_such_call", 0)
