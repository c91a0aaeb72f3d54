"""From inertial samples to motion.

Preintegration in the body axes of the first instant, and propagation.

Over one step with constant angular rate w and specific force f the integrals have closed forms
(Gamma 0..2 below), so that only the change of w and f *within* a step is approximated, to second
order, by their mean. A rate held over a long step is therefore integrated exactly.
Source: the discrete-time preintegration of Lupton and Sukkarieh (2012); Gamma functions as in
Bloesch et al., "State estimation for legged robots" (2012).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import (
    GRAVITY_MPS2,
    Transform,
    cross,
    q_exp,
    q_mul,
    q_normalize,
    q_rotate,
)
from vil_bridge.core.types import FloatArray

GRAVITY_WORLD_MPS2: Final[FloatArray] = np.array([0.0, 0.0, -GRAVITY_MPS2])
_SERIES_TERMS: Final = 24
_SERIES_ANGLE_RAD: Final = 10.0
# (1 - cos a)/a^2, (a - sin a)/a^3 and (a^2/2 + cos a - 1)/a^4 as series in a^2: shape (terms, 3).
# They need no case for small angles and hold to 1e-12 up to ten radians a step, more than any
# gyroscope measures.
_SERIES: Final[FloatArray] = np.array(
    [
        (-1) ** k / math.factorial(2 * k + offset)
        for k in range(_SERIES_TERMS)
        for offset in (2, 3, 4)
    ]
).reshape(_SERIES_TERMS, 3)


class Preintegrated(NamedTuple):
    """The inertial increments over an interval, in the body axes at its start.

    Attributes:
        dR_q_xyzw: shape (4,), maps body coordinates at the end to body coordinates at the start.
        beta_mps: shape (3,), single integral of the specific force.
        alpha_m: shape (3,), double integral of the specific force.
        dt_s: length of the interval.
    """

    dR_q_xyzw: FloatArray
    beta_mps: FloatArray
    alpha_m: FloatArray
    dt_s: float


class PreintegratedTrajectory(NamedTuple):
    """The same increments from the first sample to each sample, leading axis n."""

    dR_q_xyzw: FloatArray
    beta_mps: FloatArray
    alpha_m: FloatArray
    dt_s: FloatArray

    @property
    def last(self) -> Preintegrated:
        """Increments over the whole interval."""
        return Preintegrated(
            self.dR_q_xyzw[-1], self.beta_mps[-1], self.alpha_m[-1], float(self.dt_s[-1])
        )


@dataclass(frozen=True, slots=True, eq=False)
class NavState:
    """Pose and velocity of a body at ``t_ns``; its axes are the IMU's.

    Attributes:
        v_world_mps: shape (3,), world axes.
    """

    t_ns: int
    T_world_body: Transform
    v_world_mps: FloatArray


def integrate(
    t_ns: npt.NDArray[np.int64], w_radps: FloatArray, f_mps2: FloatArray
) -> PreintegratedTrajectory:
    """Return the increments from the first sample to each sample.

    Args:
        t_ns: shape (n,), increasing, n >= 1.
        w_radps: shape (n, 3), body axes, without bias.
        f_mps2: shape (n, 3), body axes.
    """
    dt_s = np.diff(t_ns)[:, None] / NS_PER_S
    angle_rad = 0.5 * (w_radps[:-1] + w_radps[1:]) * dt_s
    q_xyzw = _running_product(q_exp(angle_rad))
    steps = q_rotate(q_xyzw[:-1, None], _step(angle_rad, 0.5 * (f_mps2[:-1] + f_mps2[1:]), dt_s))
    beta_mps = np.zeros((len(t_ns), 3))
    np.cumsum(steps[:, 0], axis=0, out=beta_mps[1:])
    alpha_m = np.zeros((len(t_ns), 3))
    np.cumsum(beta_mps[:-1] * dt_s + steps[:, 1], axis=0, out=alpha_m[1:])
    return PreintegratedTrajectory(q_xyzw, beta_mps, alpha_m, (t_ns - t_ns[0]) / NS_PER_S)


def preintegrate(
    t_ns: npt.NDArray[np.int64], w_radps: FloatArray, f_mps2: FloatArray
) -> Preintegrated:
    """Return the increments from the first sample to the last; arguments as for :func:`integrate`.

    :meth:`~vil_bridge.world.inertial.imu_buffer.ImuBuffer.between` cuts the samples to an interval.
    """
    return integrate(t_ns, w_radps, f_mps2).last


def propagate(state: NavState, increments: Preintegrated) -> NavState:
    """Return the state at the end of the increments' interval, from the state at its start."""
    dt_s = increments.dt_s
    T = state.T_world_body
    p_world_m = (
        T.apply(increments.alpha_m) + state.v_world_mps * dt_s + 0.5 * GRAVITY_WORLD_MPS2 * dt_s**2
    )
    v_world_mps = (
        state.v_world_mps + GRAVITY_WORLD_MPS2 * dt_s + q_rotate(T.q_xyzw, increments.beta_mps)
    )
    q_world_xyzw = q_normalize(q_mul(T.q_xyzw, increments.dR_q_xyzw))
    return NavState(
        state.t_ns + round(dt_s * NS_PER_S), Transform(p_world_m, q_world_xyzw), v_world_mps
    )


def _step(angle_rad: FloatArray, f_mps2: FloatArray, dt_s: FloatArray) -> FloatArray:
    """Return Gamma1 f dt and Gamma2 f dt^2, shape (n, 2, 3), for constant rate and force.

    ``dt_s`` shape (n, 1).
    """
    angle2 = np.minimum(np.einsum("ni,ni->n", angle_rad, angle_rad), _SERIES_ANGLE_RAD**2)
    c1, c2, c3 = (np.vander(angle2, _SERIES_TERMS, increasing=True) @ _SERIES).T[:, :, None]
    sf = cross(angle_rad, f_mps2)
    ssf = cross(angle_rad, sf)
    dv_mps = (f_mps2 + c1 * sf + c2 * ssf) * dt_s
    dp_m = (0.5 * f_mps2 + c2 * sf + c3 * ssf) * dt_s**2
    return np.stack((dv_mps, dp_m), axis=1)


def _running_product(dq_xyzw: FloatArray) -> FloatArray:
    """Return identity, dq0, dq0 dq1, ...: shape (n + 1, 4).

    Scalar arithmetic, since each needs the one before.
    """
    x = 0.0
    y = 0.0
    z = 0.0
    w = 1.0
    rows = [(x, y, z, w)]
    for a, b, c, d in dq_xyzw.tolist():
        x, y, z, w = (
            w * a + x * d + y * c - z * b,
            w * b - x * c + y * d + z * a,
            w * c + x * b - y * a + z * d,
            w * d - x * a - y * b - z * c,
        )
        rows.append((x, y, z, w))
    return np.array(rows)
