"""The files of a broker's log directory, as Kafka's own classes read and write them.

broker_dir         the directory: its partitions, and the files of each
checkpoints        the text files beside the logs
file_records       batches of a `.log`; java_records: the records of a batch
control_records    markers and other control records
producer_snapshot  a `.snapshot`
txn_index          a `.txnindex`
index_checks       checks of a `.index` and a `.timeindex`
"""
