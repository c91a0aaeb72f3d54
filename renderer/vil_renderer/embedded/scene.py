"""A scene as values: objects, light and semantic classes. No OpenGL, no ray tracer.

Light is relative: a white matt surface that faces a light of 1 is displayed white at exposure 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_bridge.core.weather import FINE, Weather
from vil_renderer.embedded.assets.model import Asset
from vil_renderer.embedded.scene_motion import MotionPath

if TYPE_CHECKING:
    from vil_renderer.embedded.splats.field import SplatField

ACTORS_LAYER: Final = "actors"
SCENE_LAYER: Final = "scene"
AT_REST: Final[Mapping[int, FloatArray]] = {}
"""No morph target differs from rest."""

CLASSES: Final[Mapping[str, int]] = {
    "floor": 1,
    "wall": 2,
    "ceiling": 3,
    "structure": 4,
    "furniture": 5,
    "box": 6,
    "rack": 7,
    "container": 8,
    "gate": 9,
    "sign": 10,
    "lamp": 11,
    "vegetation": 12,
    "terrain": 13,
    "road": 14,
    "building": 15,
    "door": 16,
    "window": 17,
    "pole": 18,
    "cable": 19,
    "machine": 20,
    "prop": 40,
    "vehicle": 41,
    "human": 42,
}
"""Semantic classes by name; 0 is none. A scene may add its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Sun:
    """Light from far away.

    Attributes:
        to_sun: unit vector towards it, shape (3,). light: linear RGB, shape (3,).
    """

    to_sun: FloatArray
    light: FloatArray

    @classmethod
    def towards(cls, direction: npt.ArrayLike, light: npt.ArrayLike) -> Sun:
        """Return a sun in a direction of any length, (3,)."""
        to_sun = np.array(direction)
        return cls(to_sun / np.linalg.norm(to_sun), np.array(light))


@dataclass(frozen=True, slots=True, eq=False)
class Lamp:
    """A light in the scene.

    Attributes:
        p_m: shape (3,). light: linear RGB at 1 m on its axis, shape (3,); falls with the square of
            the distance.
        direction: of a spot, unit vector; None = shines everywhere. cone_rad: its inner and outer
            half angle.
        range_m: it ends there smoothly; 0 = unlimited.
    """

    name: str
    p_m: FloatArray
    light: FloatArray
    direction: FloatArray | None = None
    cone_rad: tuple[float, float] = (0.5, 0.7)
    range_m: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Environment:
    """Light from everywhere, the sky, and the exposure.

    Attributes:
        sky, ground: ambient light on surfaces that face up and down, linear RGB, shape (3,).
        zenith, horizon: colours of the sky, linear RGB.
        latitude_deg: for the sun's path when the time of day is set at run time.
        exposure: factor on all light.
    """

    sky: FloatArray
    ground: FloatArray
    sun: Sun | None = None
    zenith: tuple[float, float, float] = (0.15, 0.34, 0.71)
    horizon: tuple[float, float, float] = (0.67, 0.77, 0.84)
    latitude_deg: float = 47.4
    exposure: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """An animation of an object's own model that plays over and over.

    Attributes:
        animation: its name. speed: times faster, negative = backwards. phase_s: where in the clip
            it is at time 0.
    """

    animation: str
    speed: float = 1.0
    phase_s: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SceneObject:
    """An object of a scene.

    Attributes:
        world_from_asset: (4, 4), rotation, scale and place; of a movable object: where it rests.
        semantic, instance: ids in the pictures, 0..65535.
        movable: follows the actor of the same name as soon as there is one.
        solid: stops rays, hides beacons, collides.
        collider: shape for rays and vehicles when solid: its triangles, or the box around it (in
            its own axes).
        path: of a movable one without an actor. clip: what it plays during that time.
    """

    name: str
    asset: Asset
    world_from_asset: FloatArray
    semantic: int = 0
    instance: int = 0
    layer: str = SCENE_LAYER
    movable: bool = False
    solid: bool = True
    casts_shadow: bool = True
    collider: Literal["mesh", "box"] = "mesh"
    path: MotionPath | None = None
    clip: Clip | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Beacon:
    """An IR beacon.

    Attributes:
        p_m: shape (3,), in the world, or in the axes of the object or actor named ``carrier``.
    """

    name: str
    p_m: FloatArray
    carrier: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """An opening to fly through along its +x; width along y, height along z."""

    name: str
    T_world_gate: Transform
    width_m: float
    height_m: float


@dataclass(frozen=True, slots=True, eq=False)
class Prefab:
    """A model for actors that name it.

    Attributes:
        asset_from_body: (4, 4): usually the identity.
        fit: ``size`` scales the asset's bounding box to the actor's size, about the pose;
            ``standing`` the same, with the pose in the middle of its underside; ``none`` keeps its
            own.
        spin: nodes that turn, name to revolutions per second about the node's own ``spin_axis``.
    """

    asset: Asset
    semantic: int
    fit: Literal["size", "standing", "none"] = "none"
    spin: Mapping[str, float] = field(default_factory=dict)
    spin_axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    asset_from_body: FloatArray = field(default_factory=lambda: np.eye(4))


@dataclass(frozen=True, slots=True, eq=False)
class SplatSet:
    """Gaussian splats as environment, of the layer :data:`SCENE_LAYER`.

    Attributes:
        path: of the file. T_world_splats: (4, 4), place, rotation and a uniform scale.
        proxy: names of the objects that replace the splats in depth, ids, rays and collisions,
            never in colour.
        arranged: what the file holds, where it was read already.
    """

    path: Path
    T_world_splats: FloatArray
    proxy: tuple[str, ...] = ()
    arranged: SplatField | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Everything that a renderer or a ray tracer needs, except the actors.

    Attributes:
        gates: in the order of the race.
        prefabs: models by the name that actors use.
        classes: semantic ids by name, those of :data:`CLASSES` included.
    """

    name: str
    objects: tuple[SceneObject, ...]
    environment: Environment
    lamps: tuple[Lamp, ...] = ()
    beacons: tuple[Beacon, ...] = ()
    gates: tuple[Gate, ...] = ()
    prefabs: Mapping[str, Prefab] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=lambda: CLASSES)
    splats: SplatSet | None = None
    weather: Weather = FINE


@dataclass(slots=True, eq=False)
class Posed:
    """A model at one instant, usually an actor's.

    Not frozen, since a thousand are made for each picture.

    Attributes:
        name: the actor's; identifies it in the previous picture.
        world_from_node: (n, 4, 4) for the nodes of ``asset``.
        joint_light: (n,), share of its own colour at each node when it is a joint (a limb that is
            not tracked is greyer); None = 1.
        capsules: (k, 8): two ends and two radii in the world, what rays hit instead of a skinned
            mesh.
        morph: weights of morph targets beyond those at rest, (t,), by node.
        half_size_m: half of the box around it in body axes, T_world_body its pose: for collisions.
    """

    name: str
    asset: Asset
    world_from_node: FloatArray
    semantic: int
    instance: int
    T_world_body: Transform
    half_size_m: tuple[float, float, float]
    layer: str = ACTORS_LAYER
    joint_light: FloatArray | None = None
    capsules: FloatArray = field(default_factory=lambda: np.zeros((0, 8)))
    morph: Mapping[int, FloatArray] = field(default_factory=lambda: AT_REST)


@dataclass(frozen=True, slots=True, eq=False)
class Triangles:
    """Triangles in the world.

    Attributes:
        p_m: float32 (n, 3). triangles: uint32 (m, 3). owner: intp (m,), index into the objects they
            came from.
    """

    p_m: npt.NDArray[np.float32]
    triangles: npt.NDArray[np.uint32]
    owner: npt.NDArray[np.intp]


_Part = tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]]

_BOX_TRIANGLES: Final = np.array(
    [[0, 2, 1], [1, 2, 3], [4, 5, 6], [5, 7, 6], [0, 1, 4], [1, 5, 4],
     [2, 6, 3], [3, 6, 7], [0, 4, 2], [2, 4, 6], [1, 3, 5], [3, 7, 5]],
    np.uint32,
)  # fmt: skip
"""Of the corners (x, y, z), x fastest; counter-clockwise from outside."""


def collider_parts(thing: SceneObject) -> list[_Part]:
    """Return an object's shape for rays and vehicles, in its asset's axes at rest.

    float32 (n, 3), uint32 (m, 3).
    """
    parts = _parts(thing.asset)
    if thing.collider == "mesh" or not parts:
        return parts
    points = np.concatenate([p_m for p_m, _ in parts])
    low = points.min(axis=0)
    high = points.max(axis=0)
    z, y, x = np.indices((2, 2, 2)).reshape(3, 8)
    return [(low + np.stack((x, y, z), axis=1).astype(np.float32) * (high - low), _BOX_TRIANGLES)]


def _parts(asset: Asset) -> list[_Part]:
    parts: list[_Part] = []
    for node, m in zip(asset.nodes, asset.asset_from_node(), strict=True):
        parts += [
            ((part.p_m @ m[:3, :3].T + m[:3, 3]).astype(np.float32), part.triangles)
            for part in node.primitives
        ]
    return parts


def static_triangles(scene: Scene, *, solid_only: bool = True) -> Triangles:
    """Return all triangles of static objects; ``owner`` indexes ``scene.objects``.

    Args:
        scene: the scene.
        solid_only: shapes for rays and vehicles (:func:`collider_parts`); False = the drawn ones.
    """
    points: list[npt.NDArray[np.float32]] = []
    triangles: list[npt.NDArray[np.uint32]] = []
    owners: list[npt.NDArray[np.intp]] = []
    count = 0
    for index, thing in enumerate(scene.objects):
        if thing.movable or (solid_only and not thing.solid):
            continue
        m = thing.world_from_asset
        for p_m, faces in collider_parts(thing) if solid_only else _parts(thing.asset):
            points.append((p_m @ m[:3, :3].T + m[:3, 3]).astype(np.float32))
            triangles.append(faces + np.uint32(count))
            owners.append(np.full(len(faces), index, np.intp))
            count += len(p_m)
    if not points:
        return Triangles(
            np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint32), np.zeros(0, np.intp)
        )
    return Triangles(np.concatenate(points), np.concatenate(triangles), np.concatenate(owners))
