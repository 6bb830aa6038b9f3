"""Brokers' log directories are dumped, imported and exported, as Kafka's own tools see them.

dump_…      what kafka-dump-log.sh prints of a file, character for character
import_…    a broker's log directory becomes topics here
take_over   a broker's transactional ids go on here, with the transactions that are open
export_…    topics here become a directory that a broker mounts
"""
