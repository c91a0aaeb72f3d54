"""Quality that falls when pictures take too long, says so, and comes back."""

from __future__ import annotations

import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.common import needs_gl
from tests.support.render import camera, facing, scene_of, shot, thing
from vil_bridge.core.errors import RendererError
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.engine.profiles import PROFILES, profile_named
from vil_renderer.embedded.engine.quality_controller import QualityController

NAMES = ("low", "medium", "high")
BUDGET_S = 0.020
PERIOD_S = 0.05


class Run:
    """A governor and a clock of its own."""

    def __init__(self, wanted: str = "high", budget_s: float | None = BUDGET_S) -> None:
        self.governor = QualityController(NAMES, wanted, budget_s)
        self.now_s = 100.0

    def draw(self, pictures: int, cost_s: float) -> str:
        for _ in range(pictures):
            self.now_s += PERIOD_S
            self.governor.record(cost_s, self.now_s)
        return self.governor.profile

    def until_change(self, cost_s: float, limit_s: float = 1000.0) -> float:
        """Seconds until another profile is used."""
        before, start_s = self.governor.profile, self.now_s
        while self.governor.profile == before:
            assert self.now_s - start_s < limit_s, "nothing changes"
            self.draw(1, cost_s)
        return self.now_s - start_s


def test_slow_pictures_lower_the_profile_and_quick_ones_raise_it_again() -> None:
    run = Run()
    assert run.draw(20, 0.010) == "high"
    assert run.governor.reason == ""
    assert run.draw(8, 0.035) == "medium"
    assert run.governor.reason == "high took 35 ms where 20 ms are allowed"
    assert run.governor.wanted == "high"
    run.until_change(0.010, 7.0)
    assert run.governor.profile == "high"
    assert run.governor.reason == ""


def test_it_falls_as_far_as_it_must_and_no_farther() -> None:
    run = Run()
    assert run.draw(200, 0.5) == "low"
    assert "medium took 500 ms" in run.governor.reason
    for expected in ("medium", "high"):
        run.until_change(0.001)
        assert run.governor.profile == expected
    assert run.draw(1000, 0.001) == "high", "never above what was asked for"
    assert Run("low").draw(100, 0.5) == "low"


def test_single_slow_pictures_change_nothing() -> None:
    run = Run()
    for _ in range(50):
        run.draw(1, 0.5)
        assert run.draw(7, 0.010) == "high"


def test_it_does_not_climb_on_the_edge_of_the_budget() -> None:
    run = Run()
    run.draw(8, 0.5)
    assert run.draw(1000, 0.9 * BUDGET_S) == "medium"


def test_a_climb_that_fails_waits_twice_as_long_before_the_next() -> None:
    run = Run()
    run.draw(8, 0.035)
    waits = []
    for _ in range(8):
        waits.append(run.until_change(0.010))
        assert run.governor.profile == "high"
        run.draw(8, 0.035)
        assert run.governor.profile == "medium"
    assert waits == pytest.approx([5, 10, 20, 40, 80, 160, 320, 320], abs=1.0)


def test_falling_twice_in_a_row_is_no_failed_climb() -> None:
    run = Run()
    assert run.draw(16, 0.5) == "low"
    assert run.until_change(0.001) == pytest.approx(5.0, abs=1.0)
    assert run.until_change(0.001) == pytest.approx(5.0, abs=1.0)


def test_after_a_long_good_time_it_is_patient_no_more() -> None:
    run = Run()
    run.draw(8, 0.035)
    for _ in range(4):
        run.until_change(0.010)
        run.draw(8, 0.035)
    run.until_change(0.010)
    run.draw(8000, 0.010)
    assert run.draw(8, 0.035) == "medium"
    assert run.until_change(0.010) == pytest.approx(5.0, abs=1.0)


def test_without_a_budget_nothing_is_too_slow() -> None:
    run = Run(budget_s=None)
    assert run.draw(100, 60.0) == "high"


def test_profiles_go_from_plain_to_rich() -> None:
    levels = list(PROFILES.values())
    assert [p.name for p in levels] == ["low", "medium", "high", "ultra"]
    for plain, rich in itertools.pairwise(levels):
        assert plain.shading <= rich.shading
        assert plain.samples <= rich.samples
        assert plain.shadow_px <= rich.shadow_px
        assert plain.texture_limit_px < rich.texture_limit_px
    with pytest.raises(
        RendererError, match="no quality profile named 'best'; known: low, medium, high, ultra"
    ):
        profile_named("best")


@pytest.mark.gl
def test_a_renderer_that_cannot_hold_its_budget_falls_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    needs_gl()
    scene = scene_of(thing("card", facing(2.0, 5.0)))
    with (
        EmbeddedRenderer(scene, "high", budget_s=1e-9) as renderer,
        caplog.at_level(logging.WARNING),
    ):
        assert renderer.info["profile"] == "high"
        assert renderer.info["profile_reason"] == ""
        seen = []
        for number in range(30):
            shot(renderer, camera(size=(64, 48)), t_ns=number)
            seen.append(renderer.info["profile"])
        assert list(dict.fromkeys(seen)) == ["high", "medium", "low"]
        assert renderer.info["profile_wanted"] == "high"
        assert "are allowed" in renderer.info["profile_reason"]
    warnings = [r.getMessage() for r in caplog.records if "quality profile" in r.getMessage()]
    assert [w.split(":")[0] for w in warnings] == ["quality profile medium", "quality profile low"]


@pytest.mark.gl
def test_a_renderer_comes_back_to_its_profile_and_draws_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock is the test's: each picture takes as long as it says."""
    needs_gl()
    clock = {"now_s": 0.0, "cost_s": 0.001}

    def tick() -> float:
        clock["now_s"] += clock["cost_s"]
        return clock["now_s"]

    monkeypatch.setattr("vil_renderer.embedded.renderer.time", SimpleNamespace(perf_counter=tick))
    scene = scene_of(thing("card", facing(2.0, 5.0)))
    with EmbeddedRenderer(scene, "medium", budget_s=0.01) as renderer:
        first = shot(renderer, camera(size=(64, 48)))
        clock["cost_s"] = 0.5
        for _ in range(8):
            shot(renderer, camera(size=(64, 48)))
        assert renderer.info["profile"] == "low"
        clock["cost_s"] = 0.001
        for _ in range(9):
            shot(renderer, camera(size=(64, 48)))
        assert renderer.info["profile"] == "low"
        clock["now_s"] += 10.0
        shot(renderer, camera(size=(64, 48)))
        assert renderer.info["profile"] == "medium"
        assert renderer.info["profile_reason"] == ""
        assert np.array_equal(shot(renderer, camera(size=(64, 48))), first)
