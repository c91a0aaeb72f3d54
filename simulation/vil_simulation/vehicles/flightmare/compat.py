"""flightlib's own stepping (``compat="flightmare"``): the slips of branch master, in float64.

Thrust, torque and acceleration are held over a sub-step, sub-steps come from a float32 counted
down, attitudes are never normalised, a world box lets vehicles through. flightlib computes its
states in float32; this does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray

_Motion = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
"""Time derivative of bodies (n, 13) under thrust and torque (n, 4) in surroundings (n, 12)."""

_V: Final = slice(3, 6)


def original_substeps(dt_s: float, longest_s: float) -> list[float]:
    """Return sub-steps: the rest is a float32 counted down, so that 20 ms are eight of 2.5 ms and
    1.9e-9 s more.

    Raises:
        ValueError: the step is so much longer than a sub-step that float32 cannot count it down.
    """
    longest = np.float32(longest_s)
    rest = np.float32(dt_s)
    if rest - longest == rest:
        raise ValueError(
            f"flightlib never ends a step of {dt_s} s in sub-steps of {longest_s} s: make "
            "it shorter"
        )
    lengths: list[float] = []
    while rest > 0.0:
        h = min(rest, longest)
        lengths.append(float(h))
        rest -= h
    return lengths


def original_motion(
    motion: _Motion, body: FloatArray, wrench: FloatArray, around: FloatArray, h_s: float
) -> FloatArray:
    """Return what a sub-step adds to rigid bodies (n, 13).

    RK4 of their motion with the first acceleration held.
    """
    k1 = motion(body, wrench, around)
    slopes = [k1]
    for part in (0.5, 0.5, 1.0):
        slope = motion(body + part * h_s * slopes[-1], wrench, around)
        slope[:, _V] = k1[:, _V]
        slopes.append(slope)
    change: FloatArray = h_s / 6.0 * (slopes[0] + 2.0 * (slopes[1] + slopes[2]) + slopes[3])
    return change


def within_box(before: FloatArray, x: FloatArray, box_m: FloatArray) -> FloatArray:
    """Return states (n, 17) after flightlib's world box.

    Beyond a wall: the old coordinate and no speed along it. Beyond floor or ceiling: on the floor,
    v_z unchanged.
    """
    low, high = box_m
    for axis in (0, 1):
        out = (x[:, axis] < low[axis]) | (x[:, axis] > high[axis])
        x[out, axis] = before[out, axis]
        x[out, 3 + axis] = 0.0
    out = (x[:, 2] < low[2]) | (x[:, 2] > high[2])
    x[out, 2] = low[2]
    x[out, 3:5] = 0.0
    x[out, 10:13] = 0.0
    return x
