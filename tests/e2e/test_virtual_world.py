"""A whole bridge in simulated time: a seed gives the same bytes each time, and what is planted is found."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tests.support.common import needs_program
from tests.support.programs import run
from tests.virtual.planted import PLANTED, SEEDS

pytestmark = pytest.mark.process


def result(*words: object) -> dict[str, Any]:
    """Run the world and return what it says."""
    needs_program("setarch", "util-linux")
    done = run(sys.executable, "-m", "tests.virtual.run", *words)
    for refusal in ("a network namespace is not allowed here", "setarch: failed to set personality"):
        if refusal in done.stderr:
            pytest.skip(refusal)
    assert done.stdout, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_seed_gives_the_same_events_and_headers_each_time() -> None:
    first, again = (result("--seed", 7, "--seconds", 8) for _ in range(2))
    assert first["failures"] == []
    assert first["digest"] == again["digest"]
    assert first["recorded_bytes"] == again["recorded_bytes"] > 0
    assert set(first["pictures"]) == {"front", "left", "right", "down"}


@pytest.mark.long
def test_another_seed_gives_others() -> None:
    digests = {result("--seed", seed, "--seconds", 4)["digest"] for seed in (7, 8)}
    assert len(digests) == 2


@pytest.mark.long
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found(planted: str) -> None:
    found = result("--seed", SEEDS.get(planted, 7), "--seconds", 14, "--planted", planted)
    assert found["failures"]
