"""Measures sparklog's speed and memory: `python -m bench --help`."""
