"""The codecs of a batch, framed as Kafka frames them: `compression` and `decompression`."""
