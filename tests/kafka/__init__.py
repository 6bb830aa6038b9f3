"""Kafka 4.1.1 as the judge: its classes dump what sparklog writes and write what it reads."""
