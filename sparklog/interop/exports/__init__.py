"""Exports topics into a log directory that a broker can mount.

export_log        all topics
export_partition  one partition, with a broker's layout
export_target     what the directory holds already
abort_markers     ends open transactions
commits_again     commits of groups that the broker needs once more
"""
