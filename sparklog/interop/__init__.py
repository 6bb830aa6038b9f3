"""In and out of Kafka: what its tools print, its brokers' directories, and what they must be given.

dump_…      what kafka-dump-log.sh prints of a file, character for character
import_…    a broker's log directory becomes topics here
export_…    topics here become a directory that a broker mounts
"""
