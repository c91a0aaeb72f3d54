"""A request that breaks arithmetic or memory fails alone: both servers answer the next one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support import flightgoggles as goggles
from tests.support import flightmare

pytestmark = pytest.mark.wire


BREAKS: tuple[Callable[[], object], ...] = (
    lambda: np.linalg.inv(np.zeros((3, 3))),
    lambda: 1 // 0,
    lambda: np.empty((1 << 20,) * 3),
    lambda: list[int]()[0],
)


class Unlucky:
    """Draws, but for the first times."""

    def __init__(self, draw: Any) -> None:
        self.draw, self.times = draw, 0

    def __call__(self, views: Any, snapshot: Any) -> Any:
        self.times += 1
        if self.times <= len(BREAKS):
            BREAKS[self.times - 1]()
        return self.draw(views, snapshot)


@pytest.mark.parametrize("support", [goggles, flightmare], ids=["flightgoggles", "flightmare"])
def test_a_bug_in_one_request_is_counted_logged_once_and_survived(
    support: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with support.client(answer_timeout_s=0.1) as bridge, caplog.at_level(logging.WARNING):
        with support.server(support.ports(bridge), Unlucky(support.draw)) as counters:
            support.Pump(bridge).frames_reach(3)
        assert counters["failed"] == len(BREAKS) and counters["answered"] >= 3
    logged = [record for record in caplog.records if "dropped (failed)" in record.message]
    assert len(logged) == len(BREAKS), "each kind once"
    assert all(record.exc_info for record in logged), "with where it happened, for whoever mends it"
