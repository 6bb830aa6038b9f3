"""In and out of Kafka: the output of its tools, and the log directories of its brokers.

dump_…      what kafka-dump-log.sh prints of a file, character for character
import_…    a broker's log directory becomes topics here
export_…    topics here become a directory that a broker mounts
"""
