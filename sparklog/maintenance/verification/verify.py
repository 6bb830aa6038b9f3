"""Verify as a job: checks the metadata log, and of topics the image, files and every byte of logs.

    metadata     meta.properties; entries, runs, history, hints (`metadata.upkeep`)
    image        segments do not overlap; log start, log end and cleaner offset fit them
    segments     checksums, offsets, sizes, counts, timestamps, indexes (`verified`)
    producers    aborted spans, open transactions, last batches (`verified_log`)
    files        files of removed segments must exist until their delay is over; files that no row
                 names are noted with their age: their writer may be about to commit

With `repair` the metadata log is repaired first, indexes are rebuilt, and a damaged log is put into
quarantine: a segment of its sound batches replaces it, and the report lists the lost offsets. At
the end open transactions that the metadata have wrongly are closed or entered (`ended`).
Nothing is ever deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from sparklog.config import TopicConfig
from sparklog.errors import (
    CorruptMetadataError,
    LogDirError,
    SparklogError,
    UnsupportedFeatureError,
)
from sparklog.log.names import CLUSTER_METADATA
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step, tried
from sparklog.maintenance.parts import parts_of
from sparklog.maintenance.verification.ended import settle
from sparklog.maintenance.verification.repair import Judged, repair
from sparklog.maintenance.verification.verified import VerifyWork, verified
from sparklog.maintenance.verification.verified_image import file_findings, image_problems
from sparklog.maintenance.verification.verified_log import LogStates
from sparklog.maintenance.verification.verify_table import table_steps
from sparklog.metadata.catalog import topic_directory
from sparklog.metadata.names import ENTRIES
from sparklog.metadata.state.image import TopicImage
from sparklog.metadata.upkeep.repair import problems as metadata_problems
from sparklog.metadata.upkeep.repair import repair as repair_metadata
from sparklog.model import SegmentEntry, TopicDescription
from sparklog.storage.log_dir import META_PROPERTIES, open_log_dir, strange_file

SEGMENTS_MAX: Final = 10_000
"""The most segments in one round of checks and repairs: their verdicts are in memory. Ten producers
of a segment count as another segment."""


def verify(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Check the metadata log and topics; with `options["repair"]` also repair damage.

    `options["records"]`: also decode every record. `options["table"]`: also compare the tables of
    topics with their logs. Raises LogDirError if there is no log dir: no meta.properties that can
    be read, and no metadata log either. Without meta.properties, nothing else is repaired.
    """
    told = _log_dir_problems(context)
    is_lost = bool(told)
    mend = partial(_verify_metadata, context, told, is_mending=options["repair"] and not is_lost)
    yield Step(topic=CLUSTER_METADATA, rows=[{"what": "metadata log"}], execute=mend)
    if is_lost:
        return
    try:
        chosen = context.topics(topics)
        context.open_together(chosen)
    except CorruptMetadataError as error:
        if not told:
            yield failing_step(CLUSTER_METADATA, error)
        return
    for topic in chosen:
        try:
            image = context.catalog.topic_image(topic)
            rows = _rows(image)
        except SparklogError as error:
            yield failing_step(topic.name, error)
            continue
        execute = partial(_execute, context, topic, image, options)
        yield Step(topic=topic.name, rows=rows, execute=execute)
        if options.get("table", False):
            yield from tried(topic.name, table_steps(context, topic, image))


def _log_dir_problems(context: JobContext) -> list[str]:
    """Return the problems of the log dir's meta.properties. Raises as `verify`."""
    try:
        open_log_dir(context.files)
    except UnsupportedFeatureError:
        raise
    except LogDirError as error:
        is_being_made = context.files.stat(META_PROPERTIES) is None and not strange_file(
            context.files
        )
        if is_being_made or not any(context.files.list(ENTRIES)):
            raise
        return [str(error)]
    return []


def _verify_metadata(context: JobContext, told: list[str], *, is_mending: bool) -> Outcome:
    """Check the metadata log, or repair it; append its problems to `told`, and report all of them.

    `verify` made the list: it sees there whether this step has reported damage. If the repair stops
    halfway, its lines so far are reported, and why it stopped.
    """
    done: list[str] = []
    stopped: list[str] = []
    if is_mending:
        try:
            repair_metadata(context.files, context.clock, done.append)
        except CorruptMetadataError:
            pass  # the check below reports damage that stays
        except SparklogError as error:
            stopped.append(str(error))
    told += map(str, metadata_problems(context.files, context.clock))
    counts = {"damaged": len(told), "repaired": len(done)}
    return Outcome(counts=counts, problems=list(told), notes=[*done, *stopped])


def _rows(image: TopicImage) -> list[dict[str, Any]]:
    rows = []
    for partition in range(image.description.num_partitions):
        sizes = [entry.log_bytes for entry in image.partition(partition).live.entries()]
        rows.append({"partition": partition, "segments": len(sizes), "bytes": sum(sizes)})
    return rows


def _weight(entry: SegmentEntry) -> int:
    return 1 + len(entry.producer_ids or ()) // 10


def _execute(
    context: JobContext,
    topic: TopicDescription,
    image: TopicImage,
    options: Mapping[str, Any],
) -> Outcome:
    now_ms = context.clock.now_ms()
    problems = image_problems(image)
    gone, notes = file_findings(context.files, topic, image, now_ms)
    problems += gone
    counts = dict.fromkeys(("segments", "bytes", "damaged", "repaired"), 0)
    entries = chain.from_iterable(
        image.partition(partition).live.entries() for partition in range(topic.num_partitions)
    )
    states = LogStates(image)
    for some in parts_of(entries, SEGMENTS_MAX, _weight):
        judged, errors = _judged(context, image, some, is_decoding=options.get("records", False))
        problems += errors
        found = [(entry, one) for entry, one in judged if one.log_problems or one.index_problems]
        wrong = _named(image, found)
        counts["segments"] += len(some)
        counts["bytes"] += sum(entry.log_bytes for entry in some)
        counts["damaged"] += sum(bool(verdict.log_problems) for _, verdict in wrong)
        if options["repair"]:
            mended = repair(context, topic, wrong)
            counts["repaired"] += len(mended.keys)
            notes += mended.notes
            problems += mended.problems
            wrong = [(entry, verdict) for entry, verdict in wrong if entry.key not in mended.keys]
        for _, verdict in wrong:
            problems += [*verdict.log_problems, *verdict.index_problems]
        for entry, verdict in judged:
            problems += verdict.other_problems
            problems += states.add(entry, verdict.traces)
    problems += states.finish()
    settled = settle(context, topic, states.wrong, is_mending=options["repair"])
    counts["repaired"] += settled.count
    notes += settled.notes
    problems += settled.problems
    return Outcome(counts=counts, problems=problems, notes=notes)


def _judged(
    context: JobContext,
    image: TopicImage,
    entries: Sequence[SegmentEntry],
    *,
    is_decoding: bool,
) -> tuple[list[Judged], list[str]]:
    """Return verdicts on the segments that are still live, and the errors of unreadable ones."""
    topic = image.description
    interval = TopicConfig.parse(topic.configs).index_interval_bytes
    works = [
        VerifyWork(
            files=context.files,
            topic=topic,
            entry=entry,
            index_interval_bytes=interval,
            is_decoding=is_decoding,
            opened=image.partition(entry.partition).transactions,
        )
        for entry in entries
    ]
    answers = context.fleet.map(verified, works, f"verify {topic.name}")
    # A segment that was removed and unlinked meanwhile is not missing.
    live = context.image(topic).find(entry.key for entry in entries)
    judged: list[Judged] = []
    errors: list[str] = []
    for entry, answer in zip(entries, answers, strict=True):
        if entry.key not in live:
            continue
        if isinstance(answer, SparklogError):
            errors.append(f"{topic.name}-{entry.partition}: {answer}")
        else:
            judged.append((entry, answer))
    return judged, errors


def _named(image: TopicImage, wrong: Sequence[Judged]) -> list[Judged]:
    """Return the verdicts; one on a file that is another segment's, by the rows, names that one.

    No batch of such a file belongs to the segment in whose place it lies.
    """
    contents = {verdict.content for _, verdict in wrong if verdict.content is not None}
    owners = {
        _content(entry): entry
        for partition in (image.partitions if contents else ())
        for entry in image.partition(partition).live.entries()
        if _content(entry) in contents
    }
    directory = topic_directory(image.description)
    return [
        (entry, verdict.on_file_of(owners[verdict.content], directory, entry))
        if verdict.content in owners and verdict.content != _content(entry)
        else (entry, verdict)
        for entry, verdict in wrong
    ]


def _content(entry: SegmentEntry) -> tuple[int, int | None] | None:
    """Return the size and the CRC-32C that a row says of a file; None of a slice."""
    return None if entry.is_shared else (entry.log_bytes, entry.log_crc32c)
