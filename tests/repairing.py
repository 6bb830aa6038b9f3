"""A folded metadata log, its files damaged, and the problems that are found in it."""

from pathlib import Path

from sparklog.metadata.upkeep.fold import fold
from sparklog.metadata.upkeep.repair import problems, repair
from tests.metadata_logs import World


def made(world: World) -> World:
    """Two folds: version 14 is the newest, and the folds cover 0 to 11."""
    world.produce(5)
    fold(world.log)
    world.produce(4)
    fold(world.log)
    world.produce(2)
    assert (world.log.image().version, world.log.image().fold.cover) == (14, 11)
    return world


def damage(world: World, path: str, data: bytes = b"", keep: int = 0) -> None:
    """Leave so much of a file's beginning, and other bytes behind it."""
    file = Path(world.files.uri, path)
    file.write_bytes(file.read_bytes()[:keep] + data)


def flip(world: World, path: str, at: int) -> None:
    """Turn all bits of a byte."""
    file = Path(world.files.uri, path)
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF
    file.write_bytes(data)


def found(world: World) -> list[str]:
    """The paths of all problems."""
    return [one.path for one in problems(world.files, world.clock)]


def cut(world: World, path: str) -> None:
    """Cut a file after 100 bytes."""
    damage(world, path, keep=100)


def mended(world: World) -> list[str]:
    """Repair; the lines that are told."""
    told: list[str] = []
    repair(world.files, world.clock, told.append)
    return told
