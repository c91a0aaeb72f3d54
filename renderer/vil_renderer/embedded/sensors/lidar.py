"""Lidars: one that spins, with labels and motion during the turn, and Flightmare's planar fan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform, q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_bridge.core.weather import FINE, Weather
from vil_bridge.interfaces.weather_returns import returns_in
from vil_renderer.embedded.geometry.ray_world import NOTHING, RayWorld
from vil_renderer.embedded.sensors.rangefinder import RangeNoise, directions, weather_below_roofs

POINT: Final = np.dtype(
    [
        ("p_m", np.float32, 3),
        ("range_m", np.float32),
        ("intensity", np.float32),
        ("ring", np.uint16),
        ("semantic", np.uint16),
        ("instance", np.uint16),
        ("t_ns", np.int64),
    ]
)
"""A lidar point: place in the sensor's axes at the instant of its own beam; range.

Cosine of the angle at which the beam met the surface, times the share of the light that the air
leaves; channel; ids of what was hit; time since the start of the turn.
"""


class SpinningLidar:
    """A lidar that turns counter-clockwise about its z axis and starts at its x axis.

    Args:
        elevations_rad: of the channels, (c,); all fire at once.
        points_per_turn: firings in one turn.
        turns_per_s: rate of turning, hertz.
        min_m: nearer returns are lost.
        max_m: farther ones too.
        noise: on the range.
        seed: of the noise.
    """

    def __init__(
        self,
        elevations_rad: FloatArray,
        points_per_turn: int,
        turns_per_s: float = 10.0,
        *,
        min_m: float = 0.3,
        max_m: float = 100.0,
        noise: RangeNoise = RangeNoise(),  # noqa: B008 - frozen
        seed: int = 0,
    ) -> None:
        channels = len(elevations_rad)
        turn = np.repeat(np.arange(points_per_turn) / points_per_turn, channels)
        self._share = turn
        self._ring = np.tile(np.arange(channels, dtype=np.uint16), points_per_turn)
        self._beams = directions(2.0 * np.pi * turn, np.tile(elevations_rad, points_per_turn))
        self._t_ns = np.round(turn / turns_per_s * 1e9).astype(np.int64)
        self._min_m = min_m
        self._max_m = max_m
        self._noise = noise
        self._rng = np.random.default_rng(seed)

    def sweep(
        self,
        world: RayWorld,
        T_world_sensor: Sequence[Transform],
        hide: frozenset[str] = NOTHING,
        *,
        weather: Weather = FINE,
    ) -> npt.NDArray[Any]:
        """Return the points of one turn.

        Args:
            world: the scene, which does not change during the turn.
            T_world_sensor: poses evenly spread over the turn, the first at its start and the last
                at its end, the sensor moves with constant speed from one to the next; a single one
                = it stands still.
            hide: objects that the beams pass through.
            weather: attenuates the beams, and returns some of them early, with the ids 0.

        Returns:
            Array of :data:`POINT`, firing by firing, without the beams that came to nothing.
        """
        p, q = _poses_at(T_world_sensor, self._share)
        way = q_rotate(q, self._beams)
        hits = world.cast(p, way, self._max_m, hide)
        facing = -(hits.normal_world * way).sum(axis=1)
        true_m = hits.distance_m.astype(np.float64)
        surface = np.ones(len(true_m), np.bool_)
        weather = weather_below_roofs(weather, world, p[0], self._max_m, hide)
        if weather != FINE:
            back = returns_in(weather, true_m, self._max_m, self._rng)
            true_m = back.range_m
            surface = ~back.particle
            facing = back.strength * np.where(surface, facing, 1.0)
        noisy = self._noise.on(true_m, self._rng)
        valid = np.flatnonzero((noisy >= self._min_m) & (noisy <= self._max_m))
        points = np.zeros(len(valid), POINT)
        points["range_m"] = noisy[valid]
        points["p_m"] = noisy[valid, None] * self._beams[valid]
        points["intensity"] = facing[valid]
        points["ring"], points["t_ns"] = self._ring[valid], self._t_ns[valid]
        points["semantic"] = np.where(surface, hits.semantic, 0)[valid]
        points["instance"] = np.where(surface, hits.instance, 0)[valid]
        return points


def planar_fan(
    world: RayWorld,
    T_world_sensor: Transform,
    start_rad: float,
    end_rad: float,
    beams: int,
    max_m: float,
    hide: frozenset[str] = NOTHING,
) -> FloatArray:
    """Return ranges (beams,) of Flightmare's lidar in its x-y plane from one angle to the other,
    both included.

    Angles count counter-clockwise from x; a beam that hits nothing within ``max_m`` says ``max_m +
    1``.
    """
    angles = np.linspace(start_rad, end_rad, beams)
    way = directions(angles, np.zeros(beams)) @ T_world_sensor.rotation().T
    hits = world.cast(np.broadcast_to(T_world_sensor.p_m, way.shape), way, max_m, hide)
    return np.where(np.isfinite(hits.distance_m), hits.distance_m, max_m + 1.0)


def _poses_at(knots: Sequence[Transform], share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return positions (n, 3) and attitudes (n, 4) at shares (n,) of the way along evenly spread
    poses.
    """
    p = np.array([T.p_m for T in knots])
    q = np.array([T.q_xyzw for T in knots])
    if len(knots) == 1:
        return np.broadcast_to(p, (len(share), 3)), np.broadcast_to(q, (len(share), 4))
    along = share * (len(knots) - 1)
    before = np.minimum(along.astype(np.intp), len(knots) - 2)
    rest = (along - before)[:, None]
    turn = q_log(q_mul(q_conj(q[:-1]), q[1:]))
    return p[before] + rest * (p[before + 1] - p[before]), q_mul(
        q[before], q_exp(rest * turn[before])
    )
