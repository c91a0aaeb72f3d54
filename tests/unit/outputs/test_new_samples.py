"""Poses that outputs send once each.

None of a body that is frozen or lost, whatever stamps its source gives it.
"""

from __future__ import annotations

import numpy as np
import pytest

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    ActorKind,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
    TrackingState,
)
from vil_bridge.outputs import new_samples
from vil_bridge.outputs.new_samples import WorldNews
from vil_bridge.world import world as world_module
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

NOISY = TrackingLimits(frozen_after_ns=200 * NS_PER_MS)
PERSON = SkeletonModel(
    "anna", ("hips", "head"), (-1, 0), np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.7]])
)


class Hall:
    """A world with a drone and a person, whose time the test holds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.t_ns = 100 * NS_PER_S
        for module in (world_module, new_samples):
            monkeypatch.setattr(module, "now_ns", lambda: self.t_ns)
        drone = Actor("drone", ActorKind.VEHICLE, "mocap", "cf1", limits=NOISY)
        person = Actor("person", ActorKind.HUMAN, "mocap", "anna", limits=NOISY)
        self.world = World({"mocap": Transform.identity()}, [drone, person])
        self.news = WorldNews(self.world, ("drone", "person"))
        self._random = np.random.default_rng(3)

    def film(self, frames: int, *, noise_m: float, tracked: bool = True) -> tuple[int, int]:
        """Frames of both at 100 Hz; return how many poses and skeletons were news."""
        poses = skeletons = 0
        for _ in range(frames):
            self.t_ns += 10 * NS_PER_MS
            p_m = np.array([[1.0, 2.0, 3.0]]) + noise_m * self._random.normal(size=(1, 3))
            bones_m = np.repeat(p_m, 2, axis=0)
            upright = np.tile((0.0, 0.0, 0.0, 1.0), (2, 1))
            bones = SkeletonFrame(PERSON, bones_m, upright, np.full(2, tracked))
            seen = np.array([tracked])
            self.world.ingest(
                SourceFrame("mocap", 0, None, self.t_ns, ("cf1",), p_m, upright[:1], seen, (bones,))
            )
            poses += len(list(self.news.motions()))
            skeletons += len(list(self.news.skeletons()))
        return poses, skeletons


def test_frozen_bodies_have_no_news_though_their_stamps_are_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hall = Hall(monkeypatch)
    assert hall.film(50, noise_m=1e-4) == (50, 50)
    hall.film(30, noise_m=0.0)
    assert {hall.world.state_of(name) for name in ("drone", "person")} == {TrackingState.FROZEN}
    assert hall.film(100, noise_m=0.0) == (0, 0)
    assert hall.film(10, noise_m=1e-4) == (10, 10), "what moves again is sent again"


def test_lost_bodies_have_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall(monkeypatch)
    assert hall.film(10, noise_m=1e-4) == (10, 10)
    assert hall.film(10, noise_m=1e-4, tracked=False) == (0, 0)
