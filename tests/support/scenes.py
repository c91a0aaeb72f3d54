"""Shipped scenes, built once, and rays through their triangles that share no code with ours."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import trimesh
from embreex.mesh_construction import TriangleMesh
from embreex.rtcore_scene import EmbreeScene

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Primitive
from vil_renderer.embedded.scene import Scene
from vil_renderer.embedded.scenes import SCENES

INDOORS = ("hall", "lab", "course", "alphapilot", "garage")

FREE: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "hall": ((-3.0, -2.5, 0.8), (1.0, 2.5, 2.5)),
    "lab": ((-2.2, -1.6, 0.3), (2.2, 1.6, 2.4)),
    "yard": ((-8.0, -8.0, 0.6), (8.0, 8.0, 10.0)),
    "garage": ((-16.0, -6.9, 0.4), (16.0, -3.6, 2.5)),
    "street": ((-30.0, -1.2, 0.4), (30.0, 1.2, 12.0)),
    "forest": ((-48.0, -48.0, 17.0), (48.0, 48.0, 29.0)),
    "empty": ((-90.0, -90.0, 0.1), (90.0, 90.0, 90.0)),
}
"""Lowest and highest corner of the volumes that are free to fly in."""


@cache
def timed(name: str) -> tuple[Scene, float]:
    """A scene and the CPU seconds that it took, textures that no scene before it needed
    included.
    """
    started = time.process_time()
    scene = SCENES[name]()
    return scene, time.process_time() - started


def built(name: str) -> Scene:
    return timed(name)[0]


def primitives(scene: Scene) -> list[tuple[int, FloatArray, Primitive]]:
    """Object index, matrix to the world and primitive of everything."""
    return [
        (index, thing.world_from_asset @ matrix, part)
        for index, thing in enumerate(scene.objects)
        for node, matrix in zip(thing.asset.nodes, thing.asset.asset_from_node(), strict=True)
        for part in node.primitives
    ]


@cache
def solid(name: str) -> trimesh.Trimesh:
    """All triangles in the world; ``owner`` and ``two_sided`` of each are face attributes."""
    parts = primitives(built(name))
    counts = np.cumsum([0] + [len(part.p_m) for _, _, part in parts])[:-1]
    sizes = [len(part.triangles) for _, _, part in parts]
    return trimesh.Trimesh(
        np.concatenate([part.p_m @ m[:3, :3].T + m[:3, 3] for _, m, part in parts]),
        np.concatenate(
            [
                part.triangles.astype(np.int64) + n
                for (_, _, part), n in zip(parts, counts, strict=True)
            ]
        ),
        process=False,
        face_attributes={
            "owner": np.repeat([index for index, _, _ in parts], sizes),
            "two_sided": np.repeat([part.material.double_sided for _, _, part in parts], sizes),
        },
    )


def of_faces(name: str, attribute: str) -> npt.NDArray[Any]:
    """An attribute (triangles,) of ``solid``."""
    return np.asarray(solid(name).face_attributes[attribute])


@cache
def _embree(name: str) -> EmbreeScene:
    scene = EmbreeScene(robust=True)
    TriangleMesh(scene, solid(name).triangles.astype(np.float32))
    return scene


def first_hits(
    name: str, origin: FloatArray, direction: FloatArray
) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Triangle (-1 = none) and distance (infinite = none) of what unit rays (n, 3) meet first."""
    found = _embree(name).run(origin.astype(np.float32), direction.astype(np.float32), output=1)
    triangle: npt.NDArray[np.int32] = found["primID"]
    return triangle, np.where(triangle < 0, np.inf, found["tfar"])


def owners(name: str, triangle: npt.NDArray[np.int32]) -> set[str]:
    """Names of the objects that triangles belong to."""
    indices = np.unique(of_faces(name, "owner")[triangle[triangle >= 0]])
    return {built(name).objects[int(i)].name for i in indices}


def directions(count: int, seed: int = 0) -> FloatArray:
    d = np.random.default_rng(seed).normal(size=(count, 3))
    unit: FloatArray = d / np.linalg.norm(d, axis=1, keepdims=True)
    return unit
