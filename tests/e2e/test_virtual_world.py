"""A whole bridge in simulated time.

A seed gives the same bytes each time, and what is planted is found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.common import needs_program
from tests.support.programs import run
from tests.virtual.planted import PLANTED, SECONDS, SEED

pytestmark = pytest.mark.process


def result(*words: object) -> dict[str, Any]:
    """Run the world and return what it says."""
    found: dict[str, Any] = json.loads(output("run", *words))
    return found


def nightly(seed: int, seconds: float, file: Path) -> dict[str, Any]:
    """Run the world of a seed as the nightly does and return its result."""
    said = output("nightly", "--first", seed, "--seeds", 1, "--seconds", seconds, "--json", file)
    assert f"1 of 1 seeds ran for {seconds} s each, 0 failed" in said
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def output(module: str, *words: object) -> str:
    """Run a module of the virtual world and return what it prints."""
    needs_program("setarch", "util-linux")
    done = run(sys.executable, "-m", f"tests.virtual.{module}", *words)
    for refusal in (
        "a network namespace is not allowed here",
        "setarch: failed to set personality",
    ):
        if refusal in done.stderr:
            pytest.skip(refusal)
    assert done.stdout, done.stderr[-3000:]
    return done.stdout


def test_a_seed_gives_the_same_events_and_headers_each_time(tmp_path: Path) -> None:
    first = result("--seed", 7, "--seconds", 8)
    again = nightly(7, 8, tmp_path / "results.json")
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
    assert result("--seed", SEED, "--seconds", SECONDS, "--planted", planted)["failures"]


@pytest.mark.long
def test_nothing_is_found_where_nothing_is_planted() -> None:
    assert result("--seed", SEED, "--seconds", SECONDS)["failures"] == []
