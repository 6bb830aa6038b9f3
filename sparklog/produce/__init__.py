"""A Kafka producer's decision before it writes: the partition of a record."""
