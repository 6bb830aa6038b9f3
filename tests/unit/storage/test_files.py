import subprocess
import sys

import numpy as np
import pytest

from sparklog.storage.files import flat_view


class TestFlatView:
    def test_flattens_any_shape_and_item(self) -> None:
        view = flat_view(np.arange(4, dtype="<u2").reshape(2, 2).view(np.uint8))

        assert (view.format, view.shape) == ("B", (8,))
        assert bytes(view) == b"\0\0\1\0\2\0\3\0"

    def test_copies_nothing(self) -> None:
        data = bytearray(b"abc")
        view = flat_view(data)
        data[0] = ord("x")

        assert bytes(view) == b"xbc"

    def test_is_empty_for_an_empty_array(self) -> None:
        assert flat_view(np.empty((0, 3), np.uint8)).nbytes == 0


class TestImport:
    @pytest.mark.parametrize("module", ("pyarrow", "numpy", "deltalake"))
    def test_the_package_is_light(self, module: str) -> None:
        code = f"import sys, sparklog.storage; sys.exit({module!r} in sys.modules)"

        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
