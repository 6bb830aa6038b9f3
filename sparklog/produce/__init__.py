"""What a Kafka producer decides before it writes: which partition a record goes to."""
