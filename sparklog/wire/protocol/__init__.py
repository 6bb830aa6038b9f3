"""Kafka's protocol as bytes. No socket.

frames            bytes of a connection to frames
headers           the headers of requests and answers
versions          THE table: the APIs that are served, and their versions
messages          bodies of requests and answers, by kio's schemas
reading, writing  bodies of APIs that are called often, by hand
topic_ids         topic ids as text and as bytes
"""
