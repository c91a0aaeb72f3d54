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
UNDAMPED: Final[FloatArray] = np.ones((2, 2))


def forecast(
    state: NavState, recent: ImuWindow, until_ns: int, parts: FloatArray = UNDAMPED
) -> tuple[NavState, FloatArray]:
    """Carry a state beyond the newest inertial sample.

    Returns it with its angular rate, shape (3,).

    The angular rate goes on changing for a moment as it just did, and the acceleration *in the
    world* dies away: a force held in the body's axes would turn with an attitude that is only
    guessed, and with it gravity, which it balances. The time constants are those that suit a flight
    and a hand alike (docs/concepts/prediction.md).

    Args:
        state: where the samples end.
        recent: bias-free samples of the last moments.
        until_ns: bridge time, not before the state's.
        parts: shape (2, 2), parts of velocity and acceleration (rows) of translation and rotation
            (columns) that come true: 1 for a flight, less for a hand that turns back.
    """
    dt_s = (until_ns - state.t_ns) / NS_PER_S
    (of_v, of_w), (of_a, of_trend) = parts.tolist()
    trend_radps2 = of_trend * _trend(recent)
    turn_rad = of_w * recent.w_radps[-1] * dt_s + trend_radps2 * _fading(dt_s, _TREND_LASTS_S)
    T = state.T_world_body
    a_world_mps2 = of_a * (q_rotate(T.q_xyzw, recent.f_mps2.mean(axis=0)) + GRAVITY_WORLD_MPS2)
    p_world_m = (
        T.p_m + of_v * state.v_world_mps * dt_s + a_world_mps2 * _fading(dt_s, _FORCE_LASTS_S)
    )
    v_world_mps = of_v * state.v_world_mps + a_world_mps2 * _FORCE_LASTS_S * -math.expm1(
        -dt_s / _FORCE_LASTS_S
    )
    ahead = NavState(until_ns, Transform(p_world_m, q_mul(T.q_xyzw, q_exp(turn_rad))), v_world_mps)
    rate_radps = of_w * recent.w_radps[-1] + trend_radps2 * _TREND_LASTS_S * -math.expm1(
        -dt_s / _TREND_LASTS_S
    )
    return ahead, rate_radps


def _trend(recent: ImuWindow) -> FloatArray:
    """Return the slope of the rate, shape (3,).

    Of samples that came in a burst, it would be that of their noise.
    """
    if recent.t_ns[-1] - recent.t_ns[0] < RECENT_NS // 2:
        return np.zeros(3)
    t_s = (recent.t_ns - recent.t_ns[-1]) / NS_PER_S
    from_mean_s = t_s - t_s.mean()
    slope: FloatArray = from_mean_s @ recent.w_radps / (from_mean_s @ from_mean_s)
    return slope


def forecast_variances(recent: ImuWindow, dt_s: float) -> FloatArray:
    """Return the variances of a forecast's attitude, velocity and position beyond the state's own,
    each axis, (3,).

    Rate and force go on changing as fast as they just did, in an unknown direction.

    Args:
        recent: bias-free samples of the last quarter of a second.
        dt_s: length of the forecast.
    """
    turns_radps2, jerks_mps3 = (_change(recent.t_ns, v) for v in (recent.w_radps, recent.f_mps2))
    variances: FloatArray = (
        np.array(
            [turns_radps2 * dt_s**2 / 2.0, jerks_mps3 * dt_s**2 / 2.0, jerks_mps3 * dt_s**3 / 6.0]
        )
        ** 2
    )
    return variances


def _change(t_ns: npt.NDArray[np.int64], values: FloatArray) -> float:
    """Return the root mean square slope of values (n, 3) over :data:`RECENT_NS`, per second and
    axis.
    """
    later = np.searchsorted(t_ns, t_ns + RECENT_NS)
    first = np.flatnonzero(later < len(t_ns))
    if not len(first):
        return 0.0
    later = later[first]
    slopes = (values[later] - values[first]) / (1e-9 * (t_ns[later] - t_ns[first]))[:, None]
    return math.sqrt(float((slopes**2).mean()))


def _fading(dt_s: float, lasts_s: float) -> float:
    """Double integral over ``dt_s`` of what begins with 1 and dies away exponentially, s^2."""
    return lasts_s * (dt_s + lasts_s * math.expm1(-dt_s / lasts_s))
