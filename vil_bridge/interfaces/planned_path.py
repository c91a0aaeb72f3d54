"""Planned flights of actors, as outputs publish them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vil_bridge.core.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPath:
    """A flight that was given to an actor.

    Attributes:
        begins_ns: bridge time. t_s: (n,), from its begin. p_world_m: (n, 3). yaw_rad: (n,).
    """

    begins_ns: int
    t_s: FloatArray
    p_world_m: FloatArray
    yaw_rad: FloatArray


PlannedPaths = Callable[[], Mapping[str, PlannedPath]]
"""Returns the flights by actor that are flown or offered now; any thread."""
