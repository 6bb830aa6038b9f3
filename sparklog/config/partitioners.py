"""The names of the built-in partitioners; DEFAULT is the default of a topic."""

from typing import Final

DEFAULT: Final = "default"
ROUND_ROBIN: Final = "round-robin"
UNIFORM_STICKY: Final = "uniform-sticky"
BUILT_IN: Final = (DEFAULT, ROUND_ROBIN, UNIFORM_STICKY)
"""All partitioners except a user's own functions. A client of a service may choose only these."""
