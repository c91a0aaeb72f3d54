"""A scene that answers questions, drawn by the embedded renderer in a process of its own."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    BoolArray,
    FloatArray,
    Modality,
    RenderedImage,
    View,
    WorldSnapshot,
)
from vil_bridge.interfaces.scene_queries import (
    PictureBefore,
    QueriedObject,
    RayHits,
    SceneMarker,
    SceneMesh,
)
from vil_bridge.interfaces.solid_world import SceneEdit
from vil_renderer.queries.bounds import (
    check_marker,
    check_views,
    checked_rays,
    checked_scale,
    pose_fields,
)
from vil_renderer.queries.config import EmbeddedQueriesConfig
from vil_renderer.queries.messages import (
    MOST_EDITS,
    MOST_MARKED_POINTS,
    AddMarkers,
    Assets,
    Cast,
    Images,
    Instances,
    ListMeshes,
    Load,
    Objects,
    ObjectState,
    Occupied,
    SetObjects,
    decode_info,
    decode_instances,
    decode_names,
    decode_objects,
    decode_states,
    encode,
)
from vil_renderer.queries.process import SceneProcess

_CORNERS: Final = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
_ROWS_AT_ONCE: Final = 8
"""Objects that are read from an answer before the loop does something else."""
_FIRST_ACTOR: Final = 32768
"""Instance ids of actors start here."""


class EmbeddedSceneQueries:
    """Implementation of :class:`~vil_bridge.interfaces.scene_queries.SceneQueries`.

    Args:
        name: for messages.
        config: what to draw, and how well.

    Attributes:
        process: the scene's process, with its counters.
    """

    def __init__(self, name: str, config: EmbeddedQueriesConfig) -> None:
        self.name = name
        self._config = config
        self.process = SceneProcess(self._load)
        self._listed: Mapping[str, QueriedObject] | None = None
        self._markers: deque[SceneMarker] = deque()
        self._marked_points = 0
        self._edits: dict[str, ObjectState] = {}
        self._editing = asyncio.Lock()
        self._watchers: list[Callable[[SceneEdit], None]] = []
        self._encoded: tuple[WorldSnapshot, msgspec.Raw] | None = None

    @property
    def info(self) -> Mapping[str, object]:
        """The scene's name and the renderer's strings; empty while no process runs."""
        return {} if self.process.info is None else decode_info(self.process.info)

    async def open(self) -> None:
        """Start the process and wait until it can draw.

        Raises:
            RendererError: it cannot: no such scene, or no OpenGL.
        """
        await self.assets()

    async def images(
        self, views: Sequence[View], snapshot: WorldSnapshot, before: PictureBefore | None = None
    ) -> tuple[RenderedImage, ...]:
        """Return pictures of the due views, in their order, all of the snapshot's instant.

        FLOW is the motion since ``before``; None = since the last picture of a camera of that name.

        Raises:
            RendererError: they are too many or too large, or the process cannot draw them.
        """
        due = tuple(view for view in views if view.due)
        check_views(due)
        if not due:
            return ()
        if before is not None:
            places = zip(views, before.T_world_cameras, strict=True)
            before = replace(before, T_world_cameras=tuple(T for view, T in places if view.due))
        answer = await self.process.ask(Images(due, self._snapshot(snapshot), before))
        arrays = iter(answer.arrays)
        return tuple(
            RenderedImage(
                view, next(arrays), next(arrays) if view.modality is Modality.FLOW else None
            )
            for view in due
        )

    async def cast(
        self,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
        snapshot: WorldSnapshot,
        hide: Sequence[str] = (),
    ) -> RayHits:
        """Return the first hits of rays (n, 3), actors included.

        Raises:
            RendererError: the rays are too many or not finite, or Embree is not installed.
        """
        rays = checked_rays(origins_m), checked_rays(directions)
        if rays[0].shape != rays[1].shape:
            raise RendererError(
                f"{len(rays[0])} origins and {len(rays[1])} directions. Give one direction for each"
            )
        if not reach_m > 0.0:
            raise RendererError(f"rays reach {reach_m} m. Give a positive length")
        answer = await self.process.ask(Cast(reach_m, tuple(hide), self._snapshot(snapshot)), rays)
        ranges, instance, normal = answer.arrays
        return RayHits(
            ranges.astype(np.float64), instance.astype(np.uint32), normal.astype(np.float64)
        )

    async def objects(self, t_ns: int = 0) -> Mapping[str, QueriedObject]:
        """Return the scene's objects by name at an instant, without the actors of the world.

        Raises:
            RendererError: the process ended.
        """
        if self._listed is not None:
            return self._listed
        edits = self._edits
        rows = decode_objects((await self.process.ask(Objects(t_ns))).value)
        found = {}
        for number, row in enumerate(rows, 1):
            found[row.name] = QueriedObject(
                row.name,
                Transform.of(row.p_m, row.q_xyzw),
                row.size_m,
                row.centre_m,
                row.instance,
                row.movable,
                row.scale,
            )
            if number % _ROWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        if edits is self._edits and not any(row.moves for row in rows):
            self._listed = found
        return found

    async def instances(self) -> Mapping[str, int]:
        """Return the instance ids of the scene's objects and of every actor drawn so far, by name.

        Raises:
            RendererError: the process ended.
        """
        return decode_instances((await self.process.ask(Instances())).value)

    # --- geometry ------------------------------------------------------------------------------

    async def occupied(
        self, first_m: FloatArray, cell_m: float, shape: tuple[int, int, int]
    ) -> BoolArray:
        """Return which cubes of a grid a solid surface passes, of the given shape.

        Without the actors of the world.

        Raises:
            RendererError: the grid is too large or too fine, or the process ended.
        """
        x, y, z = np.asarray(first_m, np.float64).tolist()
        if not all(map(math.isfinite, (x, y, z, cell_m))):
            raise RendererError("a grid whose place or resolution is not finite. Give numbers")
        (found,) = (await self.process.ask(Occupied((x, y, z), cell_m, shape))).arrays
        return found

    async def meshes(self) -> Sequence[SceneMesh]:
        """Return the scene's objects as triangles, in the order of :meth:`objects`.

        Movable ones as they rest.

        Raises:
            RendererError: they are too large, or the process ended.
        """
        answer = await self.process.ask(ListMeshes())
        arrays = iter(answer.arrays)
        return [SceneMesh(name, next(arrays), next(arrays)) for name in decode_names(answer.value)]

    async def extents(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest corner (3,) of the box around the scene's objects, in
        the world.

        Raises:
            RendererError: the process ended.
        """
        found = (await self.objects()).values()
        corners = [
            thing.T_world_object.apply(thing.centre_m + 0.5 * _CORNERS * thing.size_m)
            for thing in found
        ]
        every = np.concatenate(corners or [np.zeros((1, 3))])
        return every.min(axis=0), every.max(axis=0)

    # --- markers -------------------------------------------------------------------------------

    async def mark(self, markers: Sequence[SceneMarker]) -> None:
        """Add markers to the pictures asked for from now on.

        When they are too many, the oldest are dropped.

        Raises:
            RendererError: one is malformed or too large by itself, or the process ended.
        """
        for marker in markers:
            check_marker(marker)
        async with self._editing:
            points = self._marked_points + sum(map(_points_of, markers))
            dropped = 0
            for oldest in self._markers:
                if points <= MOST_MARKED_POINTS:
                    break
                points -= _points_of(oldest)
                dropped += 1
            await self.process.ask(AddMarkers(tuple(markers), dropped))
            for _ in range(dropped):
                self._markers.popleft()
            self._markers += markers
            self._marked_points = points

    async def clear_markers(self) -> None:
        """Remove all markers. Raises RendererError: the process ended."""
        async with self._editing:
            await self.process.ask(AddMarkers(dropped=len(self._markers)))
            self._markers.clear()
            self._marked_points = 0

    # --- edits ---------------------------------------------------------------------------------

    async def place(
        self,
        name: str,
        T_world_object: Transform | None = None,
        scale: tuple[float, float, float] | None = None,
        t_ns: int = 0,
    ) -> bool:
        """Move an object, scale it, or both; False = there is none of that name, or it cannot move.

        One that falls begins again at ``t_ns``.

        Raises:
            RendererError: the pose is not finite, the scale not positive, or the process ended.
        """
        async with self._editing:
            state = await self._state(name)
            if state is None:
                return False
            if T_world_object is None:
                T_world_object = (await self.objects(t_ns))[name].T_world_object
            state = msgspec.structs.replace(state, way=(), **pose_fields(T_world_object))
            if scale is not None:
                state = msgspec.structs.replace(state, scale=checked_scale(scale))
            await self._set(state, t_ns)
        return True

    async def spawn(
        self,
        name: str,
        asset: str,
        T_world_object: Transform,
        scale: tuple[float, float, float] = (1.0, 1.0, 1.0),
        *,
        falls: bool = False,
        t_ns: int = 0,
    ) -> QueriedObject:
        """Return another object, made of one of :meth:`assets`; one that falls begins at ``t_ns``.

        Raises:
            RendererError: the name is taken, no asset has that name, or the process ended.
        """
        async with self._editing:
            objects = await self.objects()
            if name in objects or not name:
                raise RendererError(
                    f"an object cannot be named {name!r}: the name is taken. Choose another one"
                )
            used = {found.instance for found in objects.values()}
            instance = next(
                (number for number in range(1, _FIRST_ACTOR) if number not in used), None
            )
            if instance is None or not asset:
                raise RendererError(
                    "the asset has no name, or the scene has no instance id left. Destroy objects"
                )
            state = ObjectState(
                name,
                asset,
                scale=checked_scale(scale),
                instance=instance,
                falls=falls,
                **pose_fields(T_world_object),
            )
            await self._set(state, t_ns)
            return (await self.objects(t_ns))[name]

    async def destroy(self, name: str, t_ns: int = 0) -> bool:
        """Remove an object; False = there is none of that name, or it cannot be removed.

        Raises:
            RendererError: the process ended.
        """
        async with self._editing:
            state = await self._state(name)
            if state is None:
                return False
            await self._set(msgspec.structs.replace(state, gone=True), t_ns)
        return True

    def watch_edits(self, changed: Callable[[SceneEdit], None]) -> None:
        """Call ``changed`` with every object that is moved, scaled, spawned or destroyed from
        now on.
        """
        self._watchers.append(changed)

    async def assets(self) -> Sequence[str]:
        """Return the names that objects can be spawned from.

        Raises:
            RendererError: the process ended.
        """
        return decode_names((await self.process.ask(Assets())).value)

    async def _state(self, name: str) -> ObjectState | None:
        """Return an object's present state.

        None = there is none of that name, or it cannot be edited.
        """
        if name in self._edits:
            return None if self._edits[name].gone else self._edits[name]
        found = (await self.objects()).get(name)
        if found is None or not found.movable:
            return None
        return ObjectState(
            name,
            "",
            scale=found.scale,
            instance=found.instance,
            **pose_fields(found.T_world_object),
        )

    async def _set(self, state: ObjectState, t_ns: int) -> None:
        """Apply a state at a time.

        It is stored for the next start of the process if the process accepts it.

        Objects that lose their hold fall, too.
        """
        edits = self._edits | {state.name: state}
        if state.gone and state.asset:
            del edits[state.name]
        if len(edits) > MOST_EDITS:
            raise RendererError(f"{MOST_EDITS} objects are edited. Destroy spawned ones first")
        answer = await self.process.ask(SetObjects(tuple(edits.values()), t_ns))
        before = self._edits
        self._edits = {found.name: found for found in decode_states(answer.value)}
        self._listed = None
        for found in {state.name: state, **self._edits}.values():
            if found != before.get(found.name):
                edit = SceneEdit(
                    found.name, found.asset, found.p_m, found.q_xyzw, found.scale, found.gone
                )
                for changed in self._watchers:
                    changed(edit)

    def _load(self) -> Load:
        config = self._config
        states = tuple(self._edits.values())
        return Load(
            config.scene,
            config.profile,
            config.device,
            config.depth_reach_m,
            states,
            tuple(self._markers),
        )

    async def close(self) -> None:
        """End the process and release its memory; may be called twice."""
        self.process.close()

    def _snapshot(self, snapshot: WorldSnapshot) -> msgspec.Raw:
        """Return a snapshot as bytes; several questions often concern the same one."""
        if self._encoded is None or self._encoded[0] is not snapshot:
            self._encoded = snapshot, msgspec.Raw(encode(snapshot))
        return self._encoded[1]


def _points_of(marker: SceneMarker) -> int:
    """Return the points that a marker counts as; one without any takes memory, too."""
    return max(len(marker.p_m), 1)
