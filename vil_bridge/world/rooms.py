"""Rooms: where each capture volume lies in the shared world."""

from __future__ import annotations

from dataclasses import dataclass

from vil_bridge.core.geometry import Transform

__all__ = ["Room"]


@dataclass(frozen=True, slots=True)
class Room:
    """A capture volume; ``T_world_room`` places its frame (z up, metres) in the shared world."""

    name: str
    T_world_room: Transform
