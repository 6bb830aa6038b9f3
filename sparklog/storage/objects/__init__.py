"""Files of an object store, through obstore.

object_store     the implementation of `sparklog.storage.files`
client           addresses, timeouts, retries; aws_credentials: sources that obstore lacks
read_ahead       reads a file, and fetches its next ranges meanwhile
newest           keeps the newest bytes of segments in memory
store_message    messages of the client in our errors
"""
