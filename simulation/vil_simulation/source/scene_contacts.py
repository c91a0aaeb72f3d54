"""Contacts of vehicles with the solid parts of a scene, asked for only where they may be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.geometry import Transform
from vil_bridge.core.matrices import product
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.interfaces.solid_world import SceneEdit, SolidWorld, SweptContact
from vil_simulation.source.sphere_row import SphereRow

_RAY_M: Final = 1e-3
"""Radius of a sphere that is as thin as a ray."""
HARDEST_MPS2: Final = 200.0
"""Acceleration of a vehicle in flight, at most.

One that exceeds it is stopped too, but later in its way.
"""


class SceneContacts:
    """Spheres of the vehicles of a group in a scene, k of each vehicle.

    The scene is asked how far a vehicle is from everything. It is not asked again before the
    vehicle can have flown as far. Then the whole way since the last question is checked.

    Args:
        world: solid parts of the scene. T_room_scene: pose of the scene in the vehicles' room.
        shape: of each vehicle. rows: how many vehicles. dt_s: a step.
    """

    def __init__(
        self, world: SolidWorld, T_room_scene: Transform, shape: SphereRow, rows: int, dt_s: float
    ) -> None:
        self._world = world
        self._T_room_scene: Final = T_room_scene
        self._T_scene_room: Final = T_room_scene.inverse()
        self._radius_m = shape.radius_m
        self._dt_s = dt_s
        self._last_m = np.full((rows, *shape.offsets_m.shape), np.nan)
        self._asked_m = self._last_m.copy()
        self._free_m = np.zeros(rows)
        self._due = np.zeros(rows, np.int64)
        self._next_due = 0

    def forget(self, row: int) -> None:
        """Begin again where the vehicle is next: it was put elsewhere."""
        self._last_m[row] = np.nan
        self._due[row] = self._next_due = 0

    @property
    def next_due(self) -> int:
        """Step after which the next vehicle must be checked."""
        return self._next_due

    def due(self, step: int, active: BoolArray) -> list[int]:
        """Return the active rows that must be checked after a step."""
        if step < self._next_due:
            return []
        return np.flatnonzero(active & (self._due <= step)).tolist()

    def settle(self, row: int, middles_m: FloatArray, speed: float, step: int) -> FloatArray | None:
        """Ask how far a vehicle with spheres at (k, 3) is from everything.

        Returns:
            The beginnings of their ways since the last question, (k, 3), if something may have been
                on them; else None.
        """
        free_m = self._free(row, middles_m)
        before_m = self._last_m[row].copy()
        self._last_m[row] = middles_m
        reach_m = max(free_m, 0.0)
        free_s = (math.sqrt(speed * speed + 2.0 * HARDEST_MPS2 * reach_m) - speed) / HARDEST_MPS2
        self._due[row] = step + max(1, math.floor(min(free_s, 1e3) / self._dt_s))
        self._next_due = int(self._due.min())
        flown_m = float(np.sqrt(((middles_m - before_m) ** 2).sum(axis=1).max()))
        return None if flown_m <= free_m or math.isnan(flown_m) else before_m

    def _free(self, row: int, middles_m: FloatArray) -> float:
        """Return how far a vehicle's spheres are from everything.

        One that stands is not asked for again.
        """
        if not np.array_equal(middles_m, self._asked_m[row]):
            places = self._T_scene_room.apply(middles_m)
            self._free_m[row] = min(self._world.clearance_m(p_m) for p_m in places) - self._radius_m
            self._asked_m[row] = middles_m
        return float(self._free_m[row])

    def edit(self, edit: SceneEdit) -> None:
        """Change an object. Raises RendererError: there is no such object or asset."""
        self._asked_m[:] = np.nan
        self._world.edit(edit)
        self._due[:] = self._next_due = 0

    def overlap(self, middles_m: FloatArray) -> tuple[int, SweptContact] | None:
        """Return the sphere of a vehicle that lies deepest in a surface, (k, 3), room frame.

        None = none does.
        """
        places = self._T_scene_room.apply(middles_m)
        hits = [self._world.overlap(p_m, self._radius_m) for p_m in places]
        found = [
            (math.dist(places[k].tolist(), hit.point_world_m.tolist()), k, hit)
            for k, hit in enumerate(hits)
            if hit is not None
        ]
        if not found:
            return None
        _, k, hit = min(found, key=lambda entry: entry[:2])
        return k, self._in_room(hit)

    def first_contact(
        self, starts_m: FloatArray, goals_m: FloatArray
    ) -> tuple[int, SweptContact] | None:
        """Return the first contact of a vehicle's spheres on their ways, (k, 3), room frame, and
        the sphere.
        """
        ends = zip(
            self._T_scene_room.apply(starts_m), self._T_scene_room.apply(goals_m), strict=True
        )
        hits = [self._world.first_contact(start, goal, self._radius_m) for start, goal in ends]
        found = [(hit.share, k, hit) for k, hit in enumerate(hits) if hit is not None]
        if not found:
            return None
        _, k, hit = min(found, key=lambda entry: entry[:2])
        return k, self._in_room(hit)

    def ranges_m(self, starts_m: FloatArray, directions: FloatArray, reach_m: float) -> FloatArray:
        """Return distances along unit vectors to the first surface, (n,), room frame.

        Inf = none within reach.
        """
        ends = (
            self._T_scene_room.apply(starts_m),
            self._T_scene_room.apply(starts_m + reach_m * directions),
        )
        hits = [
            self._world.first_contact(start, end, _RAY_M) for start, end in zip(*ends, strict=True)
        ]
        return np.array([math.inf if hit is None else hit.share * reach_m + _RAY_M for hit in hits])

    def _in_room(self, hit: SweptContact) -> SweptContact:
        T = self._T_room_scene
        return replace(
            hit,
            point_world_m=T.apply(hit.point_world_m[None])[0],
            normal_world=product(T.rotation(), hit.normal_world),
        )
