"""The compiled tracks and their NumPy twin, fed and asked alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vil_bridge.core.geometry import Transform, q_exp, q_mul, q_normalize
from vil_bridge.core.types import ActorKind, FloatArray, SourceFrame
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.compiled_tracks import CompiledTrackBank
from vil_bridge.world.frame_binding import Binding, RoomFrame, bind
from vil_bridge.world.tracks import TrackBank

T_NS = 10**12
MS = 1_000_000
BODIES = ("one", "two", "three", "four")
LIMITS = [
    TrackingLimits(max_speed_mps=speed, frozen_after_ns=50 * MS)
    for speed in (30.0, 5.0, 10.0, 30.0)
]
ROOM = Transform.of((1.0, -2.0, 0.5), (0.1, 0.2, 0.6, 0.7))


@dataclass(frozen=True)
class Hostility:
    """Shares of poses and frames with which something is wrong."""

    untracked: float = 0.0
    jump: float = 0.0
    invalid: float = 0.0
    repeated: float = 0.0
    late: float = 0.0
    gap: float = 0.0


HOSTILITIES = [
    Hostility(),
    Hostility(untracked=0.1, repeated=0.3),
    Hostility(late=0.1, gap=0.05),
    Hostility(untracked=0.1, jump=0.02, invalid=0.05, repeated=0.05, late=0.05, gap=0.02),
]


def frames(
    rng: np.random.Generator, hostility: Hostility, count: int, source: str, step_ms: float
) -> Iterator[SourceFrame]:
    """Moving bodies of one source; two of four belong to it, in the other order."""
    subjects = ("stranger", *(BODIES[:2] if source == "a" else BODIES[:1:-1]))
    n, t_ns = len(subjects), T_NS
    v_mps, w_radps = 2.0 * rng.standard_normal((n, 3)), 3.0 * rng.standard_normal((n, 3))
    p_m, q_xyzw = rng.standard_normal((n, 3)), q_normalize(rng.standard_normal((n, 4)))
    for number in range(count):
        step_s = (
            1e-3
            * step_ms
            * rng.uniform(0.9, 1.1)
            * (100.0 if rng.random() < hostility.gap else 1.0)
        )
        t_ns += round(1e9 * step_s)
        v_mps = v_mps + 10.0 * step_s * rng.standard_normal((n, 3))
        moves = (rng.random((n, 1)) >= hostility.repeated).astype(float)
        p_m = p_m + moves * step_s * v_mps
        q_xyzw = np.where(moves > 0.0, q_normalize(q_mul(q_xyzw, q_exp(step_s * w_radps))), q_xyzw)
        p_m = np.where(
            rng.random((n, 1)) < hostility.jump, p_m + 20.0 * rng.standard_normal((n, 3)), p_m
        )
        seen_p, seen_q = p_m.copy(), q_xyzw.copy()
        if hostility.invalid:
            _spoil(rng, hostility, seen_p, seen_q)
        stamp_ns = t_ns - (50 * MS if rng.random() < hostility.late else 0)
        tracked = rng.random(n) >= hostility.untracked
        yield SourceFrame(source, number, stamp_ns, t_ns, subjects, seen_p, seen_q, tracked)


def _spoil(
    rng: np.random.Generator, hostility: Hostility, p_m: FloatArray, q_xyzw: FloatArray
) -> None:
    wrong = (np.nan, np.inf, -np.inf, 0.0, 1e300, 1.2)
    for values in (p_m, q_xyzw):
        for row in np.flatnonzero(rng.random(len(values)) < hostility.invalid):
            values[row, rng.integers(values.shape[1])] = wrong[rng.integers(len(wrong))]
    flipped = rng.random(len(q_xyzw)) < hostility.invalid
    q_xyzw[flipped] *= -1.0


class TrackPair:
    """The two banks, fed and asked alike."""

    def __init__(self, markers: Transform) -> None:
        self.actors = [
            Actor(name, ActorKind.VEHICLE, "a" if i < 2 else "b", name, markers, limits=LIMITS[i])
            for i, name in enumerate(BODIES)
        ]
        self.twin, self.compiled = TrackBank(LIMITS), CompiledTrackBank(LIMITS)
        self._bindings: dict[str, Binding] = {}

    def store(self, frame: SourceFrame) -> None:
        if frame.source not in self._bindings:
            room = RoomFrame(ROOM if frame.source == "a" else Transform.identity())
            self._bindings[frame.source] = bind(frame, room, self.actors, {})
        binding, t_ns = self._bindings[frame.source], frame.t_foreign_ns or 0
        assert self.twin.store(frame, binding, t_ns) == self.compiled.store(frame, binding, t_ns)

    def shift(self, row: int, by_ns: int) -> None:
        for bank in (self.twin, self.compiled):
            bank.shift(np.array([row]), by_ns)

    def reset(self, row: int) -> None:
        for bank in (self.twin, self.compiled):
            bank.reset(np.array([row]))

    def assert_same(self, t_ns: int) -> None:
        one, other = self.twin, self.compiled
        # A forecast rests on a regression, whose condition multiplies what is rounded otherwise.
        np.testing.assert_allclose(other.poses(t_ns), one.poses(t_ns), rtol=1e-9, atol=1e-7)
        past_ns = int(one.t_capture_ns.min())
        np.testing.assert_allclose(other.poses(past_ns), one.poses(past_ns), rtol=1e-9, atol=1e-9)
        for mine, twins in zip(other.motion(), one.motion(), strict=True):
            np.testing.assert_allclose(mine, twins, rtol=1e-9, atol=1e-8)
        for name in ("t_capture_ns", "t_arrival_ns", "tracked"):
            np.testing.assert_array_equal(getattr(other, name), getattr(one, name))
        assert other.counters == one.counters
        for now_ns in range(t_ns - 100 * MS, t_ns + 100 * MS, 20 * MS):
            assert other.all_surely_tracked(now_ns) == one.all_surely_tracked(now_ns)
        for row in range(len(BODIES)):
            assert other.repeats.standing_ns(row) == one.repeats.standing_ns(row)
            np.testing.assert_allclose(
                other.covariance(row, t_ns), one.covariance(row, t_ns), rtol=1e-6, atol=1e-12
            )
            for of in zip(other.twist(row, 0.03), one.twist(row, 0.03), strict=True):
                np.testing.assert_allclose(*of, rtol=1e-9, atol=1e-6)


def fly_both(
    seed: int,
    hostility: Hostility,
    markers: Transform,
    step_ms: float,
    asked_every: int,
    count: int,
) -> int:
    """Feed and ask both for ``count`` frames of each of two sources, with shifts and resets.

    Return the frames.

    Raises:
        AssertionError: they differ.
    """
    rng, pair = np.random.default_rng(seed), TrackPair(markers)
    ways = [frames(rng, hostility, count, source, step_ms) for source in ("a", "b")]
    for number, both in enumerate(zip(*ways, strict=True)):
        for frame in both:
            pair.store(frame)
        if number % asked_every == 0:
            pair.assert_same(both[0].t_arrival_ns + int(rng.integers(-300, 300)) * MS)
        if rng.random() < 0.01:
            pair.shift(int(rng.integers(4)), int(rng.integers(-MS, MS)))
        if rng.random() < 0.005:
            pair.reset(int(rng.integers(4)))
    pair.assert_same(T_NS)
    return 2 * count
