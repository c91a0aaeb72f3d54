"""Small scenes of which everything is known in closed form, for rays, sensors, collisions and
point clouds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import trimesh

from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Asset, Material, Node, Primitive
from vil_renderer.embedded.scene import Beacon, Environment, Posed, Scene, SceneObject


def primitive(
    p_m: npt.ArrayLike, triangles: npt.ArrayLike, normal: npt.ArrayLike | None = None
) -> Primitive:
    """Triangles; without normals, flat ones pointing up."""
    points = np.asarray(p_m, np.float32)
    given = np.tile((0.0, 0.0, 1.0), (len(points), 1)) if normal is None else normal
    corners = np.asarray(triangles, np.uint32)
    return Primitive(
        points,
        np.asarray(given, np.float32),
        np.zeros((len(points), 2), np.float32),
        corners,
        Material(),
    )


def floor_asset(half_m: float = 10.0, cells: int = 4) -> Asset:
    """A square in z = 0 of ``cells`` x ``cells`` quads, facing up."""
    n = cells + 1
    x, y = np.meshgrid(
        np.linspace(-half_m, half_m, n), np.linspace(-half_m, half_m, n), indexing="ij"
    )
    i = np.arange(n * n).reshape(n, n)[:-1, :-1].ravel()
    triangles = np.concatenate(
        (np.stack((i, i + n, i + n + 1), 1), np.stack((i, i + n + 1, i + 1), 1))
    )
    return Asset.of("floor", [primitive(np.stack((x, y, 0 * x), -1).reshape(-1, 3), triangles)])


def box_primitive(half: npt.ArrayLike) -> Primitive:
    """A box about the origin with a flat normal per side."""
    points: list[FloatArray] = []
    normals: list[FloatArray] = []
    triangles: list[tuple[int, int, int]] = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            n = np.eye(3)[axis] * sign
            u = np.roll(n, 1) * sign
            v = np.cross(n, u)
            first = len(points)
            points += [(n + a * u + b * v) * half for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
            normals += [n] * 4
            triangles += [(first, first + 1, first + 2), (first, first + 2, first + 3)]
    return primitive(np.array(points), triangles, np.array(normals))


def sphere_primitive(radius: float, rings: int = 48) -> Primitive:
    """A sphere with the normals of the true one."""
    lat, lon = np.meshgrid(
        np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, 2 * rings + 1), indexing="ij"
    )
    n = np.stack((np.sin(lat) * np.cos(lon), np.sin(lat) * np.sin(lon), np.cos(lat)), -1).reshape(
        -1, 3
    )
    w = 2 * rings + 1
    i = np.arange((rings + 1) * w).reshape(rings + 1, w)[:-1, :-1].ravel()
    triangles = np.concatenate(
        (np.stack((i, i + w, i + w + 1), 1), np.stack((i, i + w + 1, i + 1), 1))
    )
    return primitive(radius * n, triangles, n)


def place(
    p_m: npt.ArrayLike = (0.0, 0.0, 0.0), rotation: FloatArray | None = None, scale: float = 1.0
) -> FloatArray:
    """A matrix (4, 4)."""
    m = np.eye(4)
    m[:3, :3] = scale * (np.eye(3) if rotation is None else rotation)
    m[:3, 3] = p_m
    return m


def scene_of(*objects: SceneObject, beacons: Sequence[Beacon] = ()) -> Scene:
    """A scene of these objects."""
    return Scene("test", objects, Environment(np.ones(3), np.ones(3)), beacons=tuple(beacons))


def thing(name: str, asset: Asset, m: FloatArray | None = None, **more: Any) -> SceneObject:
    """An object."""
    return SceneObject(name, asset, np.eye(4) if m is None else m, **more)


def floor(**more: Any) -> SceneObject:
    """The floor: semantic 1, instance 10."""
    return thing("floor", floor_asset(), semantic=1, instance=10, **more)


def box(name: str, half: npt.ArrayLike, p_m: npt.ArrayLike, **more: Any) -> SceneObject:
    """A box: semantic 6, instance 20 unless said."""
    return thing(
        name,
        Asset.of(name, [box_primitive(half)]),
        place(p_m),
        **({"semantic": 6, "instance": 20} | more),
    )


def posed(
    name: str,
    asset: Asset,
    T_world_body: Transform,
    half_size_m: tuple[float, float, float] = (0.2, 0.2, 0.1),
    **more: Any,
) -> Posed:
    """A rigid actor in its body axes: semantic 41, instance 77."""
    m = place(T_world_body.p_m, T_world_body.rotation())
    return Posed(
        name, asset, m @ asset.asset_from_node(), 41, 77, T_world_body, half_size_m, **more
    )


def human(name: str, capsules: npt.ArrayLike) -> Posed:
    """An actor of capsules only: semantic 42, instance 78."""
    asset = Asset(name, (Node("root"),))
    k = np.asarray(capsules, np.float64).reshape(-1, 8)
    return Posed(
        name, asset, np.eye(4)[None], 42, 78, Transform.identity(), (0.3, 0.3, 0.9), capsules=k
    )


def opened_points(path: Path) -> FloatArray:
    """Vertices (n, 3) of a point cloud as a reader that shares no code with ours finds them."""
    cloud = trimesh.load(path)
    assert isinstance(cloud, trimesh.PointCloud)
    return np.asarray(cloud.vertices)
