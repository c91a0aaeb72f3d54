"""Tiles of vehicles for compiled kernels: a flat array of rows, each with one number per lane."""

from __future__ import annotations

from typing import Any

from vil_bridge.vehicles.compile import LANES, compiled
from vil_bridge.vehicles.layout import LEAST


@compiled(inline=True)
def gather(t: Any, row: Any, table: Any, column: Any, count: Any, first: Any) -> None:
    """Copy columns of a table's vehicles into rows from offset ``row`` on; the last vehicle fills spare lanes."""
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
    """Set numbers of rows from offset ``row`` on to 0 as :func:`vil_bridge.vehicles.layout.flush` does."""
    for k in range(count * LANES):
        t[row + k] *= 0.0 if abs(t[row + k]) < LEAST else 1.0
