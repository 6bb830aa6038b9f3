"""Files that a real broker wrote, and what Kafka's dump tool says of them."""
