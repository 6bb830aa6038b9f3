"""The settings that the command line of `bench` can change."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """How much to measure, and where the files go while measuring."""

    records: int
    rounds: int
    quick: bool
    directory: Path
