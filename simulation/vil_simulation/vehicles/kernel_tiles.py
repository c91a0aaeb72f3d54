"""Tiles of vehicles for compiled kernels: a flat array of rows, each with one number per lane."""

from __future__ import annotations

from typing import Any

from vil_bridge.core.compile import LANES, compiled
from vil_simulation.vehicles.layout import LEAST


@compiled(inline=True)
def gather(t: Any, row: Any, table: Any, column: Any, count: Any, first: Any) -> None:
    """Copy columns of a table's vehicles into rows from offset ``row`` on.

    The last vehicle fills spare lanes.
    """
    last = table.shape[0] - 1
    for lane in range(LANES):
        vehicle = min(first + lane, last)
        for k in range(count):
            t[row + k * LANES + lane] = table[vehicle, column + k]


@compiled(inline=True)
def scatter(t: Any, row: Any, table: Any, column: Any, count: Any, first: Any) -> None:
    """Copy rows from offset ``row`` on back into a table's columns."""
    for lane in range(min(LANES, table.shape[0] - first)):
        for k in range(count):
            table[first + lane, column + k] = t[row + k * LANES + lane]


@compiled(inline=True)
def flush_rows(t: Any, row: Any, count: Any) -> Any:
    """Set numbers of rows from offset ``row`` on to 0 as
    :func:`vil_simulation.vehicles.layout.flush` does.
    """
    for k in range(count * LANES):
        t[row + k] *= 0.0 if abs(t[row + k]) < LEAST else 1.0


@compiled(inline=True)
def put_truth(
    x: Any, around: Any, p: Any, v: Any, a: Any, q: Any, w: Any, f: Any, first: Any
) -> None:
    """Write pose, velocities and specific force of a tile's vehicles, (n, 3 or 4), from states
    and accelerations a.
    """
    for vehicle in range(first, min(first + LANES, x.shape[0])):
        for k in range(3):
            p[vehicle, k], v[vehicle, k], w[vehicle, k] = (
                x[vehicle, k],
                x[vehicle, 3 + k],
                x[vehicle, 10 + k],
            )
        for k in range(4):
            q[vehicle, k] = x[vehicle, 6 + k]
        rx = -q[vehicle, 0]
        ry = -q[vehicle, 1]
        rz = -q[vehicle, 2]
        s = q[vehicle, 3]
        gx = a[vehicle, 0]
        gy = a[vehicle, 1]
        gz = a[vehicle, 2] + around[vehicle, 10]
        # R(q)^T g = g + 2 s (r x g) + 2 r x (r x g) with r the vector part of the inverse
        cx = ry * gz - rz * gy
        cy = rz * gx - rx * gz
        cz = rx * gy - ry * gx
        f[vehicle, 0] = gx + 2.0 * (s * cx + (ry * cz - rz * cy))
        f[vehicle, 1] = gy + 2.0 * (s * cy + (rz * cx - rx * cz))
        f[vehicle, 2] = gz + 2.0 * (s * cz + (rx * cy - ry * cx))
