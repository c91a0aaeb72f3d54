"""Covariance of the increments of a preintegration, and of a state that is propagated with them.

An error of one step's rate turns all later steps' forces, one of its force adds to the velocity from
there on; sums over the steps after it give what each does to the end, so that no recursion is needed,
and the sum of all of them is what a constant bias does.
Source: the noise propagation of Forster, Carlone, Dellaert and Scaramuzza, "On-manifold
preintegration" (2017), section VI, written as sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import q_conj, q_exp, q_mul, q_to_matrix
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.preintegration import NavState, Preintegrated, integrate


@dataclass(frozen=True, slots=True)
class ImuNoise:
    """Errors of the samples of an IMU; the defaults suit the small ones of flight controllers.

    Attributes:
        gyro_density: white noise, rad/s/sqrt(Hz). accel_density: white noise, m/s^2/sqrt(Hz).
        gyro_bias_radps, accel_bias_mps2: standard deviations of what is left of the biases, each axis.
    """

    gyro_density: float = 2e-3
    accel_density: float = 2e-2
    gyro_bias_radps: float = 2e-3
    accel_bias_mps2: float = 0.1


def increments_covariance(
    t_ns: npt.NDArray[np.int64], w_radps: FloatArray, f_mps2: FloatArray, noise: ImuNoise
) -> FloatArray:
    """Return the covariance of :func:`~vil_bridge.world.inertial.preintegration.preintegrate`'s increments, (9, 9).

    The nine are: rotation (rad, a turn in the axes at the end), beta (m/s) and alpha (m), both in the
    axes at the start.

    Args:
        t_ns: shape (n,), increasing, n >= 2.
        w_radps: shape (n, 3).
        f_mps2: shape (n, 3).
        noise: of the samples.
    """
    dt_s = np.diff(t_ns) / NS_PER_S
    per_rate, per_force = _step_jacobians(t_ns, w_radps, f_mps2, dt_s)
    covariance = np.zeros((9, 9))
    for jacobians, density, bias_std in (
        (per_rate, noise.gyro_density, noise.gyro_bias_radps),
        (per_force, noise.accel_density, noise.accel_bias_mps2),
    ):
        # The mean over a step of white noise has the variance density^2 / dt.
        covariance += np.einsum("nij,nkj,n->ik", jacobians, jacobians, density**2 / dt_s)
        of_bias = jacobians.sum(axis=0)
        covariance += bias_std**2 * of_bias @ of_bias.T
    return covariance


def propagated_covariance(
    state: NavState, increments: Preintegrated, P_state: FloatArray, P_increments: FloatArray
) -> FloatArray:
    """Return the covariance of :func:`~vil_bridge.world.inertial.preintegration.propagate`'s state, shape (9, 9).

    The nine of a state are: attitude (rad, a turn in the body's axes), velocity and position (world axes).

    Args:
        state: at the start.
        increments: of the interval.
        P_state: shape (9, 9), of the state at the start.
        P_increments: shape (9, 9), from :func:`increments_covariance`; independent of the state's errors.
    """
    R = state.T_world_body.rotation()
    F = np.eye(9)
    F[:3, :3] = q_to_matrix(increments.dR_q_xyzw).T
    F[3:6, :3] = -R @ _skew(increments.beta_mps)
    F[6:, :3] = -R @ _skew(increments.alpha_m)
    F[6:, 3:6] = increments.dt_s * np.eye(3)
    G = np.eye(9)
    G[3:6, 3:6] = G[6:, 6:] = R
    covariance: FloatArray = F @ P_state @ F.T + G @ P_increments @ G.T
    return covariance


def _step_jacobians(
    t_ns: npt.NDArray[np.int64], w_radps: FloatArray, f_mps2: FloatArray, dt_s: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of the nine by each step's mean rate and by its mean force: shapes (n - 1, 9, 3)."""
    q_xyzw = integrate(t_ns, w_radps, f_mps2).dR_q_xyzw
    half_rad = 0.25 * (w_radps[:-1] + w_radps[1:]) * dt_s[:, None]
    R_middle = q_to_matrix(q_mul(q_xyzw[:-1], q_exp(half_rad)))
    R_end_T = q_to_matrix(q_conj(q_xyzw[-1]))
    left_s = (t_ns[-1] - t_ns[:-1]) / NS_PER_S - 0.5 * dt_s  # from the middle of a step to the end
    force = np.einsum("nij,nj->ni", R_middle, 0.5 * (f_mps2[:-1] + f_mps2[1:]))
    turned = _skew(force) * dt_s[:, None, None]
    # A turn in the middle of a step acts on half of its own force, too.
    on_beta = _after(turned)
    on_alpha = _after(turned * left_s[:, None, None])
    turn = R_middle * dt_s[:, None, None]
    per_rate = np.concatenate((R_end_T @ turn, -on_beta @ turn, -on_alpha @ turn), axis=1)
    per_force = np.concatenate((np.zeros_like(turn), turn, turn * left_s[:, None, None]), axis=1)
    return per_rate, per_force


def _after(parts: FloatArray) -> FloatArray:
    """Return the sum of the parts after each, and half of itself."""
    sums: FloatArray = np.cumsum(parts[::-1], axis=0)[::-1] - 0.5 * parts
    return sums


def _skew(v: FloatArray) -> FloatArray:
    """Return the matrices of the cross product, shape (..., 3, 3)."""
    matrices: FloatArray = np.swapaxes(np.cross(v[..., None, :], np.eye(3)), -1, -2)
    return matrices
