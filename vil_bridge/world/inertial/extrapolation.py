"""Motion of a body in the tenth of a second that no sensor has measured yet."""

from __future__ import annotations

import math
from typing import Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp, q_mul, q_rotate
from vil_bridge.core.motion import ImuWindow
from vil_bridge.world.inertial.preintegration import GRAVITY_WORLD_MPS2, NavState

RECENT_NS: Final = 20_000_000
"""Span of the samples from which the change of the rate and the force are taken."""

_TREND_LASTS_S: Final = 0.02
_FORCE_LASTS_S: Final = 0.12


def forecast(state: NavState, recent: ImuWindow, until_ns: int) -> NavState:
    """Carry a state beyond the newest inertial sample.

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
    from_mean_s = t_s - t_s.mean()
    trend_radps2 = from_mean_s @ recent.w_radps / (from_mean_s @ from_mean_s)
    turn_rad = recent.w_radps[-1] * dt_s + trend_radps2 * _fading(dt_s, _TREND_LASTS_S)
    T = state.T_world_body
    a_world_mps2 = q_rotate(T.q_xyzw, recent.f_mps2.mean(axis=0)) + GRAVITY_WORLD_MPS2
    p_world_m = T.p_m + state.v_world_mps * dt_s + a_world_mps2 * _fading(dt_s, _FORCE_LASTS_S)
    v_world_mps = state.v_world_mps + a_world_mps2 * _FORCE_LASTS_S * -math.expm1(-dt_s / _FORCE_LASTS_S)
    return NavState(until_ns, Transform(p_world_m, q_mul(T.q_xyzw, q_exp(turn_rad))), v_world_mps)


def _fading(dt_s: float, lasts_s: float) -> float:
    """Double integral over ``dt_s`` of what begins with 1 and dies away exponentially, s^2."""
    return lasts_s * (dt_s + lasts_s * math.expm1(-dt_s / lasts_s))
