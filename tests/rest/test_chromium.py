"""The page, as a person sees and uses it: in headless Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from sparklog.admin import AdminClient
from sparklog.clock import ManualClock, SystemClock
from tests.logs import append
from tests.rest.servers import Instance

BROWSERS = [found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))]
DRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BROWSERS and DRIVER),
        reason="needs Chromium and its driver (Debian: apt-get install chromium chromium-driver)",
    ),
]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSERS[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path / 'profile'}")
    found = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    found.implicitly_wait(30)
    yield found
    found.quit()


def cells(table: WebElement) -> list[list[str]]:
    rows = table.find_elements(By.CSS_SELECTOR, "tbody tr")
    return [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]


def test_one_sees_how_a_group_is_behind(
    browser: webdriver.Chrome, log_dir: str, tmp_path: Path
) -> None:
    ten_minutes_ago = ManualClock(SystemClock().now_ms() - 600_000)
    admin = AdminClient(log_dir, clock=ten_minutes_ago)
    admin.alter_consumer_group_offsets("readers", {("t", 1): 2})
    append(log_dir, 1, ["a", "b", "c"])
    with Instance(log_dir, tmp_path) as instance:
        browser.get(instance.url)
        browser.find_element(By.LINK_TEXT, "consumer groups").click()
        [group] = cells(browser.find_element(By.ID, "groups"))
        browser.find_element(By.LINK_TEXT, "readers").click()
        [lag] = cells(browser.find_element(By.ID, "lags"))
        picture = browser.find_element(By.ID, "picture")
        told, size = picture.accessible_name, picture.size
        line = picture.find_element(By.TAG_NAME, "polyline")
        is_shown, color = line.is_displayed(), line.value_of_css_property("stroke")

    assert group[:4] == ["readers", "Empty", "1", "1"]
    assert lag[:5] == ["t", "1", "2", "3", "1"]
    assert told == "lag in records over the last hour: 1 at most, 1 now"
    assert (is_shown, color) == (True, "rgb(68, 119, 204)")
    assert size["width"] > 5 * size["height"] > 0


def test_one_walks_from_topics_to_the_records_at_a_time(
    browser: webdriver.Chrome, log_dir: str, tmp_path: Path
) -> None:
    append(log_dir, 1, ["early", "late & <later>"], timestamps=[1000, 90_000])
    with Instance(log_dir, tmp_path) as instance:
        browser.get(instance.url)
        topics = cells(browser.find_element(By.ID, "topics"))
        browser.find_element(By.LINK_TEXT, "t").click()
        partitions = cells(browser.find_element(By.ID, "partitions"))
        browser.find_element(By.ID, "time").send_keys("1970-01-01T00:01:00Z")
        browser.find_element(By.TAG_NAME, "button").click()
        records = cells(browser.find_element(By.ID, "records"))
        title = browser.title

    assert [row[:2] for row in topics] == [["t", "4"]]
    assert partitions[1][:5] == ["1", "0", "2", "2", "1"]
    assert records == [["1970-01-01T00:01:30.000Z", "1", "1", "null", "late & <later>"]]
    assert title == "sparklog: t"
