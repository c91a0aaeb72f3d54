"""An occupancy map as people read it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MapView:
    """An occupancy map now.

    Attributes:
        min_m, max_m: corners of its box, world. number: rises with each picture that it takes and
            each reset.
        t_ns: bridge time of the newest picture in it; 0 = none yet.
        free, occupied: known voxels. pictures: that it took. superseded: pictures overtaken by
            newer ones.
        failed: pictures that could not be used. insert_ms: time that one takes, a running mean.
        problem: why it takes none any more; empty = it does.
    """

    cameras: tuple[str, ...]
    min_m: tuple[float, float, float]
    max_m: tuple[float, float, float]
    resolution_m: float
    number: int
    t_ns: int
    free: int
    occupied: int
    pictures: int
    superseded: int
    failed: int
    insert_ms: float
    problem: str = ""
