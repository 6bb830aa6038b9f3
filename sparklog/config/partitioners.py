"""The built-in partitioners, which need no code of the user's; DEFAULT is a topic's default."""

from typing import Final

DEFAULT: Final = "default"
ROUND_ROBIN: Final = "round-robin"
UNIFORM_STICKY: Final = "uniform-sticky"
BUILT_IN: Final = (DEFAULT, ROUND_ROBIN, UNIFORM_STICKY)
"""The names that a client of a service may choose from."""
