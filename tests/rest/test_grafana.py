"""deploy/grafana: every metric and label of its expressions is one that a running service tells."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from sparklog.admin import AdminClient

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARD = json.loads((FOLDER / "groups.json").read_text())
ALERTS = (FOLDER / "alerts.yml").read_text()
METRIC = re.compile(r"\b(?:kafka|sparklog)_\w+")
LABELS = re.compile(r"by \((\w+)\)|\{(\w+)=~|\{\{(\w+)\}\}|\$labels\.(\w+)|members, (\w+)\)")


def expressions() -> Iterator[str]:
    """Of panels and their legends, of the variable, and of the rules."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"{target['expr']} {target['legendFormat']}"
    yield from (one["query"] for one in DASHBOARD["templating"]["list"])
    for rule in ALERTS.split("- alert:")[1:]:
        yield " ".join(rule.split())


EXPRESSIONS = [one for one in expressions() if METRIC.search(one)]


@pytest.fixture
def told(client: TestClient, log_dir: str) -> dict[str, set[str]]:
    """The labels of each metric that a service tells."""
    AdminClient(log_dir).alter_consumer_group_offsets("readers", {("t", 0): 0})
    text = client.get("/metrics/kafka").text
    return {
        family.name: {name for one in family.samples for name in one.labels}
        for family in text_string_to_metric_families(text)
    }


def test_every_panel_and_rule_has_an_expression() -> None:
    assert len(EXPRESSIONS) == len(DASHBOARD["panels"]) + 1 + ALERTS.count("- alert:")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_metrics_and_labels_are_there(told: dict[str, set[str]], expression: str) -> None:
    metrics = set(METRIC.findall(expression))
    assert metrics <= set(told)
    labels = {one for found in LABELS.findall(expression) for one in found if one}
    assert all(labels <= told[metric] for metric in metrics)


def test_panels_do_not_overlap() -> None:
    def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        return {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }

    found = [cells(panel) for panel in DASHBOARD["panels"]]
    assert sum(map(len, found)) == len(set().union(*found))
