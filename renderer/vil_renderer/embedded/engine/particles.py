"""Rain, snow, dust and leaves in the air as functions of time: all cameras see the same ones.

The particles of a kind fill a cube that repeats in the world. A camera sees those within half a
cube's side of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_bridge.core.weather import Weather
from vil_renderer.embedded.geometry.sky_cover import SkyCover

RAIN, SNOW, DUST, LEAF = range(4)
CUBES_M: Final = (10.0, 10.0, 10.0, 20.0)
"""Side of the cube by kind."""
_MOST: Final = (12_000, 10_000, 3000, 1000)
"""Particles in the cube at 1, by kind."""
_SEED: Final = 40
_LEAST_DROP_MM: Final = 1.0
_DROPS_PER_MM: Final = 4.1 * 25.0**-0.21
"""Slope of Marshall and Palmer's sizes (1948) at 25 mm/h."""
_STANDS_FOR: Final = (60.0, 30.0, 12.0, 1.0)
"""Real particles that a drawn one stands for, by kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Particles:
    """Particles at one instant.

    Attributes:
        p_m: (n, 3), in the cube. v_mps: (n, 3), world. cube_m: (n,), its side.
        look: (n, 4): diameter in metres, how many it stands for, its turn in radians, kind plus a
            share that varies its colour.
    """

    p_m: FloatArray
    v_mps: FloatArray
    cube_m: FloatArray
    look: npt.NDArray[np.float32]

    def around(
        self, eye_m: FloatArray, ahead: FloatArray, reach_cos: float, cover: SkyCover | None = None
    ) -> npt.NDArray[np.float32]:
        """Return rows for the shader of those within the cube about an eye and within a cone,.

        K, 10.

        Args:
            eye_m: (3,).
            ahead: axis of the cone, unit, (3,).
            reach_cos: cosine of its half angle.
            cover: roofs below which only dust floats.
        """
        side = self.cube_m[:, None]
        away = np.remainder(self.p_m - eye_m + 0.5 * side, side) - 0.5 * side
        r = np.sqrt(np.einsum("ni,ni->n", away, away))
        seen = np.flatnonzero((r < 0.5 * self.cube_m) & (away @ ahead > reach_cos * r - 0.3))
        if cover is not None:
            dust = np.floor(self.look[seen, 3]) == DUST
            seen = seen[dust | ~cover.over(eye_m + away[seen])]
        return np.concatenate(
            (away[seen], self.v_mps[seen], self.look[seen]), axis=1, dtype=np.float32
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """All particles of a kind, without time: the first ones are there in a little of it.

    Attributes:
        start_m: (n, 3). fall_mps: (n,). follows: share of the wind. wander_m, wander_hz, phase: of
            a sway, (n,).
    """

    start_m: FloatArray
    diameter_m: FloatArray
    fall_mps: FloatArray
    follows: float
    wander_m: FloatArray
    wander_hz: FloatArray
    phase: FloatArray
    share: FloatArray


@lru_cache(maxsize=4)
def _kind(kind: int) -> _Kind:
    rng = np.random.default_rng((_SEED, kind))
    n = _MOST[kind]
    start = CUBES_M[kind] * rng.random((n, 3))
    u = rng.random(n)
    share = rng.random(n)
    phase = 2.0 * np.pi * rng.random(n)
    hz = rng.uniform(0.15, 0.4, n)
    none = np.zeros(n)
    if kind == RAIN:
        mm = np.minimum(_LEAST_DROP_MM - np.log1p(-u) / _DROPS_PER_MM, 5.0)
        return _Kind(start, 1e-3 * mm, drop_speed_mps(mm), 1.0, none, hz, phase, share)
    if kind == SNOW:
        mm = 3.0 + 6.0 * u**2
        return _Kind(
            start, 1e-3 * mm, flake_speed_mps(mm), 1.0, 0.05 + 0.15 * share, hz, phase, share
        )
    if kind == DUST:
        return _Kind(
            start, 1e-3 * (0.5 + u), 0.02 + 0.05 * u, 1.0, 0.2 + 0.3 * share, hz, phase, share
        )
    return _Kind(
        start, 0.05 + 0.05 * u, 1.0 + 0.6 * u, 0.8, 0.2 + 0.3 * share, 2.0 * hz, phase, share
    )


def drop_speed_mps(diameter_mm: FloatArray) -> FloatArray:
    """Return the speed at which drops fall (Atlas, Srivastava and Sekhon 1973), m/s."""
    return np.asarray(np.maximum(9.65 - 10.3 * np.exp(-0.6 * diameter_mm), 0.0))


def flake_speed_mps(diameter_mm: FloatArray) -> FloatArray:
    """Return the speed at which aggregates of dendrites fall (Locatelli and Hobbs 1974), m/s."""
    return np.asarray(0.8 * diameter_mm**0.16)


@lru_cache(maxsize=4)
def particles_at(weather: Weather, t_ns: int) -> Particles | None:
    """Return the particles of a weather at a time; None = nothing falls."""
    amounts = (weather.rain, weather.snow, weather.dust, weather.leaves)
    parts = [
        _at(kind, amount, weather, t_ns) for kind, amount in enumerate(amounts) if amount > 0.0
    ]
    if not parts:
        return None
    return Particles(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _at(
    kind: int, amount: float, weather: Weather, t_ns: int
) -> tuple[FloatArray, FloatArray, FloatArray, npt.NDArray[np.float32]]:
    """Return places (n, 3), velocities (n, 3), cubes (n,) and looks (n, 4) of one kind."""
    of = _kind(kind)
    n = round(amount * _MOST[kind])
    t_s = 1e-9 * t_ns
    v = np.tile(of.follows * np.array(weather.wind_mps), (n, 1))
    v[:, 2] -= of.fall_mps[:n]
    p = of.start_m[:n] + v * t_s
    swing = 2.0 * np.pi * of.wander_hz[:n] * t_s + of.phase[:n]
    for axis, turned in ((0, swing), (1, 1.3 * swing)):
        rate = 2.0 * np.pi * of.wander_hz[:n] * (1.3 if axis else 1.0)
        p[:, axis] += of.wander_m[:n] * np.sin(turned)
        v[:, axis] += of.wander_m[:n] * rate * np.cos(turned)
    look = np.empty((n, 4), np.float32)
    look[:, 0], look[:, 1] = of.diameter_m[:n], _STANDS_FOR[kind]
    look[:, 2], look[:, 3] = np.remainder(3.0 * swing, 2.0 * np.pi), kind + 0.999 * of.share[:n]
    return p, v, np.full(n, CUBES_M[kind]), look
