"""The scene behind the RPC: pictures, rays, objects, and their segmentation ids."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray, RenderedImage, View, WorldSnapshot
from vil_bridge.interfaces.scene_queries import (
    PictureBefore,
    QueriedObject,
    RayHits,
    SceneMarker,
    SceneMesh,
    SceneQueries,
)
from vil_bridge.interfaces.weather_returns import hits_in, rays_in, weather_at
from vil_simulation.airsim.object_ids import ObjectIds


class ServedScene:
    """Questions to a scene, and the ids that programs give to its objects and to the vehicles.

    Args:
        queries: answers the questions.
        vehicles: actors of the vehicles by their names in AirSim; vehicles may be added.
    """

    def __init__(self, queries: SceneQueries, vehicles: Mapping[str, str]) -> None:
        self.ids: Final = ObjectIds()
        self._queries = queries
        self._vehicles = vehicles
        self._spawning = asyncio.Lock()
        self._listed: tuple[int | None, Mapping[str, QueriedObject]] | None = None
        self._edits = 0

    async def images(
        self, views: Sequence[View], snapshot: WorldSnapshot, before: PictureBefore | None = None
    ) -> tuple[RenderedImage, ...]:
        """Return pictures of the views, in their order; flow is the motion since ``before``.

        Raises:
            RendererError: they cannot be drawn.
        """
        return await self._queries.images(views, snapshot, before)

    async def cast(
        self,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
        snapshot: WorldSnapshot,
        hide: Sequence[str] = (),
    ) -> RayHits:
        """Return the first hits of rays, (n, 3) each, in the world."""
        return await self._queries.cast(origins_m, directions, reach_m, snapshot, hide)

    async def measure(
        self,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
        snapshot: WorldSnapshot,
        vehicle: str,
        sensor: str,
    ) -> RayHits:
        """Return what a laser of a vehicle sees of the first hits of its rays in the weather."""
        weather = weather_at(snapshot, self._queries.info)
        rays = rays_in(weather, origins_m, directions)
        hits = await self._queries.cast(*rays, reach_m, snapshot, (vehicle,))
        return hits_in(weather, hits, reach_m, f"{vehicle}/{sensor}", snapshot.t_ns)

    async def objects(self, t_ns: int) -> Mapping[str, QueriedObject]:
        """Return the scene's objects by name at an instant."""
        if self._listed is None or self._listed[0] not in (None, t_ns):
            edits = self._edits
            found = await self._queries.objects(t_ns)
            if edits != self._edits:
                return found  # an object was edited during the question: the next call asks again
            rests = not any(thing.movable for thing in found.values())
            self._listed = None if rests else t_ns, found
        return self._listed[1]

    async def names(self) -> list[str]:
        """Return the names of the scene's objects and of the vehicles."""
        return [*await self.objects(0), *self._vehicles]

    async def place(
        self,
        name: str,
        T_world_object: Transform | None = None,
        scale: tuple[float, float, float] | None = None,
        t_ns: int = 0,
    ) -> bool:
        """Move an object, scale it, or both, at a time.

        False = there is none of that name, or it cannot move.
        """
        with self._edit():
            return await self._queries.place(name, T_world_object, scale, t_ns)

    async def spawn(
        self,
        name: str,
        asset: str,
        T_world_object: Transform,
        scale: tuple[float, float, float],
        *,
        falls: bool = False,
        t_ns: int = 0,
    ) -> str:
        """Make another object and return its name.

        Where names that contain it exist, the next number is added.

        One that falls begins at ``t_ns``.

        Raises:
            RendererError: there is no such asset.
        """
        async with self._spawning:  # another program chooses its number after this one
            taken = [known for known in await self.names() if name in known]
            if taken:
                numbers = [re.search(r"\d*$", known) for known in taken]
                name += str(1 + max(int(found[0] or 0) for found in numbers if found is not None))
            with self._edit():
                made = await self._queries.spawn(
                    name, asset, T_world_object, scale, falls=falls, t_ns=t_ns
                )
                return made.name

    async def destroy(self, name: str, t_ns: int = 0) -> bool:
        """Remove an object at a time.

        False = there is none of that name, or it cannot be removed.
        """
        with self._edit():
            removed = await self._queries.destroy(name, t_ns)
        if removed:
            self.ids.drop(name)
        return removed

    @contextlib.contextmanager
    def _edit(self) -> Iterator[None]:
        """Drop the list of objects after an edit, and those that were asked for before its end."""
        try:
            yield
        finally:
            self._edits += 1
            self._listed = None

    async def assets(self) -> Sequence[str]:
        """Return the names that objects can be spawned from."""
        return await self._queries.assets()

    async def occupied(
        self, first_m: FloatArray, cell_m: float, shape: tuple[int, int, int]
    ) -> BoolArray:
        """Return which cubes of a grid a solid surface passes.

        Raises RendererError: the grid is too large.
        """
        return await self._queries.occupied(first_m, cell_m, shape)

    async def meshes(self) -> Sequence[SceneMesh]:
        """Return the scene's objects as triangles."""
        return await self._queries.meshes()

    async def extents(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest corner of the scene, (3,) each."""
        return await self._queries.extents()

    async def mark(self, marker: SceneMarker) -> None:
        """Draw a marker into the pictures from now on.

        Raises RendererError: it is malformed or too large.
        """
        await self._queries.mark([marker])

    async def clear_markers(self) -> None:
        """Remove every marker."""
        await self._queries.clear_markers()

    async def id_table(self) -> npt.NDArray[np.int16]:
        """Return the segmentation id of every instance number of a picture."""
        instances = await self._queries.instances()
        by_actor = {actor: name for name, actor in self._vehicles.items()}
        return self.ids.table(
            {by_actor.get(name, name): number for name, number in instances.items()}
        )
