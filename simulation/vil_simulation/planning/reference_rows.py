"""Planned flights as the rows that a running bridge takes."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.matrices import length
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Polynomials, Trajectory, hermite
from vil_bridge.web.schemas.flights import FlightBody
from vil_simulation.vehicles.trajectories.composed import Retimed

_SPACING_S: Final = 0.2
_MOST: Final = 450
"""Rows whose JSON fits into a request."""
_SHORTEST_STOP_S: Final = 0.6
_PEAK: Final = 2.2
"""Largest deceleration of a stop over the mean one."""


def flight_body(
    curve: Trajectory, yaw_rad: FloatArray | float, t_ns: int | None = None
) -> FlightBody:
    """Return a flight as a request.

    Position, velocity, acceleration and jerk every 0.2 s, or seldomer for a long one.

    Args:
        curve: from 0.
        yaw_rad: one heading, or those (n,) at :func:`row_times`.
        t_ns: bridge time at which it begins; None = soon.
    """
    times = row_times(curve)
    found = curve.at(times)
    yaw = np.broadcast_to(yaw_rad, len(times))
    rows = np.column_stack((times, *found[:4], yaw)).round(5)
    return FlightBody(rows=rows.tolist(), t_ns=t_ns)


def row_times(curve: Trajectory) -> FloatArray:
    """Return the instants of a flight's rows."""
    count = min(max(2, math.ceil(curve.duration_s / _SPACING_S) + 1), _MOST)
    return np.linspace(0.0, curve.duration_s, count)


def stop_along(curve: Trajectory, t_s: float, acceleration_mps2: float) -> Trajectory:
    """Return the way from an instant of a flight to rest, on its own path.

    Args:
        curve: the flight.
        t_s: in it.
        acceleration_mps2: for the speed at that instant, about.
    """
    speed_mps = length(curve.at(t_s).v_world_mps)
    length_s = max(_SHORTEST_STOP_S, _PEAK * speed_mps / acceleration_mps2)
    end_s = min(t_s + 0.5 * length_s, curve.duration_s)
    ends = np.zeros((2, 1, 4, 1))
    ends[0, 0, :2, 0] = (t_s, 1.0)
    ends[1, 0, 0, 0] = end_s
    pace = Polynomials([0.0, length_s], hermite(ends[0], ends[1], np.array([length_s])))
    return Retimed(curve, pace)
