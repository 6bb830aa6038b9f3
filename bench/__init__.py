"""What sparklog's speed and memory are measured by: `python -m bench --help`."""
