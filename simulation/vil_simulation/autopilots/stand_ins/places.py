"""Places on Earth near an origin, as a stand-in computes them.

Flat, with a degree of one length.
"""

from __future__ import annotations

from typing import Final

from vil_simulation.autopilots.stand_ins import vectors
from vil_simulation.autopilots.stand_ins.vectors import Vector

_M_PER_DEG: Final = 111_319.5
_LEAST_COSINE: Final = 0.01

Origin = tuple[float, float, float]
"""Latitude and longitude (degrees) and altitude (metres) of the local frame, or of a place."""


def local_ned(origin: Origin, place: Origin) -> Vector:
    """Return a place in the local frame: north, east, down, metres."""
    return (
        (place[0] - origin[0]) * _M_PER_DEG,
        (place[1] - origin[1]) * _wide(origin),
        origin[2] - place[2],
    )


def place_of(origin: Origin, p_ned_m: Vector) -> Origin:
    """Return the place of a position."""
    north, east, down = p_ned_m
    return origin[0] + north / _M_PER_DEG, origin[1] + east / _wide(origin), origin[2] - down


def _wide(origin: Origin) -> float:
    return _M_PER_DEG * max(_LEAST_COSINE, vectors.cosine_deg(origin[0]))
