"""Commits of jobs to the table of a topic, which leave nothing behind if the topic is erased."""

from sparklog.config.topic import TopicConfig
from sparklog.errors import ForgottenTopicError
from sparklog.maintenance.job import JobContext
from sparklog.metadata.catalog import topic_directory
from sparklog.model import TopicDescription
from sparklog.table.delta_log import DELTA_LOG, entry_path
from sparklog.table.of_topic import Change, commit, table_directory
from sparklog.table.snapshot import Snapshot


def commit_change(context: JobContext, topic: TopicDescription, change: Change) -> Snapshot:
    """Commit a change of a topic's table; return the table after it.

    Raises as `commit`, and ForgottenTopicError.

    Vacuum lists the directory of a deleted topic once, and finds no file that a job writes later.
    So if vacuum erases the topic meanwhile, this function deletes the files of the change and its
    entry, and the directory if no other data file is left. A table that outlives its topic
    (`sparklog.table.delete=false`) gets the change.
    """
    if not TopicConfig.parse(topic.configs).table_delete:
        return commit(context.files, topic, context.clock, change)
    directory = table_directory(topic)
    paths = [f"{directory}/{one.path}" for one in change.written]
    try:
        context.image(topic)
        after = commit(context.files, topic, context.clock, change)
        paths.append(entry_path(directory, after.version))
        context.image(topic)
    except ForgottenTopicError:
        context.files.delete_many(paths)
        left = context.files.list(topic_directory(topic), recursive=True)
        if all(one.path.startswith(f"{directory}/{DELTA_LOG}/") for one in left):
            context.files.delete_tree(topic_directory(topic))
        raise
    return after
