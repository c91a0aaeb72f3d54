"""Path of the vision pilot through the gates where they are believed to be, and its heading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Polynomials, Reference
from vil_simulation.race.vision.gate_map import GateMap
from vil_simulation.vehicles.control.limits import Limits, fastest
from vil_simulation.vehicles.trajectories import minimum_snap

_LIMITS: Final = Limits(speed_mps=9.0, acceleration_mps2=6.5)
_BEFORE_M: Final = 2.5
_AFTER_M: Final = 2.0
_RUN_OUT_M: Final = 4.0
_PACE_MPS: Final = 7.0
_RAMP_MPS2: Final = 3.5
_LEAST_SHARE: Final = 0.35
"""Of the pace, where the way turns round."""
_FOLLOW_RADPS: Final = 4.0
"""Rate at which the path follows the estimated gates: critically damped."""


class GatePath:
    """Minimum-snap curve through gates.

    Its times are those of the nominal gates, its places move with the estimates.

    Args:
        gates: nominal gates.
        order: of the race.
        start_m: where it begins, at rest, (3,).

    Attributes:
        duration_s: of the flight.
    """

    def __init__(self, gates: GateMap, order: Sequence[int], start_m: FloatArray) -> None:
        self._gates: Final = gates
        self._order: Final = list(order)
        self._start_m: Final = start_m
        self._points_m = self._way(np.zeros((len(gates.centres_m), 4)))
        self._speeds_mps = np.zeros_like(self._points_m)
        self._times_s: Final = _paced(self._points_m)
        self.duration_s: Final = float(self._times_s[-1])
        self._curve: Polynomials = minimum_snap(self._points_m, times_s=self._times_s)

    def at(self, t_s: float) -> Reference:
        """Return the reference at a time of the race."""
        return self._curve.at(t_s)

    def follow(self, shifts: FloatArray, dt_s: float) -> None:
        """Move the curve towards the gates' estimated shifts, (g, 4), for a time."""
        away = self._way(shifts) - self._points_m
        self._speeds_mps += dt_s * _FOLLOW_RADPS * (_FOLLOW_RADPS * away - 2.0 * self._speeds_mps)
        self._points_m = self._points_m + dt_s * self._speeds_mps
        self._curve = minimum_snap(self._points_m, times_s=self._times_s)

    def _way(self, shifts: FloatArray) -> FloatArray:
        """Return the waypoints: start, those before, in and behind each gate, and the end."""
        points = [self._start_m]
        forward = np.zeros(3)
        for gate in self._order:
            centre = self._gates.centre_m(gate, shifts[gate])
            forward = self._gates.rotation(gate, shifts[gate])[:, 0]
            points += [centre - _BEFORE_M * forward, centre, centre + _AFTER_M * forward]
        ahead = points[-1] - points[-2]
        points.append(points[-1] + _RUN_OUT_M / _AFTER_M * ahead)
        return np.array(points)


def _paced(way: FloatArray) -> FloatArray:
    """Return times (m,) at waypoints (m, 3): slow where the way bends, and within the limits."""
    chords = np.diff(way, axis=0)
    lengths = np.linalg.norm(chords, axis=1)
    units = chords / lengths[:, None]
    halves = 0.5 * np.arccos(np.clip((units[1:] * units[:-1]).sum(axis=1), -1.0, 1.0))
    speeds = np.concatenate(
        ([0.0], _PACE_MPS * np.maximum(np.cos(halves) ** 2, _LEAST_SHARE), [0.0])
    )
    for k, length in enumerate(lengths):
        speeds[k + 1] = min(speeds[k + 1], math.sqrt(speeds[k] ** 2 + 2.0 * _RAMP_MPS2 * length))
    for k, length in reversed(list(enumerate(lengths))):
        speeds[k] = min(speeds[k], math.sqrt(speeds[k + 1] ** 2 + 2.0 * _RAMP_MPS2 * length))
    middle = np.minimum(
        _PACE_MPS, np.sqrt(0.5 * (speeds[1:] ** 2 + speeds[:-1] ** 2) + _RAMP_MPS2 * lengths)
    )
    ramps_m = (2.0 * middle**2 - speeds[1:] ** 2 - speeds[:-1] ** 2) / (2.0 * _RAMP_MPS2)
    times = (2.0 * middle - speeds[1:] - speeds[:-1]) / _RAMP_MPS2 + np.maximum(
        lengths - ramps_m, 0.0
    ) / middle
    curve = minimum_snap(way, times_s=np.concatenate(([0.0], np.cumsum(times))))
    return fastest(curve, _LIMITS).knots_s


class HeadingControl:
    """Heading that turns smoothly towards a bearing.

    Args:
        yaw_rad: at the beginning.
    """

    _STIFFNESS: Final = 9.0
    _DAMPING: Final = 6.0
    _MOST_RADPS: Final = 1.5
    _MOST_RADPS2: Final = 4.0

    def __init__(self, yaw_rad: float) -> None:
        self.yaw_rad = yaw_rad
        self.yaw_radps = 0.0
        self.yaw_radps2 = 0.0

    def of(self, reference: Reference) -> Reference:
        """Return a reference with this heading."""
        yaw, rate, change = (
            np.array([value]) for value in (self.yaw_rad, self.yaw_radps, self.yaw_radps2)
        )
        return reference._replace(yaw_rad=yaw, yaw_radps=rate, yaw_radps2=change)

    def turn(self, bearing_rad: float, dt_s: float) -> None:
        """Turn for a time."""
        error = math.remainder(bearing_rad - self.yaw_rad, 2.0 * math.pi)
        wanted = min(
            max(self._STIFFNESS / self._DAMPING * error, -self._MOST_RADPS), self._MOST_RADPS
        )
        push = self._DAMPING * (wanted - self.yaw_radps)
        self.yaw_radps2 = min(max(push, -self._MOST_RADPS2), self._MOST_RADPS2)
        self.yaw_rad += dt_s * self.yaw_radps
        self.yaw_radps += dt_s * self.yaw_radps2
