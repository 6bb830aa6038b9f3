"""`python -m bench.markdown RESULT.json`: the figures as the tables of docs/performance.md."""

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any


def main(path: Path) -> None:
    """Prints date, machine, versions, and a table per group."""
    print("\n".join(_lines(json.loads(path.read_text()))))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    machine, settings = report["machine"], report["settings"]
    yield f"Measured {report['date']} with {settings['rounds']} rounds on {machine['cpu']},"
    yield f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}."
    yield "Versions: " + ", ".join(f"{name} {v}" for name, v in report["versions"].items()) + "."
    for group, figures in groupby(report["figures"], key=lambda figure: figure["group"]):
        yield f"\n### {group[0].upper()}{group[1:]}\n"
        yield "| what | figure | unit | bar | met |"
        yield "|---|---:|---|---:|---|"
        yield from (_row(figure) for figure in figures)


def _row(figure: dict[str, Any]) -> str:
    met = {None: "", True: "yes", False: "no"}[figure["met"]]
    cells = (figure["name"], _number(figure["value"]), figure["unit"], _bar(figure["bar"]), met)
    return f"| {' | '.join(cells)} |"


def _bar(bar: dict[str, float | None] | None) -> str:
    signs = {"least": "≥", "most": "≤"}
    bounds = (bar or {}).items()
    return " ".join(
        f"{signs[name]} {_number(value)}" for name, value in bounds if value is not None
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
