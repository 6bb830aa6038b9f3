"""Dumps, imports and exports brokers' log directories, as Kafka's own tools see them.

    dumps/         prints a file as kafka-dump-log.sh does, character for character
    imports/       makes topics, groups and transactional ids from brokers' log directories
    exports/       writes topics into a directory that a broker can mount
    broker_files/  the files of a broker, as Kafka's classes read and write them

Imports and exports share:

    examine        checks a broker's `.log`, and collects its epochs, producers and transactions
    epochs, sequences, transactions   the parts of that
    same_log       compares two copies of a partition
    staging        writes files beside their place, and moves them there
"""
