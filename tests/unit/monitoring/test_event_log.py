"""The log that people read: what it keeps, for how long, and of whom."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.packages import PACKAGES
from vil_bridge.monitoring.event_log import EventLevel, EventLog
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger("vil_bridge.core.somewhere")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[EventLog]:
    caplog.set_level(logging.INFO)
    log = EventLog()
    log.open()
    yield log
    log.close()


def test_a_component_that_changes_its_state_is_an_event(log: EventLog) -> None:
    Status("mocap").waiting("nothing from 10.0.0.1: is streaming on?")
    (event,) = log.since(0)
    assert (event.id, event.level, event.component) == (1, EventLevel.INFO, "mocap")
    assert event.text == "waiting (nothing from 10.0.0.1: is streaming on?)"
    assert event.utc.endswith("+00:00")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_of_the_project_is_heard(log: EventLog, package: str) -> None:
    logging.getLogger(f"{package}.somewhere").warning("something happened")
    assert [event.text for event in log.since(0)] == ["something happened"]


def test_levels_and_ids(log: EventLog) -> None:
    logger.info("something happened")
    logger.warning("front: %d pictures lost", 3)
    logger.error("a file: cannot be read")
    logger.debug("nobody asked")
    logging.getLogger("elsewhere").error("not ours")
    assert [(e.id, e.component, e.text) for e in log.since(0)] == [
        (1, "somewhere", "something happened"),
        (2, "front", "3 pictures lost"),
        (3, "somewhere", "a file: cannot be read"),
    ]
    assert [e.id for e in log.since(1)] == [2, 3]
    assert [e.id for e in log.since(0, EventLevel.WARNING)] == [2, 3]
    assert [e.id for e in log.since(2, EventLevel.ERROR)] == [3]
    assert log.since(log.last_id) == []


def test_it_keeps_a_thousand_and_no_long_text(log: EventLog) -> None:
    for number in range(1500):
        logger.info("event %d", number)
    logger.info("x" * 100_000)
    logger.info("y" * 100_000 + ": said a peer")
    kept = log.since(0)
    assert (len(kept), kept[0].id, kept[-1].id) == (1000, 503, 1502)
    assert [(event.component, len(event.text)) for event in kept[-2:]] == [("somewhere", 1000)] * 2


def test_nothing_is_kept_after_the_end(log: EventLog) -> None:
    log.close()
    logger.warning("too late")
    assert log.last_id == 0
