"""The noise of :mod:`vil_bridge.core.random.noise`, compiled: the same bits."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from vil_bridge.core.compile import compiled
from vil_bridge.core.random import philox

_make = compiled()
philox4x32 = _make(philox.philox4x32)
unit_interval = _make(philox.unit_interval)
_parts_of_bits = _make(philox.parts_of_bits)
_log_of_parts = _make(philox.log_of_parts)
_central_normal = _make(philox.central_normal)
_near_tail_normal = _make(philox.near_tail_normal)
_far_tail_normal = _make(philox.far_tail_normal)

_MASK: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


@compiled()
def normal_of(u: Any, cell: Any, bits: Any) -> Any:
    """Return normal quantile of u.

    ``cell`` (1,) float64 is room to work in, ``bits`` the same as int64.
    """
    q = u - 0.5
    if abs(q) <= 0.425:
        return _central_normal(q)
    cell[0] = min(u, 1.0 - u)
    k, bits[0] = _parts_of_bits(bits[0])
    root = math.sqrt(-_log_of_parts(k, cell[0]))
    size = _near_tail_normal(root) if root <= 5.0 else _far_tail_normal(root)
    return math.copysign(size, q)


@compiled()
def fill(key: Any, step: Any, vehicles: Any, normal: Any, out: Any) -> Any:
    """Write random numbers into out (n, k): of vehicle ``vehicles[i]`` into row i.

    Args:
        key: (2,) uint64, 32 bits each.
        step: uint64.
        vehicles: (n,) uint64, 32 bits each.
        normal: standard normal numbers, else uniform in (0, 1).
        out: changed.
    """
    cell = np.empty(1)
    bits = cell.view(np.int64)
    columns = out.shape[1]
    for row in range(out.shape[0]):
        for block in range((columns + 1) // 2):
            a, b, c, d = philox4x32(
                np.uint64(block), vehicles[row], step & _MASK, step >> _HALF, key[0], key[1]
            )
            first = unit_interval(a, b)
            out[row, 2 * block] = normal_of(first, cell, bits) if normal else first
            if 2 * block + 1 < columns:
                second = unit_interval(c, d)
                out[row, 2 * block + 1] = normal_of(second, cell, bits) if normal else second
