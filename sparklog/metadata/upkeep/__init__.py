"""Upkeep of the metadata log's own files. `sparklog.maintenance` does that for segments.

fold          entries become a run, and runs of similar size become one
clean         deletes the files that a fold replaced
housekeeping  decides when both are due
leftovers     finds files that no entry names
diagnosis     finds damaged files, and the version from which the log can be opened
repair        mends what the diagnosis found
restore       makes a restored copy a log dir of its own
"""
