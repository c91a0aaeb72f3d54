"""What stands in the world, for pages that draw it: everything that does not move by itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from fastapi import APIRouter, HTTPException, Response

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind
from vil_bridge.web.schemas.controls import PropView
from vil_bridge.web.live.pacing import Shared
from vil_bridge.web.routes.status import ErrorOut

__all__ = [
    "MODEL_PATH",
    "GateView",
    "SceneActor",
    "SceneBook",
    "SceneCamera",
    "SceneProp",
    "SceneRoom",
    "SceneView",
    "SkeletonView",
    "WallsView",
    "quaternion",
    "scene_router",
    "three",
]

MODEL_PATH: Final = "api/v1/scene/model.glb"
Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class WallsView:
    """Virtual walls: a box in the room's frame, metres."""

    min_m: Vector
    max_m: Vector


@dataclass(frozen=True, slots=True)
class SceneRoom:
    """A tracked room: T_world_room, its walls, and how near its actors may come to those of other rooms."""

    p_m: Vector
    q_xyzw: Quaternion
    walls: WallsView | None
    margin_m: float


@dataclass(frozen=True, slots=True)
class SkeletonView:
    """Bones of a human, parents first; a parent of -1 marks the root."""

    bones: tuple[str, ...]
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SceneActor:
    """A body of the world. ``skeleton``: of a human that was seen at least once."""

    name: str
    kind: ActorKind
    size_m: Vector
    source: str
    room: str
    prefab: str
    skeleton: SkeletonView | None = None


@dataclass(frozen=True, slots=True)
class SceneCamera:
    """A virtual camera: T_body_camera (x forward, y left, z up) on its actor, ``world`` for a fixed one."""

    name: str
    actor: str
    width: int
    height: int
    fov_y_rad: float
    rate_hz: float
    p_m: Vector
    q_xyzw: Quaternion
    variants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GateView:
    """A gate to fly through: its middle, x along the way through it, and its opening."""

    name: str
    p_m: Vector
    q_xyzw: Quaternion
    width_m: float
    height_m: float


@dataclass(frozen=True, slots=True)
class SceneProp:
    """An obstacle that renderers draw."""

    name: str
    p_m: Vector
    q_xyzw: Quaternion
    size_m: Vector
    prefab: str = ""

    @classmethod
    def of(cls, name: str, prop: PropView) -> SceneProp:
        """From what the controls say."""
        return cls(name, prop.p_m, prop.q_xyzw, prop.size_m, prop.prefab)


@dataclass(frozen=True, slots=True)
class SceneView:
    """The whole scene.

    Attributes:
        revision: rises with every change; the live feed's poses carry it.
        actors: in the order in which the live feed counts them.
        model: relative address of the geometry that the renderer draws; None = it cannot be had.
    """

    name: str
    revision: int = 0
    rooms: dict[str, SceneRoom] = field(default_factory=dict)
    actors: tuple[SceneActor, ...] = ()
    cameras: tuple[SceneCamera, ...] = ()
    gates: tuple[GateView, ...] = ()
    props: tuple[SceneProp, ...] = ()
    model: str | None = None


class SceneBook:
    """Numbers the scene's changes; for the HTTP server's thread.

    The first number is drawn by lot: a page that outlives the bridge takes no other scene for the one it has.

    Args:
        make: the scene now.
    """

    def __init__(self, make: Callable[[], SceneView]) -> None:
        self._make = make
        self._first = secrets.randbits(31)
        self._scene: SceneView | None = None
        self._looked = Shared(self.look, 2.0)

    def look(self) -> SceneView:
        """The scene as it is."""
        now, before = self._make(), self._scene
        revision = self._first if before is None else before.revision
        if before is not None and replace(now, revision=revision) != before:
            revision += 1
        self._scene = replace(now, revision=revision)
        return self._scene

    def revision(self) -> int:
        """Of the scene as it was at most half a second ago."""
        self._looked.get()
        return 0 if self._scene is None else self._scene.revision


def scene_router(book: SceneBook, glb: Callable[[], bytes | None]) -> APIRouter:
    """``/api/v1/scene``.

    Args:
        book: the scene.
        glb: the geometry that the renderer draws, None while it cannot be had.
    """
    router = APIRouter(prefix="/api/v1", tags=["bridge"])

    @router.get("/scene", operation_id="get_scene")
    async def get_scene() -> SceneView:
        """What stands in the world: rooms, actors, cameras, gates, obstacles."""
        return book.look()

    @router.get(
        "/scene/model.glb",
        operation_id="get_scene_model",
        response_class=Response,
        responses={200: {"content": {"model/gltf-binary": {}}}, 404: {"model": ErrorOut}},
    )
    async def get_scene_model() -> Response:
        """The geometry that the renderer draws, as glTF for browsers."""
        model = glb()
        if model is None:
            raise HTTPException(404, "no renderer draws a scene that comes with the bridge, or it is not made yet")
        return Response(model, media_type="model/gltf-binary")

    return router


def three(T_a_b: Transform) -> Vector:
    """A transform's position."""
    x, y, z = T_a_b.p_m.tolist()
    return x, y, z


def quaternion(T_a_b: Transform) -> Quaternion:
    """A transform's attitude."""
    x, y, z, w = T_a_b.q_xyzw.tolist()
    return x, y, z, w
