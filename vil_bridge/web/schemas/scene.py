"""Bodies of the scene routes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind
from vil_bridge.web.schemas.controls import PropView

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
    """A tracked room.

    T_world_room, its walls, and how near its actors may come to those of other rooms.
    """

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
    """A virtual camera.

    T_body_camera (x forward, y left, z up) on its actor, ``world`` for a fixed one.
    """

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
class CourseView:
    """Course of the race.

    Attributes:
        order: names of the gates of one lap. flying: a lap ends at its first gate again.
        bounds_m: lower and upper corner of the space that vehicles may use; None = unlimited.
    """

    name: str
    laps: int
    order: tuple[str, ...]
    flying: bool
    bounds_m: tuple[Vector, Vector] | None = None


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
        """Return the obstacle of the controls under its name."""
        return cls(name, prop.p_m, prop.q_xyzw, prop.size_m, prop.prefab)


@dataclass(frozen=True, slots=True)
class SceneView:
    """The whole scene.

    Attributes:
        revision: rises with every change; the live feed's poses carry it.
        actors: in the order in which the live feed counts them.
        gates: of the race, else of the scene that the renderer draws.
        model: relative address of the geometry that the renderer draws; None = it is not available.
        course: of the race; None = there is none.
    """

    name: str
    revision: int = 0
    rooms: dict[str, SceneRoom] = field(default_factory=dict)
    actors: tuple[SceneActor, ...] = ()
    cameras: tuple[SceneCamera, ...] = ()
    gates: tuple[GateView, ...] = ()
    props: tuple[SceneProp, ...] = ()
    model: str | None = None
    course: CourseView | None = None


def three(T_a_b: Transform) -> Vector:
    """Return a transform's position."""
    x, y, z = T_a_b.p_m.tolist()
    return x, y, z


def quaternion(T_a_b: Transform) -> Quaternion:
    """Return a transform's attitude."""
    x, y, z, w = T_a_b.q_xyzw.tolist()
    return x, y, z, w
