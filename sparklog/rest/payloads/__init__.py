"""Bodies of requests and answers as bytes.

bodies      reads JSON bodies; json_parts parses large ones in parts
records     records in; batch: a batch of v3
fetch       records out
media_types their types
"""
