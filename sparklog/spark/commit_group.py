"""A batch as a consumer group: the ends of a read, and their commit after its records are used."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from sparklog.config.options import parse_options
from sparklog.errors import InvalidOptionError
from sparklog.model import TopicPartition, offsets_json, partition_number, whole_number
from sparklog.spark.connect import planned
from sparklog.storage import open_files

if TYPE_CHECKING:
    from sparklog.metadata.catalog import Catalog

Offsets = Mapping[TopicPartition, int]
OffsetsJson = Mapping[str, Mapping[str, int]]

_ENDS: Final[WeakKeyDictionary[DataFrame, dict[str, dict[str, int]]]] = WeakKeyDictionary()


def remember_ends(df: DataFrame, found: Offsets) -> DataFrame:
    """Keep the ends of a planned read, for `ends`; return the DataFrame."""
    _ENDS[df] = offsets_json(found)
    return df


def ends(df: DataFrame) -> dict[str, dict[str, int]]:
    """Return the end offsets of a DataFrame of `consume`, as endingOffsets: {topic: {"0": offset}}.

    An end offset is that of the next record to read. Every partition of the read has one, also a
    partition without new records: then it is the offset at which the read began. Raises
    InvalidOptionError for any other DataFrame, also for one derived from it, and for one of
    history=auto or table, which no group reads.
    """
    found = _ENDS.get(df)
    if found is None:
        raise InvalidOptionError(
            "ends takes the DataFrame that sparklog.spark.consume returned with history=log, as "
            "without the option; neither one of history=auto or table, nor one derived from it"
        )
    return found


def commit_group(
    spark: SparkSession,
    log_dir: str | PathLike[str],
    group: str,
    offsets: OffsetsJson | Offsets,
    **options: Any,
) -> None:
    """Commit offsets as a group, in one commit: those of `ends`, or any {topic: {partition: N}}.

    An offset is that of the next record to read. `options` are storage settings (`storage.<NAME>`).
    For a client of Spark Connect a task makes the commit. Raises InvalidGroupIdError,
    GroupNotEmptyError (it has members at a gateway), UnknownTopicError, OffsetOutOfRangeError,
    CommitConflictError.
    """
    _, storage = parse_options((), options)
    wanted = {"group": group, "offsets": flat(offsets)}
    planned(spark, open_files(fspath(log_dir), storage), wanted, _commit)


def flat(offsets: object) -> dict[TopicPartition, int]:
    """Return offsets by partition, from either shape. Raises InvalidOptionError for others."""
    if not isinstance(offsets, Mapping):
        raise InvalidOptionError(
            f"offsets are a {type(offsets).__name__}: they must be a mapping {{topic: {{partition: "
            "offset}} (of JSON: json.loads)"
        )
    found: dict[TopicPartition, int] = {}
    for key, value in offsets.items():
        given: list[tuple[object, object]] = [(key, value)]
        if isinstance(value, Mapping):
            given = [((key, number), offset) for number, offset in value.items()]
        for place, offset in given:
            found[_place(place)] = _offset(place, offset)
    return found


def _place(place: object) -> TopicPartition:
    match place:
        case (str() as topic, named) if (number := partition_number(named)) is not None:
            return TopicPartition(topic, number)
    raise InvalidOptionError(f"{place!r} is no partition of a topic")


def _offset(place: object, offset: object) -> int:
    if (number := whole_number(offset)) is None:
        raise InvalidOptionError(f"{place!r}: {offset!r} is no offset")
    return number


def _commit(catalog: "Catalog", options: Mapping[str, Any]) -> None:
    from sparklog.admin.groups import GroupAdmin
    from sparklog.coordinator.requests import CommittedOffset

    offsets = {place: CommittedOffset(one) for place, one in options["offsets"].items()}
    GroupAdmin(catalog).commit(options["group"], offsets)
