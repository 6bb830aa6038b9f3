"""Verify as a job: a topic's manifest, its files and every byte of its logs held together.

    manifest     segments do not overlap; log start, log end and cleaner offset fit them
    segments     `maintenance.verified`: checksums, offsets, sizes, counts, timestamps, indexes
    files        those of removed segments are there until their delay is over; those that no row
                 names are told, with their age: their writer may be about to commit

With `repair` what a power cut has torn of a Delta log is put aside first, indexes are rebuilt, and
a damaged log is put into quarantine: a segment of its sound batches takes its place, and the report
says which offsets are lost. Nothing is ever deleted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sparklog.config import TopicConfig
from sparklog.errors import CorruptMetadataError, SparklogError
from sparklog.log_reader.rebuild import live_entries
from sparklog.maintenance.job import JobContext, Outcome, Step, failing_step
from sparklog.maintenance.repair import Judged, repair
from sparklog.maintenance.verified import Verdict, VerifyWork, verified
from sparklog.maintenance.verified_manifest import file_findings, manifest_problems, segments_of
from sparklog.metadata.UNKNOWN import manifest_directory
from sparklog.metadata.log import CLUSTER_METADATA
from sparklog.metadata.image import TopicImage
from sparklog.metadata.UNKNOWN import put_torn_aside, torn_files
from sparklog.model import SegmentEntry, TopicDescription


def verify(
    context: JobContext, topics: Sequence[str], options: Mapping[str, Any]
) -> Iterator[Step]:
    """Check topics; with `options["repair"]` mend what can be mended.

    `options["records"]`: decode every record, too.
    """
    if options["repair"]:
        yield from _mending(context, CLUSTER_METADATA, CLUSTER_METADATA, context.catalog.topics)
    for topic in context.topics(topics):
        try:
            if options["repair"]:
                read = context.catalog.store(topic).snapshot
                yield from _mending(context, topic.name, manifest_directory(topic), read)
            snapshot = context.catalog.topic_image(topic)
            rows = _rows(topic, snapshot)
        except SparklogError as error:
            yield failing_step(topic.name, error)
            continue
        execute = partial(_execute, context, topic, snapshot, options)
        yield Step(topic=topic.name, rows=rows, execute=execute)


def _mending(
    context: JobContext, name: str, directory: str, read: Callable[[], object]
) -> Iterator[Step]:
    """Yield the step that puts aside what is torn of a table which cannot be read, if anything is.

    A table that can be read is left alone, whatever lies in its log.
    """
    try:
        read()
        return
    except CorruptMetadataError:
        torn = torn_files(context.files, directory)
    if torn:
        rows = [{"torn": f"{directory}/_delta_log/{file}"} for file in torn]
        yield Step(topic=name, rows=rows, execute=partial(_put_aside, context, directory))


def _put_aside(context: JobContext, directory: str) -> Outcome:
    put = put_torn_aside(context.files, directory, context.clock)
    notes = [f"torn, put aside as {path}" for path in put]
    return Outcome(counts={"torn": len(put)}, notes=notes)


def _rows(topic: TopicDescription, snapshot: TopicImage) -> list[dict[str, Any]]:
    rows = []
    for partition in range(topic.num_partitions):
        sizes = [entry.log_bytes for entry in segments_of(snapshot, partition)]
        rows.append({"partition": partition, "segments": len(sizes), "bytes": sum(sizes)})
    return rows


def _execute(
    context: JobContext,
    topic: TopicDescription,
    snapshot: TopicImage,
    options: Mapping[str, Any],
) -> Outcome:
    now_ms = context.clock.now_ms()
    problems = manifest_problems(topic, snapshot)
    gone, notes = file_findings(context.files, topic, snapshot, now_ms)
    problems += gone
    entries = [
        entry
        for partition in range(topic.num_partitions)
        for entry in segments_of(snapshot, partition)
    ]
    judged, errors = _judged(context, topic, entries, is_decoding=options.get("records", False))
    problems += errors
    wrong = [(entry, verdict) for entry, verdict in judged if _is_wrong(verdict)]
    counts = {
        "segments": len(entries),
        "bytes": sum(entry.log_bytes for entry in entries),
        "damaged": len([verdict for _, verdict in wrong if verdict.log_problems]),
        "repaired": 0,
    }
    if options["repair"]:
        mended = repair(context, topic, wrong)
        counts["repaired"] = len(mended.paths)
        notes += mended.notes
        problems += mended.problems
        wrong = [(entry, verdict) for entry, verdict in wrong if entry.log_path not in mended.paths]
    for _, verdict in wrong:
        problems += [*verdict.log_problems, *verdict.index_problems]
    for _, verdict in judged:
        problems += verdict.other_problems
    return Outcome(counts=counts, problems=problems, notes=notes)


def _judged(
    context: JobContext,
    topic: TopicDescription,
    entries: Sequence[SegmentEntry],
    *,
    is_decoding: bool,
) -> tuple[list[Judged], list[str]]:
    """What is to be said of each segment that is still live; and what could not be looked at."""
    interval = TopicConfig.parse(topic.configs).index_interval_bytes
    works = [
        VerifyWork(
            files=context.files,
            topic=topic,
            entry=entry,
            index_interval_bytes=interval,
            is_decoding=is_decoding,
        )
        for entry in entries
    ]
    answers = context.fleet.map(verified, works, f"verify {topic.name}")
    # What a job took away meanwhile, and vacuum unlinked, is not missing.
    live = live_entries(context.catalog.topic_image(topic), entries)
    judged: list[Judged] = []
    errors: list[str] = []
    for entry, answer in zip(entries, answers, strict=True):
        if entry.log_path not in live:
            continue
        if isinstance(answer, SparklogError):
            errors.append(f"{topic.name}-{entry.partition}: {answer}")
        else:
            judged.append((entry, answer))
    return judged, errors


def _is_wrong(verdict: Verdict) -> bool:
    return bool(verdict.log_problems or verdict.index_problems)
