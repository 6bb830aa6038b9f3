"""A service as a process: what the gateway and the REST service share, whatever they serve.

Read `settings` first: options, and variables of the environment. `logs`, `metrics` and `ready` are
for operators. `watched_files` notices files that change. `open_files`, `memory` and `end` are about
the process itself. `housekeeper` is the second process: it folds, merges and compacts.
"""
