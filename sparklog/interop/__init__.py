"""Dumps, imports and exports brokers' log directories, as Kafka's own tools see them.

dump_…        prints a file as kafka-dump-log.sh does, character for character
import_…      makes topics here from a broker's log directory
take_over     makes transactional ids here from a broker's, with their open transactions
export_…      writes topics into a directory that a broker can mount

broker_dir    the files of a broker; broker_dirs: those of several brokers
export_target facts about a target; commits_again: commits of groups that it gets once more
examine       checks a broker's `.log`; take_files, staging: link, copy and move files
checkpoints, producer_snapshot, txn_index     the broker's other files
file_records, java_records                    batches and records as Kafka's classes read them
"""
