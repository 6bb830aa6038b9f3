"""A figure, its stopwatch, the table it is printed in, and the JSON it is kept in."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

PACKAGES = ("sparklog", "pyspark", "delta-spark", "deltalake", "pyarrow", "numpy", "numba")


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of a figure: at least `least`, or at most `most`."""

    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether `value` keeps to both bounds."""
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        bounds = (("≥", self.least), ("≤", self.most))
        return " ".join(f"{sign} {short(number)}" for sign, number in bounds if number is not None)


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number: the median of `rounds`, or the only one."""

    group: str
    name: str
    value: float
    unit: str
    bar: Bar | None = None
    rounds: tuple[float, ...] = ()

    @classmethod
    def of_rounds(
        cls, group: str, name: str, rounds: Sequence[float], unit: str, bar: Bar | None = None
    ) -> "Figure":
        """The median of the rounds, which are kept beside it."""
        return cls(group, name, median(rounds), unit, bar, tuple(rounds))

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is met; None without one."""
        return None if self.bar is None else self.bar.is_met(self.value)


def elapsed_s(work: Callable[[], object]) -> float:
    """How long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def print_table(figures: Iterable[Figure]) -> None:
    """One table per group, as they come."""
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.group, []).append(figure)
    console = Console(width=None if os.isatty(1) else 110)
    for group, rows in groups.items():
        table = Table(title=group, title_justify="left", title_style="bold")
        table.add_column("what")
        table.add_column("figure", justify="right")
        table.add_column("unit")
        table.add_column("bar", justify="right")
        table.add_column("met")
        table.add_column("rounds", justify="right")
        for row in rows:
            met = {None: "", True: "[green]yes", False: "[red]no"}[row.is_met]
            spread = " ".join(short(one) for one in row.rounds)
            table.add_row(row.name, short(row.value), row.unit, str(row.bar or ""), met, spread)
        console.print(table)


def write_json(path: Path, figures: Iterable[Figure], settings: dict[str, Any]) -> None:
    """Everything measured, with when, where and by which versions."""
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings,
        "machine": machine(),
        "versions": versions(),
        "figures": [{**asdict(figure), "met": figure.is_met} for figure in figures],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


def machine() -> dict[str, Any]:
    """Processor, cores, memory and system of this machine."""
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": platform.platform(),
    }


def versions() -> dict[str, str]:
    """Versions of Python, Java, Kafka and the packages that matter."""
    found = {"python": platform.python_version(), "java": _java_version(), "kafka": "4.1.1"}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "from the checkout"
    return found


def _java_version() -> str:
    from tests.kafka.jars import java

    answer = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True)
    return answer.stderr.split('"')[1]


def short(value: float) -> str:
    """Return a figure in three digits, or whole from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
