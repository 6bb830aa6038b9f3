"""What produce_all refuses before it looks at a DataFrame."""

from typing import Any

import pytest

from sparklog.errors import InvalidOptionError
from sparklog.spark import produce_all

FRAMES: Any = {"t": None}


@pytest.mark.parametrize(
    ("frames", "options", "told"),
    [
        ({}, {}, "frames must be"),
        ([None], {}, "frames must be"),
        (FRAMES, {"offsets": "{}"}, "offsets are a str"),
        (FRAMES, {"Topic": "t"}, "frames name the topics"),
    ],
)
def test_wrong_arguments_are_refused(frames: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        produce_all(frames, "log", **options)
