"""Truths for sensors: vehicles at rest, and vehicles whose motion their identity decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vil_bridge.core.geometry import q_exp
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.model import TrueState

_WEIGHT_MPS2 = np.array([0.0, 0.0, 9.81])


def at_rest(
    n: int,
    t_ns: int,
    p_world_m: object = 0.0,
    q_world_body: object = (0.0, 0.0, 0.0, 1.0),
    rotors: FloatArray | None = None,
) -> TrueState:
    """n vehicles standing still; the specific force is that of level ones."""
    zero = np.zeros((n, 3))
    return TrueState(
        t_ns,
        zero + np.asarray(p_world_m, dtype=np.float64),
        zero,
        zero,
        np.zeros((n, 4)) + np.asarray(q_world_body, dtype=np.float64),
        zero,
        zero,
        zero + _WEIGHT_MPS2,
        np.zeros((n, 0)) if rotors is None else rotors,
    )


def moving(t_ns: int, who: Sequence[int]) -> TrueState:
    """Vehicles on circles of their own, turning; all quantities differ from zero."""
    i, t_s = np.array(who, dtype=np.float64)[:, None], 1e-9 * t_ns
    angle = t_s + i
    p = np.concatenate((3.0 * i + np.cos(angle), np.sin(angle), 2.0 + 0.1 * i), axis=1)
    v = np.concatenate((-np.sin(angle), np.cos(angle), 0.0 * i), axis=1)
    w = np.concatenate((0.1 * i, 0.2 + 0.0 * i, np.sin(angle)), axis=1)
    q = q_exp(np.concatenate((0.1 * np.sin(angle), 0.05 * i, angle), axis=1))
    return TrueState(
        t_ns, p, v, -p, q, w, 0.1 * w, v + _WEIGHT_MPS2, 800.0 + 10.0 * np.repeat(i, 4, axis=1)
    )
