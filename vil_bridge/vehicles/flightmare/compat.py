"""flightlib's own stepping (``compat="flightmare"``): the slips of branch master, in float64.

Thrust, torque and acceleration are held over a sub-step, sub-steps come from a float32 counted down, attitudes
are never normalised, a world box lets vehicles through. flightlib computes its states in float32; this does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vil_bridge.core.types import FloatArray

if TYPE_CHECKING:
    from vil_bridge.vehicles.flightmare.model import FlightmareQuadrotor

__all__ = ["original_step", "original_substeps"]

_V: Final = slice(3, 6)


def original_substeps(dt_s: float, longest_s: float) -> list[float]:
    """Sub-steps of a step: the rest is a float32 counted down, so that 20 ms are eight of 2.5 ms and 1.9e-9 s more.

    Raises:
        ValueError: the step is so much longer than a sub-step that float32 cannot count it down.
    """
    longest, rest = np.float32(longest_s), np.float32(dt_s)
    if rest - longest == rest:
        raise ValueError(f"flightlib never ends a step of {dt_s} s in sub-steps of {longest_s} s: make it shorter")
    lengths: list[float] = []
    while rest > 0.0:
        h = min(rest, longest)
        lengths.append(float(h))
        rest -= h
    return lengths


def original_step(
    model: FlightmareQuadrotor, x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float
) -> FloatArray:
    """States (n, 17) after a step as flightlib's ``Quadrotor::run`` makes it."""
    before = x
    for h_s in original_substeps(dt_s, model.longest_substep_s):
        x = _substep(model, x, u, around, h_s)
    return _keep_in_box(before, x, model.world_box_m)


def _substep(model: FlightmareQuadrotor, x: FloatArray, u: FloatArray, around: FloatArray, h_s: float) -> FloatArray:
    x = x.copy()
    target = model.speeds_commanded(x, u)
    x[:, 13:] = target + np.exp(-h_s / model.motor_time_s) * (x[:, 13:] - target)
    body, wrench = x[:, :13], model.wrench(x[:, 13:], around)
    k1 = model.motion(body, wrench, around)
    a_world_mps2 = k1[:, _V]
    slopes = [k1]
    for part in (0.5, 0.5, 1.0):
        slope = model.motion(body + part * h_s * slopes[-1], wrench, around)
        slope[:, _V] = a_world_mps2
        slopes.append(slope)
    x[:, :13] += h_s / 6.0 * (slopes[0] + 2.0 * (slopes[1] + slopes[2]) + slopes[3])
    return x


def _keep_in_box(before: FloatArray, x: FloatArray, box_m: FloatArray) -> FloatArray:
    """Beyond a wall: the old coordinate and no speed along it. Beyond floor or ceiling: on the floor, v_z kept."""
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
