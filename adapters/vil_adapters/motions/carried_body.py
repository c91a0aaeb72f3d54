"""A body carried by hand through the moves that ``vil-bridge align`` asks for, again and again."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp, q_mul
from vil_bridge.core.types import MotionFrame, SkeletonModel

_FIRST_REST_S: Final = 20.0
"""Long enough to start the program that watches."""
_REST_S: Final = 1.5
_MOVE_S: Final = 1.2
_TILT_S: Final = 4.0
_BACK_S: Final = 3.0
_CYCLE_S: Final = _FIRST_REST_S + 4 * (_MOVE_S + _REST_S) + _TILT_S + _REST_S + _BACK_S
_START_M: Final = np.array([0.3, -0.2, 0.9])
_T_BODY_MARKERS: Final = Transform.of(
    (0.02, -0.01, 0.03), q_exp(np.array([0.0, 0.0, math.radians(30.0)]))
)


def _ease(fraction: float) -> float:
    """Return the minimum-jerk course from 0 to 1 (Flash and Hogan, 1985)."""
    f = min(1.0, max(0.0, fraction))
    return f**3 * (10.0 - 15.0 * f + 6.0 * f**2)


class CarriedMotion:
    """Twenty seconds of rest, forward, left, up, a quarter turn, tilts, back.

    Implements ``Motion``.

    The body's nose is along the room's x; its marker frame sits next to its middle, turned by 30
    degrees.
    """

    skeleton_models: tuple[SkeletonModel, ...] = ()

    def __init__(self, subject: str) -> None:
        self.subjects = (subject,)

    def at(self, t_ns: int) -> MotionFrame:
        """Return the body at one instant."""
        T = self.T_room_body(t_ns) @ _T_BODY_MARKERS
        return MotionFrame(self.subjects, T.p_m[None], T.q_xyzw[None], np.array([True]))

    def T_room_body(self, t_ns: int) -> Transform:  # noqa: N802 - the field's name for a transform
        """Return the true pose, with 2 mm and a degree of hand tremor."""
        s = (t_ns / NS_PER_S) % _CYCLE_S
        begins = [_FIRST_REST_S + i * (_MOVE_S + _REST_S) for i in range(5)]
        back = _ease((s - (_CYCLE_S - _BACK_S)) / _BACK_S)
        forward, left, up, turn = (_ease((s - begin) / _MOVE_S) - back for begin in begins[:4])
        tilting = min(1.0, max(0.0, (s - begins[4]) / _TILT_S))
        swing = math.radians(40.0) * math.sin(math.pi * tilting)
        roll = swing * math.sin(4 * math.pi * tilting)
        pitch = swing * math.cos(4 * math.pi * tilting)
        tremor_m = 0.002 * np.sin(2 * np.pi * np.array([1.1, 1.3, 0.9]) * s + [0.0, 1.0, 2.0])
        shake_rad = np.radians(1.0) * np.sin(
            2 * np.pi * np.array([0.7, 0.9, 0.5]) * s + [1.0, 0.0, 2.0]
        )
        heading = q_exp(shake_rad + np.array([0.0, 0.0, math.radians(88.0) * turn]))
        moved = np.array([0.55 * forward, 0.55 * left, 0.5 * up])
        return Transform(
            _START_M + moved + tremor_m, q_mul(heading, q_exp(np.array([roll, pitch, 0.0])))
        )
