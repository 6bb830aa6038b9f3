"""The page's groups: the list, one group, and what a token may read."""

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sparklog.admin import PartitionLag
from sparklog.model import TopicPartition
from sparklog.rest.page_groups import _age
from tests.rest.conftest import client_for, settings_for
from tests.rest.test_consumer_groups import TOKENS
from tests.rest.tokens import bearer


def rows(html: str, table: str) -> list[list[str]]:
    """The cells of a table, as text."""
    [body] = re.findall(rf'id="{table}".*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    return [
        [re.sub("<[^>]*>", "", cell).strip() for cell in re.findall("<td.*?</td>", row)]
        for row in re.findall("<tr>.*?</tr>", body, re.DOTALL)
    ]


def test_the_list_tells_states_and_lag(readers: str, client: TestClient) -> None:
    assert 'href="/?group="' in client.get("/").text
    found = rows(client.get("/?group=").text, "groups")
    assert [one[:4] for one in found] == [
        ["another", "Empty", "1", "0"],
        ["readers", "Stable", "2", "4"],
    ]
    assert (found[0][4], found[1][4][-2:]) == ("0 s", " d")
    assert [one[5] for one in found] == ["OK", "-"]


def test_a_group_has_members_offsets_and_lag(readers: str, client: TestClient) -> None:
    html = client.get("/?group=readers").text
    assert "Stable, assignor range, members: 1" in html
    assert "4 at most, 4 now" in html
    first, second = rows(html, "lags")
    assert [*first[:5], first[6]] == ["t", "0", "2", "3", "1", ""]
    assert [*second[:5], second[6]] == ["t", "1", "1", "4", "3", "first-1"]


def test_a_group_has_a_picture_of_its_lag(readers: str, client: TestClient) -> None:
    html = client.get("/?group=another").text
    assert "members: 0, lag: OK" in html
    assert re.search(r'<polyline points="600,100"', html)
    assert "0 at most, 0 now" in html


def test_before_the_first_group(client: TestClient) -> None:
    assert "no group yet" in client.get("/?group=").text


def test_before_there_is_a_log_dir(tmp_path: Path) -> None:
    with client_for(settings_for(tmp_path / "log")) as client:
        assert "no group yet" in client.get("/?group=").text


def test_a_group_that_is_not_there_is_told(client: TestClient) -> None:
    answer = client.get("/?group=nobody")
    assert (answer.status_code, "there is no group" in answer.text) == (404, True)


def test_a_token_sees_its_groups(readers: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text(TOKENS)
    with client_for(settings_for(readers, tokens_file=file)) as client:
        client.headers.update(bearer("reader"))
        assert rows(client.get("/?group=").text, "groups") == [
            ["readers", "Stable", "0", "0", "-", "-"]
        ]
        assert "nothing committed yet" in client.get("/?group=readers").text
        assert "no read access to group" in client.get("/?group=another").text


@pytest.mark.parametrize(
    ("lag_ms", "text"),
    [
        (None, None),
        (0, "0 s"),
        (119_000, "119 s"),
        (210_000, "3.5 min"),
        (36_000_000, "10.0 h"),
        (864_000_000, "10.0 d"),
    ],
)
def test_a_lag_in_time_is_for_people(lag_ms: int | None, text: str | None) -> None:
    assert _age(PartitionLag(TopicPartition("t", 0), 0, None, 0, 1, 1, lag_ms)) == text
