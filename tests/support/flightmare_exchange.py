"""Exchanges with an old Flightmare client, and waiting for what comes of them."""

from __future__ import annotations

from typing import Any

from tests.support.flightmare import (
    number_in,
)
from tests.support.flightmare_original import OldClient

NAME = "quadrotor0_0"


ROOMY = 1000
"""High-water mark of an old client that loses nothing."""


def exchange(old: OldClient, numbers: range, name: str = NAME) -> list[Any]:
    """Lock-step, as the original does it; the pictures of the last frame."""
    pictures: list[Any] = []
    number = 0
    for number in numbers:
        pictures = old.frame(number)
        assert number == number_in(pictures[0], name)
    assert old.dropped <= 1 + number // 50
    return pictures
