"""Velocity of a tracked body from its last positions, without the lag of plain differences."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.preintegration import GRAVITY_WORLD_MPS2, integrate

FIT_WINDOW_NS: Final = 70_000_000
"""Time span of the positions to fit: long enough for 0.3 mm of noise, short enough for the model."""

_MIN_SPAN_S: Final = 0.004


class InertialDisplacement(NamedTuple):
    """Displacement of a body by acceleration alone since the first of n instants, world axes, gravity included.

    Attributes:
        dp_world_m: shape (n, 3), displacement at each instant.
        dv_world_mps: shape (n, 3), change of velocity at each instant.
    """

    dp_world_m: FloatArray
    dv_world_mps: FloatArray


def inertial_displacement(
    t_ns: npt.NDArray[np.int64], imu: ImuWindow, q_world_imu_xyzw: FloatArray
) -> InertialDisplacement:
    """Integrate inertial samples for :func:`fit_velocity`.

    Args:
        t_ns: shape (n,), instants of the positions, ascending.
        imu: bias-free samples from ``t_ns[0]`` to ``t_ns[-1]``.
        q_world_imu_xyzw: shape (4,), attitude of the IMU at ``t_ns[0]``.
    """
    path = integrate(*imu)
    increments = q_rotate(q_world_imu_xyzw, np.stack((path.alpha_m, path.beta_mps), axis=1))
    dt_s = path.dt_s[:, None]
    increments[:, 0] += 0.5 * GRAVITY_WORLD_MPS2 * dt_s**2
    increments[:, 1] += GRAVITY_WORLD_MPS2 * dt_s
    at_stamps = _interpolate((t_ns - imu.t_ns[0]) / NS_PER_S, path.dt_s, increments)
    return InertialDisplacement(at_stamps[:, 0], at_stamps[:, 1])


def fit_velocity(
    t_ns: npt.NDArray[np.int64], p_world_m: FloatArray, inertial: InertialDisplacement
) -> FloatArray | None:
    """Return the velocity at the newest position, shape (3,), m/s, world axes.

    The positions less the displacement by acceleration lie on a line; its slope and the change of
    velocity give the velocity at the end of the window, without lag.

    Args:
        t_ns: shape (n,), ascending; equal stamps are allowed and count once more.
        p_world_m: shape (n, 3).
        inertial: displacements at the same instants, from :func:`inertial_displacement`.

    Returns:
        None when the stamps span less than 4 ms, so that nothing can be said.
    """
    t_s = (t_ns - t_ns[-1]) / NS_PER_S
    if t_s[0] > -_MIN_SPAN_S:
        return None
    from_mean_s = t_s - t_s.mean()
    slope_mps = from_mean_s @ (p_world_m - inertial.dp_world_m) / (from_mean_s @ from_mean_s)
    v_world_mps: FloatArray = inertial.dv_world_mps[-1] + slope_mps
    return v_world_mps


def _interpolate(at_s: FloatArray, t_s: FloatArray, values: FloatArray) -> FloatArray:
    """Interpolate whole rows linearly: ``values`` shape (n, ...) at ``t_s``, ascending."""
    after = np.clip(np.searchsorted(t_s, at_s), 1, len(t_s) - 1)
    fraction = (at_s - t_s[after - 1]) / (t_s[after] - t_s[after - 1])
    before_values = values[after - 1]
    interpolated: FloatArray = before_values + fraction[:, None, None] * (values[after] - before_values)
    return interpolated
