"""Dumps, imports and exports brokers' log directories, as Kafka's own tools see them.

dump_…      prints a file as kafka-dump-log.sh does, character for character
import_…    makes topics here from a broker's log directory
take_over   makes transactional ids here from a broker's, with their open transactions
export_…    writes topics into a directory that a broker can mount
"""
