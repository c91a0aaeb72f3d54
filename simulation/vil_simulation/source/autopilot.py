"""The autopilot: hovering, paths, and the set-points of pilots who say where to go rather than
how.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import arctan2
from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_simulation.source.model_factory import ModelFactory
from vil_simulation.source.vehicle_config import AutopilotProgramConfig, VehicleConfig
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.trajectories import (
    Polynomials,
    Reference,
    Table,
    Trajectory,
    Transformed,
    circle,
    hover,
    lemniscate,
    minimum_snap,
)

if TYPE_CHECKING:
    from vil_simulation.source.vehicle_config import Vehicle

Steer = Callable[[Reference, FloatArray], FloatArray]
"""References and states (k, dx) of some vehicles to their commands (k, du)."""

_FOLLOWING_PER_S: Final = 6.0
_MOST_MPS2: Final = 8.0
"""Bandwidth and greatest acceleration with which the set-point takes on a pilot's velocity.

A vehicle can follow.
"""
_REACHED: Final = 1e-3
_LEASH_M: Final = 1.0
"""Distance that the set-point runs ahead of a vehicle that cannot follow."""


class Autopilot:
    """Flies the vehicles of a group along references.

    Attributes:
        mode: of the model, that its commands are for.
        steers: which vehicles it flies, (n,).
    """

    def __init__(
        self, mode: str, steer: Steer, vehicles: Sequence[Vehicle], period_s: float
    ) -> None:
        n = len(vehicles)
        self.mode: Final = mode
        self.steers = np.zeros(n, dtype=np.bool_)
        self._steer = steer
        self._period_s = period_s
        self._ahead: Final = _taylor(period_s)
        self._table = Table([trajectory_of(vehicle.config, vehicle.p_m) for vehicle in vehicles])
        self._on_path = np.zeros(n, dtype=np.bool_)
        kinds = [vehicle.config.autopilot.kind for vehicle in vehicles]
        self._hovers = [kind == "hover" for kind in kinds]
        self._flies = [kind != "none" for kind in kinds]
        self._p = np.zeros((n, 3))
        self._v = np.zeros((n, 3))
        self._a = np.zeros((n, 3))
        self._wanted_mps = np.zeros((n, 3))
        self._led = np.zeros(n, dtype=np.bool_)
        self._higher = np.zeros((n, 2, 3))
        """Jerk and snap of set-points that are points of a trajectory."""
        self._yaw = np.zeros(n)
        self._yaw_rate = np.zeros(n)

    def begin(self, row: int) -> None:
        """Fly what the configuration says, from now on."""
        self.steers[row] = self._on_path[row] = self._flies[row]

    def release(self, row: int) -> None:
        """Stop flying a vehicle."""
        self.steers[row] = False

    def hold(self, row: int, body: FloatArray) -> None:
        """Stay where it is now; ``body`` are its first 13 columns."""
        self._aim(row, body[:3], np.zeros(3), yaw_of(body[6:10]), 0.0)

    def stay(self, row: int, body: FloatArray) -> None:
        """Take a vehicle that was put elsewhere: it stays there unless it flies a path."""
        if self.steers[row] and (self._hovers[row] or not self._on_path[row]):
            self.hold(row, body)

    def steer(self, row: int, mode: str, values: Sequence[float], body: FloatArray) -> None:
        """Follow a pilot's set-point.

        A velocity and yaw rate, a place and heading, or a point of a trajectory.
        """
        if mode == "reference":
            self._aim(row, np.array(values[:3]), np.array(values[3:6]), values[15], values[16])
            self._a[row], self._higher[row], self._led[row] = (
                values[6:9],
                np.reshape(values[9:15], (2, 3)),
                True,
            )
            return
        if mode == "position":
            self._aim(row, np.array(values[:3]), np.zeros(3), values[3], 0.0)
            return
        if not self.steers[row] or self._on_path[row]:
            self._aim(row, body[:3], body[3:6], yaw_of(body[6:10]), 0.0)
        self._wanted_mps[row], self._yaw_rate[row], self._led[row] = values[:3], values[3], False

    def commands(self, rows: npt.NDArray[np.int64], x: FloatArray, t_s: FloatArray) -> FloatArray:
        """Return commands (k, du) of the vehicles of some rows.

        Args:
            rows: which, (k,).
            x: their states, (k, dx).
            t_s: since each was put to its start, (k,).
        """
        led = self._led[rows]
        higher = np.zeros((len(rows), 2, 3))
        higher[~led, 0] = self._accelerate(rows[~led])
        higher[led] = self._go_on(rows[led])
        self._yaw[rows] += self._yaw_rate[rows] * self._period_s
        away = self._p[rows] - x[:, :3]
        far = np.linalg.norm(away, axis=1)
        leash = np.where(
            (far > _LEASH_M) & self._v[rows].any(axis=1), _LEASH_M / np.maximum(far, _LEASH_M), 1.0
        )
        self._p[rows] = x[:, :3] + away * leash[:, None]
        return self._steer(self._reference(rows, t_s, higher), x)

    def _accelerate(self, rows: npt.NDArray[np.int64]) -> FloatArray:
        """Bring set-points smoothly to the velocities that are wanted.

        Return their jerks, (k, 3).
        """
        a = self._a[rows]
        off = self._wanted_mps[rows] - self._v[rows]
        after = a + self._period_s * _FOLLOWING_PER_S * (_FOLLOWING_PER_S * off - 2.0 * a)
        size = np.linalg.norm(after, axis=1, keepdims=True)
        after *= np.minimum(1.0, _MOST_MPS2 / np.maximum(size, _MOST_MPS2))
        reached = (np.abs(off).max(axis=1) < _REACHED) & (size[:, 0] < 10.0 * _REACHED)
        after[reached] = 0.0
        self._v[rows] = np.where(
            reached[:, None], self._wanted_mps[rows], self._v[rows] + self._period_s * after
        )
        self._a[rows] = after
        self._p[rows] += self._v[rows] * self._period_s
        return (after - a) / self._period_s

    def _go_on(self, rows: npt.NDArray[np.int64]) -> FloatArray:
        """Move set-points along their trajectories; return their jerks and snaps, (k, 2, 3)."""
        motion = np.stack(
            (self._p[rows], self._v[rows], self._a[rows], *self._higher[rows].swapaxes(0, 1)),
            axis=1,
        )
        motion = product(self._ahead, motion)
        self._p[rows], self._v[rows], self._a[rows] = motion[:, 0], motion[:, 1], motion[:, 2]
        self._higher[rows] = motion[:, 3:]
        return np.asarray(motion[:, 3:])

    def _reference(
        self, rows: npt.NDArray[np.int64], t_s: FloatArray, higher: FloatArray
    ) -> Reference:
        on_path = self._on_path[rows]
        if not on_path.any():
            yaw = self._yaw[rows], self._yaw_rate[rows], np.zeros(len(rows))
            return Reference(
                self._p[rows], self._v[rows], self._a[rows], higher[:, 0], higher[:, 1], *yaw
            )
        times = np.zeros(self._table.n)
        times[rows] = t_s
        path = Reference(*(values[rows].copy() for values in self._table.at(times)))
        off = ~on_path
        if off.any():
            for values in path:
                values[off] = 0.0
            own = rows[off]
            path.p_world_m[off], path.v_world_mps[off] = self._p[own], self._v[own]
            path.a_world_mps2[off], path.j_world_mps3[off] = self._a[own], higher[off, 0]
            path.s_world_mps4[off] = higher[off, 1]
            path.yaw_rad[off], path.yaw_radps[off] = self._yaw[own], self._yaw_rate[own]
        return path

    def _aim(
        self, row: int, p_m: FloatArray, v_mps: FloatArray, yaw_rad: float, yaw_radps: float
    ) -> None:
        self.steers[row] = True
        self._on_path[row] = False
        self._led[row] = False
        self._p[row] = p_m
        self._v[row] = v_mps
        self._a[row] = 0.0
        self._wanted_mps[row] = v_mps
        self._yaw[row] = yaw_rad
        self._yaw_rate[row] = yaw_radps


def yaw_of(q_xyzw: FloatArray) -> float:
    """Return heading of the body's x axis."""
    x, y, z, w = q_xyzw.tolist()
    return float(arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))


def autopilot_of(
    factory: ModelFactory, vehicles: Sequence[Vehicle], period_s: float
) -> Autopilot | None:
    """Return the autopilot of a group, None where it cannot fly the model."""
    if not factory.steered_mode or isinstance(vehicles[0].config.autopilot, AutopilotProgramConfig):
        return None
    return Autopilot(
        factory.steered_mode, steer_of(factory.make(factory.steered_mode)), vehicles, period_s
    )


def steer_of(model: Model) -> Steer:
    """Return the tracking controller of a model."""
    from vil_simulation.vehicles.control.models import tracking

    return tracking(model, hover((0.0, 0.0, 0.0))).follow


def _taylor(period_s: float) -> FloatArray:
    """Return the matrix (5, 5) that takes a state and its derivatives a period ahead."""
    matrix = np.eye(5)
    for i in range(5):
        for k in range(i + 1, 5):
            matrix[i, k] = matrix[i, k - 1] * period_s / (k - i)
    return matrix


def trajectory_of(vehicle: VehicleConfig, start_m: tuple[float, float, float]) -> Trajectory:
    """Return the trajectory that a vehicle flies by itself, from its start.

    Raises:
        ValueError: no vehicle can fly that path.
    """
    config = vehicle.autopilot
    path: Trajectory = hover((0.0, 0.0, 0.0))
    if isinstance(config, AutopilotProgramConfig):
        return Transformed(path, start_m, math.radians(vehicle.yaw_deg))
    if config.kind == "circle":
        path = circle(
            config.radius_m,
            config.speed_mps,
            center_m=(-config.radius_m, 0.0, 0.0),
            turns=None,
            facing="fixed",
        )
    elif config.kind == "lemniscate":
        path = lemniscate(
            2.0 * config.radius_m, config.speed_mps, kind="gerono", turns=None, facing="fixed"
        )
    elif config.kind == "waypoints":
        origin = (0.0, 0.0, 0.0)
        curve = minimum_snap((origin, *config.points_m, origin), speed_mps=config.speed_mps)
        path = Polynomials(curve.knots_s, curve.coefficients, repeat_s=curve.duration_s)
    return Transformed(path, start_m, math.radians(vehicle.yaw_deg))
