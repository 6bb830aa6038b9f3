"""sparklog: Kafka's log without brokers, on PySpark."""
