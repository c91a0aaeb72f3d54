"""Questions to a scene: pictures and rays at any instant, and the scene's objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import BoolArray, FloatArray, RenderedImage, View, WorldSnapshot
from vil_bridge.interfaces.solid_world import SceneEdit


@dataclass(frozen=True, slots=True)
class QueriedObject:
    """An object of the scene.

    Attributes:
        T_world_object: pose of its own axes, which need not begin at its middle.
        size_m, centre_m: of its bounding box, in its own axes.
        instance: its id in INSTANCE pictures and ray hits. movable: it can be moved and destroyed.
        scale: of its model along its own axes.
    """

    name: str
    T_world_object: Transform
    size_m: tuple[float, float, float]
    centre_m: tuple[float, float, float]
    instance: int
    movable: bool = False
    scale: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class RayHits:
    """First hits of n rays.

    Attributes:
        range_m: (n,), infinity = none. instance: (n,) of what was hit, 0 = nothing.
        normal_world: (n, 3), towards the ray's origin; zeros where nothing was hit.
    """

    range_m: FloatArray
    instance: npt.NDArray[np.uint32]
    normal_world: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PictureBefore:
    """The instant that pictures of flow look back to.

    Attributes:
        snapshot: the world then. T_world_cameras: of the camera of each view then, in their order.
    """

    snapshot: WorldSnapshot
    T_world_cameras: tuple[Transform, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SceneMesh:
    """Triangles of an object, in its own axes with its scale applied.

    Attributes:
        p_m: float32 (n, 3). triangles: uint32 (m, 3).
    """

    name: str
    p_m: npt.NDArray[np.float32]
    triangles: npt.NDArray[np.uint32]


class MarkerKind(StrEnum):
    """Kind of a marker.

    Points, lines between the first and the second of two points each, or words.
    """

    POINTS = "points"
    LINES = "lines"
    TEXT = "text"


@dataclass(frozen=True, slots=True, eq=False)
class SceneMarker:
    """Points, lines or words drawn into RGB pictures, where no surface is nearer.

    Attributes:
        p_m: float64 (n, 3), world; of lines an even number.
        colour: RGB, 0..255. size_px: of a point, the thickness of a line, the height of letters;
            1..64.
        texts: one for each point of TEXT. until_ns: pictures from this instant on do not show it;
            None = all do.
    """

    kind: MarkerKind
    p_m: FloatArray
    colour: tuple[int, int, int]
    size_px: int = 1
    texts: tuple[str, ...] = ()
    until_ns: int | None = None


class SceneQueries(Protocol):
    """A scene that answers questions one after another, first come, first served; loop thread.

    A question whose asker is cancelled is skipped. Every question raises RendererError when the
    scene's process ended or cannot answer it; the next question starts the process again.
    """

    @property
    def info(self) -> Mapping[str, object]:
        """The scene's name and the renderer's strings; empty before :meth:`open`."""
        ...

    async def open(self) -> None:
        """Start the scene's process and wait until it answers.

        Without it the first question waits for that.
        """
        ...

    async def images(
        self, views: Sequence[View], snapshot: WorldSnapshot, before: PictureBefore | None = None
    ) -> tuple[RenderedImage, ...]:
        """Return pictures of the due views, in their order, all of the snapshot's instant.

        DEPTH32 reaches as far as the scene is configured to, beyond the 100 m of other renderers.
        FLOW is the motion since ``before``; None = since the last picture of a camera of that name,
        by any asker.

        Raises:
            RendererError: the scene's process ended, or cannot draw that.
        """
        ...

    async def cast(
        self,
        origins_m: FloatArray,
        directions: FloatArray,
        reach_m: float,
        snapshot: WorldSnapshot,
        hide: Sequence[str] = (),
    ) -> RayHits:
        """Return the first hits of rays.

        Origins (n, 3) and unit directions (n, 3) in the world, actors included.

        ``hide`` names actors and movable objects that the rays pass through.
        """
        ...

    async def objects(self, t_ns: int = 0) -> Mapping[str, QueriedObject]:
        """Return the scene's objects by name at an instant, without the actors of the world.

        Some move by themselves on a path; where an actor has the name of a movable object, the
        actor's pose counts.
        """
        ...

    async def instances(self) -> Mapping[str, int]:
        """Return the instance ids of the scene's objects and of every actor drawn so far, by
        name.
        """
        ...

    async def place(
        self,
        name: str,
        T_world_object: Transform | None = None,
        scale: tuple[float, float, float] | None = None,
        t_ns: int = 0,
    ) -> bool:
        """Move an object, scale it, or both; False = there is none of that name, or it cannot move.

        One that falls begins again at ``t_ns``, and those that rested on it fall then. The first
        edit of one of the scene's own objects takes about as long as the scene's start.
        """
        ...

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
        """Return another object, made of one of :meth:`assets`.

        One that falls begins at ``t_ns``, as a box, and comes to rest on the surfaces of the scene
        and of its other objects. Actors of the world do not stop it.

        Raises:
            RendererError: the name is taken, or there is no such asset.
        """
        ...

    async def destroy(self, name: str, t_ns: int = 0) -> bool:
        """Remove an object; False = there is none of that name, or it cannot be removed.

        Objects that rested on it fall from ``t_ns`` on.
        """
        ...

    def watch_edits(self, changed: Callable[[SceneEdit], None]) -> None:
        """Call ``changed`` with every object that is moved, scaled, spawned or destroyed from
        now on.
        """
        ...

    async def assets(self) -> Sequence[str]:
        """Return the names that objects can be spawned from."""
        ...

    async def occupied(
        self, first_m: FloatArray, cell_m: float, shape: tuple[int, int, int]
    ) -> BoolArray:
        """Return which cubes of a grid a solid surface passes, of the given shape.

        Without the actors of the world.

        ``first_m`` (3,) is the centre of the first cube in the world, ``cell_m`` the side of each.

        Raises:
            RendererError: the grid is too large or too fine.
        """
        ...

    async def meshes(self) -> Sequence[SceneMesh]:
        """Return the scene's objects as triangles, in the order of :meth:`objects`.

        Movable ones as they rest.
        """
        ...

    async def extents(self) -> tuple[FloatArray, FloatArray]:
        """Return the lowest and the highest corner (3,) of the box around the scene's objects,
        in the world.
        """
        ...

    async def mark(self, markers: Sequence[SceneMarker]) -> None:
        """Add markers to the pictures asked for from now on.

        When they are too many, the oldest are dropped.

        Raises:
            RendererError: one is malformed, or too large by itself.
        """
        ...

    async def clear_markers(self) -> None:
        """Remove all markers."""
        ...

    async def close(self) -> None:
        """End the scene's process and release its memory."""
        ...
