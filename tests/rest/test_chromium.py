"""The page, as a person sees and uses it: in headless Chromium."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

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

    assert [row[:3] for row in topics] == [["t", "4", "2"]]
    assert partitions[1][:4] == ["1", "0", "2", "1"]
    assert records == [["1970-01-01T00:01:30.000Z", "1", "1", "null", "late & <later>"]]
    assert title == "sparklog: t"
