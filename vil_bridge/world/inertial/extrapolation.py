"""Motion of a body in the tenth of a second that no sensor has measured yet."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp, q_mul, q_rotate
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import FloatArray
from vil_bridge.world.inertial.preintegration import GRAVITY_WORLD_MPS2, NavState

RECENT_NS: Final = 20_000_000
"""Span of the samples from which the change of the rate and the force are taken."""

_TREND_LASTS_S: Final = 0.02
_FORCE_LASTS_S: Final = 0.12
_FURTHEST_RAD: Final = 1.3
_STRAIGHT_RAD: Final = 0.6
"""Turns beyond which a forecast damps the turn and the displacement."""


def forecast(state: NavState, recent: ImuWindow, until_ns: int) -> tuple[NavState, FloatArray]:
    """Carry a state beyond the newest inertial sample; returns it with its angular rate, shape (3,).

    The angular rate goes on changing for a moment as it just did, and the acceleration *in the world*
    dies away: a force held in the body's axes would turn with an attitude that is only guessed, and
    with it gravity, which it balances. The time constants are those that suit a flight and a hand
    alike (docs/concepts/prediction.md).

    Args:
        state: where the samples end.
        recent: bias-free samples of the last moments.
        until_ns: bridge time, not before the state's.
    """
    dt_s = (until_ns - state.t_ns) / NS_PER_S
    t_s = (recent.t_ns - recent.t_ns[-1]) / NS_PER_S
    trend_radps2 = np.zeros(3)
    if recent.t_ns[-1] - recent.t_ns[0] >= RECENT_NS // 2:  # else the slope is that of the noise
        from_mean_s = t_s - t_s.mean()
        trend_radps2 = from_mean_s @ recent.w_radps / (from_mean_s @ from_mean_s)
    turn_rad = recent.w_radps[-1] * dt_s + trend_radps2 * _fading(dt_s, _TREND_LASTS_S)
    angle_rad = float(np.linalg.norm(turn_rad))
    turn_rad = turn_rad * _damping(angle_rad / _FURTHEST_RAD)
    T = state.T_world_body
    a_world_mps2 = q_rotate(T.q_xyzw, recent.f_mps2.mean(axis=0)) + GRAVITY_WORLD_MPS2
    step_m = state.v_world_mps * dt_s + a_world_mps2 * _fading(dt_s, _FORCE_LASTS_S)
    p_world_m = T.p_m + step_m * _damping(angle_rad / _STRAIGHT_RAD)
    v_world_mps = state.v_world_mps + a_world_mps2 * _FORCE_LASTS_S * -math.expm1(-dt_s / _FORCE_LASTS_S)
    ahead = NavState(until_ns, Transform(p_world_m, q_mul(T.q_xyzw, q_exp(turn_rad))), v_world_mps)
    return ahead, recent.w_radps[-1] + trend_radps2 * _TREND_LASTS_S * -math.expm1(-dt_s / _TREND_LASTS_S)


def forecast_variances(recent: ImuWindow, dt_s: float) -> FloatArray:
    """Return the variances of a forecast's attitude, velocity and position beyond the state's own, each axis, (3,).

    Rate and force go on changing as fast as they just did, in an unknown direction.

    Args:
        recent: bias-free samples of the last quarter of a second.
        dt_s: length of the forecast.
    """
    turns_radps2, jerks_mps3 = (_change(recent.t_ns, v) for v in (recent.w_radps, recent.f_mps2))
    variances: FloatArray = (
        np.array([turns_radps2 * dt_s**2 / 2.0, jerks_mps3 * dt_s**2 / 2.0, jerks_mps3 * dt_s**3 / 6.0]) ** 2
    )
    return variances


def _change(t_ns: npt.NDArray[np.int64], values: FloatArray) -> float:
    """Return the root mean square slope of values (n, 3) over :data:`RECENT_NS`, per second and axis."""
    step = max(1, round(RECENT_NS * (len(t_ns) - 1) / float(t_ns[-1] - t_ns[0])))
    if len(t_ns) <= step:
        return 0.0
    slopes = (values[step:] - values[:-step]) / (1e-9 * (t_ns[step:] - t_ns[:-step]))[:, None]
    return math.sqrt(float((slopes**2).mean()))


def _damping(share: float) -> float:
    """Return the part of a motion that a forecast believes, for its turn over the turn that it doubts.

    Nothing goes on turning as fast as it can, and what turns does not go straight on.
    """
    return 1.0 / (1.0 + share**4)


def _fading(dt_s: float, lasts_s: float) -> float:
    """Double integral over ``dt_s`` of what begins with 1 and dies away exponentially, s^2."""
    return lasts_s * (dt_s + lasts_s * math.expm1(-dt_s / lasts_s))
