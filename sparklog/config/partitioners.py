"""The partitioners that need no code of the user's, and the one that a topic has by default."""

from typing import Final

DEFAULT: Final = "default"
ROUND_ROBIN: Final = "round-robin"
UNIFORM_STICKY: Final = "uniform-sticky"
BUILT_IN: Final = (DEFAULT, ROUND_ROBIN, UNIFORM_STICKY)
"""All that a client of a service may choose."""
