"""Flights of a seed: the same bits on every processor."""

from __future__ import annotations

import json
import sys

import pytest

from tests.support.programs import output

NAMES = ("courses", "curves", "flightgoggles", "race")
"""Other results take long to compile: ``python -m tests.support.seeded_flights`` computes all."""

OLDER_PROCESSOR = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4"}


def digests(environment: dict[str, str]) -> dict[str, str]:
    """Return digests from a process with the kernels of another processor."""
    found: dict[str, str] = json.loads(
        output(sys.executable, "-m", "tests.support.seeded_flights", *NAMES, env=environment)
    )
    return found


@pytest.mark.process
def test_flights_of_a_seed_are_the_same_on_an_older_processor() -> None:
    assert digests(OLDER_PROCESSOR) == digests({})
