"""The body at any instant, from its filter: pose, twist and their covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, cross, q_conj, q_exp, q_mul, q_rotate, q_to_matrix
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.body_filter import BodyFilter
from vil_bridge.world.inertial.covariance import skew
from vil_bridge.world.inertial.error_state import (
    ATTITUDE,
    GYRO_BIAS,
    LATE,
    LEVER,
    MOUNT,
    POSITION,
    SIZE,
    VELOCITY,
    FilterState,
)
from vil_bridge.world.inertial.extrapolation import (
    RECENT_NS,
    UNDAMPED,
    forecast,
    forecast_variances,
)
from vil_bridge.world.inertial.filter_steps import propagated
from vil_bridge.world.inertial.preintegration import preintegrate, propagate

_MISALIGNED: Final = 8e-3
"""Part of a turn that a gyroscope turns about another axis, or that its gain misses in one
direction only.
"""
_OFF_CENTRE_M: Final = 5e-3
"""Distance of the axes of an accelerometer from the point that its place is said to be."""


@dataclass(frozen=True, slots=True, eq=False)
class BodyEstimate:
    """A body at an instant.

    Attributes:
        v_world_mps: shape (3,), of the body's origin.
        w_body_radps: shape (3,).
    """

    T_world_body: Transform
    v_world_mps: FloatArray
    w_body_radps: FloatArray


def carried(
    body: BodyFilter,
    state: FilterState | None,
    t_ns: int,
    parts_of: Callable[[float], FloatArray] | None = None,
) -> FilterState | None:
    """Return a state carried to an instant by mocap's stamps, with the covariance that it had.

    None = unknown.

    The samples are integrated as far as they go; beyond them, the motion is forecast.

    Args:
        body: has the samples.
        state: :meth:`BodyFilter.newest`.
        t_ns: not before the state.
        parts_of: returns the parts of a forecast's motion that come true after a time in seconds
            (:func:`~vil_bridge.world.inertial.extrapolation.forecast`); None = all of it.
    """
    newest_ns = body.imu.newest_t_ns
    if state is None or newest_ns is None:
        return None
    until_ns = max(t_ns + state.late_ns, state.t_ns)
    nav = state.nav
    w_radps = state.w_imu_radps
    measured_ns = min(until_ns, newest_ns)
    if measured_ns > state.t_ns:
        samples = body.imu.between(state.t_ns, measured_ns)
        if samples is None:
            return None
        free = state.corrected(samples)
        nav = propagate(nav, preintegrate(*free))
        w_radps = free.w_radps[-1]
    if until_ns > nav.t_ns:
        recent = body.imu.recent(RECENT_NS)
        if recent is None:
            return None
        parts = UNDAMPED if parts_of is None else parts_of((until_ns - nav.t_ns) / NS_PER_S)
        nav, w_radps = forecast(nav, state.corrected(recent), until_ns, parts)
    return replace(
        state,
        t_ns=until_ns,
        q_world_imu_xyzw=nav.T_world_body.q_xyzw,
        p_world_m=nav.T_world_body.p_m,
        v_world_mps=nav.v_world_mps,
        w_imu_radps=w_radps,
    )


def body_of(state: FilterState, q_imu_body_xyzw: FloatArray) -> BodyEstimate:
    """Return the body of a state; ``q_imu_body_xyzw`` is the configured mount."""
    q_mount = q_exp(state.mount_rad)
    lever_m = q_rotate(q_mount, state.p_imu_body_m)
    q_world_xyzw = state.q_world_imu_xyzw
    q_imu_body = q_mul(q_mount, q_imu_body_xyzw)
    return BodyEstimate(
        Transform(
            state.p_world_m + q_rotate(q_world_xyzw, lever_m), q_mul(q_world_xyzw, q_imu_body)
        ),
        state.v_world_mps + q_rotate(q_world_xyzw, cross(state.w_imu_radps, lever_m)),
        q_rotate(q_conj(q_imu_body), state.w_imu_radps),
    )


def covariance_at(body: BodyFilter, t_ns: int, q_imu_body_xyzw: FloatArray) -> FloatArray | None:
    """Return the covariance of the body's attitude (body axes), velocity and position (world axes),
    shape (9, 9).

    Args:
        body: its filter.
        t_ns: instant by mocap's stamps.
        q_imu_body_xyzw: configured mount.

    Returns:
        None when the body is not known there.
    """
    state = body.newest()
    newest_ns = body.imu.newest_t_ns
    if state is None or newest_ns is None:
        return None
    until_ns = max(t_ns + state.late_ns, state.t_ns)
    measured_ns = min(until_ns, newest_ns)
    if measured_ns > state.t_ns:
        samples = body.imu.between(state.t_ns, measured_ns)
        if samples is None:
            return None
        state = propagated(state, samples, body.noise)
        state.P[:9, :9] += np.diag(np.repeat(_unmodelled(state.corrected(samples)), 3))
    J = body_jacobian(state, q_imu_body_xyzw)
    covariance: FloatArray = J @ state.P @ J.T
    ahead_s = (until_ns - state.t_ns) / NS_PER_S
    if ahead_s > 0.0 and (recent := body.imu.recent(NS_PER_S // 4)) is not None:
        covariance += np.diag(np.repeat(forecast_variances(state.corrected(recent), ahead_s), 3))
        moved = np.eye(9)
        moved[6:, 3:6] = ahead_s * np.eye(3)
        covariance = moved @ covariance @ moved.T
    return covariance


def _unmodelled(samples: ImuWindow) -> FloatArray:
    """Return the variances (3,) that errors in proportion to the rate add to attitude, velocity and
    position.

    They last as long as the rate does, so that they are not white, and the filter itself gets over
    them.
    """
    t_s = (samples.t_ns - samples.t_ns[0]) / NS_PER_S
    swept_rad = float(np.trapezoid(np.abs(samples.w_radps), t_s, axis=0).max())
    off_mps2 = _OFF_CENTRE_M * float((samples.w_radps**2).sum(axis=1).mean())
    errors = np.array([_MISALIGNED * swept_rad, off_mps2 * t_s[-1], off_mps2 * t_s[-1] ** 2 / 2.0])
    return np.asarray(errors**2)


def body_jacobian(state: FilterState, q_imu_body_xyzw: FloatArray) -> FloatArray:
    """Return the derivative of the body's nine errors by those of the state, shape (9, 25)."""
    q_mount = q_exp(state.mount_rad)
    lever_m = q_rotate(q_mount, state.p_imu_body_m)
    R = q_to_matrix(state.q_world_imu_xyzw)
    R_mount = q_to_matrix(q_mount)
    R_body_imu = q_to_matrix(q_conj(q_imu_body_xyzw))
    w_lever_mps = cross(state.w_imu_radps, lever_m)
    J = np.zeros((9, SIZE))
    J[:3, ATTITUDE] = R_body_imu @ R_mount.T
    J[:3, MOUNT] = R_body_imu
    J[:3, LATE] = J[:3, ATTITUDE] @ state.w_imu_radps
    J[3:6, ATTITUDE] = -R @ skew(w_lever_mps)
    J[3:6, VELOCITY] = np.eye(3)
    J[3:6, GYRO_BIAS] = R @ skew(lever_m)
    J[3:6, LEVER] = R @ skew(state.w_imu_radps) @ R_mount
    J[6:, ATTITUDE] = -R @ skew(lever_m)
    J[6:, POSITION] = np.eye(3)
    J[6:, LATE] = state.v_world_mps + R @ w_lever_mps
    J[6:, MOUNT] = -R @ R_mount @ skew(state.p_imu_body_m)
    J[6:, LEVER] = R @ R_mount
    return J
