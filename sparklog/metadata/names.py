"""Names of the files of the metadata log, all below `__cluster_metadata`.

    _delta_log/<version>.json                    an entry (`codec.entry`)
    _delta_log/<version>.checkpoint.parquet      Delta's checkpoint of a fold (`delta`)
    _delta_log/_last_checkpoint                  Delta's hint: `version` of the newest checkpoint
    _newest_fold                                 our hint: `version` of the newest fold's entry
    _edits/<version>-<uuid>.json                 the edits of a large entry (`codec.entry`)
    _runs/<from>-<to>-<uuid>.parquet             a run (`runs.file`)
    _history/<from>-<to>-<uuid>.parquet          a history run (`history.files`)
    _cuts/<version>-<version>-<uuid>.parquet     a cut (`history.files`)
    _marks/<first kept version>-<fold>           a mark (`marks`)
    _torn/                                       files that were put aside (`upkeep.repair`)

Versions have 20 digits, uuids are of version 7. A hint is a JSON object; it may be old or missing,
never too new.
"""

import re
from typing import Final

from sparklog.log.names import CLUSTER_METADATA, UUID7_PATTERN

ENTRIES: Final = f"{CLUSTER_METADATA}/_delta_log"
POINTER: Final = f"{ENTRIES}/_last_checkpoint"
HINT: Final = f"{CLUSTER_METADATA}/_newest_fold"
TORN: Final = f"{CLUSTER_METADATA}/_torn"

EDITS: Final = "_edits"
"""This directory and those that follow are relative to `__cluster_metadata`, as in entries."""
RUNS: Final = "_runs"
HISTORY: Final = "_history"
CUTS: Final = "_cuts"
MARKS: Final = "_marks"

ENTRY_NAME: Final = re.compile(r"([0-9]{20})\.json")
CHECKPOINT_NAME: Final = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
EDITS_NAME: Final = re.compile(rf"([0-9]{{20}})-({UUID7_PATTERN})\.json")
RUN_NAME: Final = re.compile(rf"([0-9]{{20}})-([0-9]{{20}})-({UUID7_PATTERN})\.parquet")


def entry_path(version: int) -> str:
    """Return the path of an entry in the log dir."""
    return f"{ENTRIES}/{version:020}.json"


def checkpoint_path(version: int) -> str:
    """Return the path of Delta's checkpoint of a version in the log dir."""
    return f"{ENTRIES}/{version:020}.checkpoint.parquet"


def edits_name(version: int, uuid: str) -> str:
    """Return the path of an edits file below `__cluster_metadata`."""
    return f"{EDITS}/{version:020}-{uuid}.json"


def run_name(directory: str, span: tuple[int, int], uuid: str) -> str:
    """Return the path below `__cluster_metadata` of a run in RUNS, HISTORY or CUTS.

    `span` has its first and its last version.
    """
    return f"{directory}/{span[0]:020}-{span[1]:020}-{uuid}.parquet"


def last_part(path: str) -> str:
    """Return the name of a file without its directories."""
    return path.rpartition("/")[2]
