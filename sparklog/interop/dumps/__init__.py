"""Prints a file as kafka-dump-log.sh does, character for character.

dump                 one file; its suffix decides how
dump_log             a `.log`, by dump_batches
dump_index           a `.index` and a `.timeindex`
dump_state           a `.snapshot` and a `.txnindex`
decoders             Kafka's decoders of keys and values
coordinator_records  records of the coordinators' topics
text_lines           columns to lines, thousands at once
"""
