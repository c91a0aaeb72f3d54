"""Solid parts of a scene, as a simulation asks for them; the world frame, metres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Place = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SweptContact:
    """First contact of a sphere on a straight way.

    Attributes:
        share: of the way until then, 0..1. point_world_m: on the surface, (3,).
        normal_world: from the surface to the sphere's centre, unit, (3,). other: whose surface, as the scene names it.
    """

    share: float
    point_world_m: Place
    normal_world: Place
    other: str


class SolidWorld(Protocol):
    """The surfaces of a scene, at rest; any thread."""

    def clearance_m(self, p_world_m: Place) -> float:
        """Return the distance from a point (3,) to the nearest surface; infinity where there is none."""
        ...

    def first_contact(self, start_m: Place, goal_m: Place, radius_m: float) -> SweptContact | None:
        """Return the first surface that stops a sphere on its way from one point (3,) to another.

        Surfaces have two sides; the sphere cannot pass them, however far the way is. A surface that it
        overlaps or touches at the start stops it only if the way leads into it.
        """
        ...
