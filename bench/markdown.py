"""`python -m bench.markdown RESULT.json ...`: the figures as the tables of docs/performance.md."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.figures import Bar, short

MET = {None: "", True: "yes", False: "**no**"}
COLUMNS = {"what": "---", "figure": "---:", "unit": "---", "bar": "---:", "met": "---"}


def main(paths: Sequence[Path]) -> None:
    """Print date, machine and versions of each file, and a table per group."""
    for path in paths:
        print("\n".join(_lines(json.loads(path.read_text()))))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    machine, settings = report["machine"], report["settings"]
    yield f"Measured {report['date']} with {settings['rounds']} rounds on {machine['cpu']},"
    yield f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}."
    yield "Versions: " + ", ".join(f"{name} {v}" for name, v in report["versions"].items()) + "."
    for group, of_group in groupby(report["figures"], key=lambda figure: figure["group"]):
        figures = list(of_group)
        has_rounds = any(len(one["rounds"]) > 1 for one in figures)
        columns = COLUMNS | ({"rounds": "---"} if has_rounds else {})
        yield f"\n### {group[0].upper()}{group[1:]}\n"
        yield _row(columns)
        yield f"|{'|'.join(columns.values())}|"
        for one in figures:
            yield _row(_cells(one)[: len(columns)])
    yield ""


def _row(cells: Sequence[str] | dict[str, str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(figure: dict[str, Any]) -> list[str]:
    bar = Bar(**figure["bar"]) if figure["bar"] else ""
    rounds = " ".join(map(short, figure["rounds"]))
    number = short(figure["value"])
    return [figure["name"], number, figure["unit"], str(bar), MET[figure["met"]], rounds]


if __name__ == "__main__":
    main([Path(one) for one in sys.argv[1:]])
