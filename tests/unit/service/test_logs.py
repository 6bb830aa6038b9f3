"""A trouble that lasts has a line of the log now and then."""

import logging

import pytest

from sparklog.clock import ManualClock
from sparklog.service.logs import TOLD_MS, Seldom

LOG = logging.getLogger("sparklog.gateway")


class TestSeldom:
    def test_a_trouble_has_a_line_again_after_told_ms(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        clock = ManualClock()
        seldom = Seldom(clock)
        for number, ms in enumerate((0, TOLD_MS - 1, 1, TOLD_MS - 1)):
            clock.advance(ms)
            seldom.warn("disk", LOG, "%s: number %d", "full", number)

        assert caplog.messages == ["full: number 0", "full: number 2"]

    def test_another_trouble_has_its_own_line_meanwhile(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        seldom = Seldom(ManualClock())
        for trouble in ("disk", "network", "disk"):
            seldom.warn(trouble, LOG, trouble)

        assert caplog.messages == ["disk", "network"]
        assert {one.levelname for one in caplog.records} == {"WARNING"}
