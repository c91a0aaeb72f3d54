"""Primitives as interleaved vertices, and the static scene as one buffer cut into chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.model import Material, Primitive, has_own_coordinates, uses_of
from vil_renderer.embedded.scene import Scene, SceneObject

STATIC_VERTEX: Final = np.dtype(
    [
        ("p", "3f4"),
        ("normal", "3f4"),
        ("uv", "2f4"),
        ("light", "4u1"),
        ("colour", "4u1"),
        ("ids", "u4"),
    ]
)
MODEL_VERTEX: Final = np.dtype([("p", "3f4"), ("normal", "3f4"), ("uv", "2f4"), ("colour", "4u1")])
SKIN_VERTEX: Final = np.dtype([*MODEL_VERTEX.descr, ("joints", "4u2"), ("weights", "4f4")])


@dataclass(frozen=True, slots=True, eq=False)
class MeshChunks:
    """Parts of the static mesh that are culled together: one material of one object each.

    Attributes:
        material: index into the mesh's materials (k,). centre_m: (k, 3). radius_m: (k,).
        start, stop: rows of the triangles, (k,). name: of each one's object. layer: name of each
            one's layer.
        proxy: True for those that replace splats, (k,).
        gone: True for those of objects that were taken out of the scene, (k,); changed in place.
    """

    material: npt.NDArray[np.intp]
    centre_m: FloatArray
    radius_m: FloatArray
    start: npt.NDArray[np.intp]
    stop: npt.NDArray[np.intp]
    name: tuple[str, ...]
    layer: tuple[str, ...]
    casts_shadow: npt.NDArray[np.bool_]
    proxy: npt.NDArray[np.bool_]
    gone: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class StaticMesh:
    """Everything that never moves, in world coordinates.

    Attributes:
        vertices: :data:`STATIC_VERTEX` (n,), light not yet baked. triangles: uint32 (m, 3).
        materials: with the defines of their vertices, see :func:`colour_defines`.
        atlas_uv: place of each vertex in the atlas of baked light, 0..1, float32 (n, 2); None = it
            has none.
        uv1: second texture coordinates, float32 (n, 2); None = no material reads them.
    """

    vertices: npt.NDArray[np.void]
    triangles: npt.NDArray[np.uint32]
    materials: tuple[tuple[Material, tuple[str, ...]], ...]
    chunks: MeshChunks
    atlas_uv: npt.NDArray[np.float32] | None = None
    uv1: npt.NDArray[np.float32] | None = None


def transformed_uv(part: Primitive) -> npt.NDArray[np.float32]:
    """Return texture coordinates, float32 (n, 2).

    Transformed if all maps of the material share them, else the first.

    Maps that differ are transformed by the shader, which reads :func:`second_uv` besides.
    """
    m = part.material
    uses = list(uses_of(m).values())
    if not uses or has_own_coordinates(m):
        return part.uv
    use = uses[0]
    uv = second_uv(part) if use.uv_set == 1 else part.uv
    return (uv @ use.transform[:, :2].T + use.transform[:, 2]).astype(np.float32)


def second_uv(part: Primitive) -> npt.NDArray[np.float32]:
    """Return the second texture coordinates, float32 (n, 2).

    The first ones if there are no others.
    """
    return part.uv if part.uv1 is None else part.uv1


def colour_defines(part: Primitive) -> tuple[str, ...]:
    """Return the shader's defines for the colours of vertices.

    Their alpha counts unless the material is opaque.
    """
    if part.colour is None:
        return ()
    clear = part.material.alpha != "opaque" and bool((part.colour[:, 3] < 255).any())
    return ("VERTEX_COLOUR", "VERTEX_ALPHA") if clear else ("VERTEX_COLOUR",)


def both_sides(part: Primitive) -> Primitive:
    """Return a double-sided surface with its back as a surface of its own, which faces and is lit
    the other way.

    The back comes first: seen through the front of something translucent, it lies behind.
    """
    if not part.material.double_sided:
        return part
    twice: dict[str, Any] = {
        name: np.concatenate((values, values))
        for name in ("p_m", "uv", "uv1", "colour", "joints", "weights", "targets")
        if (values := getattr(part, name)) is not None
    }
    back = part.triangles[:, ::-1] + np.uint32(len(part.p_m))
    normal = np.concatenate((part.normal, -part.normal))
    if "targets" in twice:
        twice["targets"][len(part.p_m) :, :, 1] *= -1.0
    return replace(
        part, normal=normal, tangent=None, triangles=np.concatenate((back, part.triangles)), **twice
    )


def _fill(rows: npt.NDArray[np.void], part: Primitive) -> None:
    rows["uv"] = transformed_uv(part)
    rows["colour"] = 255 if part.colour is None else part.colour


def model_vertices(part: Primitive, *, skinned: bool) -> npt.NDArray[np.void]:
    """Return vertices (n,).

    :data:`MODEL_VERTEX` in their node's axes, or :data:`SKIN_VERTEX` with joints.
    """
    rows = np.zeros(len(part.p_m), SKIN_VERTEX if skinned else MODEL_VERTEX)
    rows["p"] = part.p_m
    rows["normal"] = part.normal
    _fill(rows, part)
    if skinned:
        rows["joints"] = part.joints
        rows["weights"] = part.weights
    return rows


def static_mesh(scene: Scene) -> StaticMesh:
    """Gather all objects that never move."""
    vertices: list[npt.NDArray[np.void]] = []
    triangles: list[npt.NDArray[np.uint32]] = []
    second: list[npt.NDArray[np.float32]] = []
    materials: dict[tuple[int, tuple[str, ...]], int] = {}
    listed: list[tuple[Material, tuple[str, ...]]] = []
    table: list[tuple[int, SceneObject]] = []
    count = 0
    for thing in scene.objects:
        if thing.movable:
            continue
        for node, matrix in zip(thing.asset.nodes, thing.asset.asset_from_node(), strict=True):
            for part in node.primitives:
                if not len(part.p_m):
                    continue  # the surface of splats of which none is opaque
                key = (id(part.material), colour_defines(part))
                if key not in materials:
                    materials[key] = len(listed)
                    listed.append((part.material, key[1]))
                drawn = both_sides(part)
                rows, faces = _world_vertices(drawn, thing.world_from_asset, matrix)
                rows["ids"] = thing.semantic << 16 | thing.instance
                vertices.append(rows)
                second.append(second_uv(drawn))
                triangles.append(faces + np.uint32(count))
                table.append((materials[key], thing))
                count += len(rows)
    all_vertices = np.zeros(0, STATIC_VERTEX)
    all_triangles = np.zeros((0, 3), np.uint32)
    if vertices:
        all_vertices = np.concatenate(vertices)
        all_triangles = np.concatenate(triangles)
    proxy: tuple[str, ...] = ()
    if scene.splats:
        proxy = scene.splats.proxy
    uv1: npt.NDArray[np.float32] | None = None
    if any(has_own_coordinates(material) for material, _ in listed):
        uv1 = np.concatenate(second)
    chunks = _chunks(vertices, triangles, table, proxy)
    return StaticMesh(all_vertices, all_triangles, tuple(listed), chunks, uv1=uv1)


def _world_vertices(
    part: Primitive, world_from_asset: FloatArray, asset_from_node: FloatArray
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.uint32]]:
    rows = np.zeros(len(part.p_m), STATIC_VERTEX)
    m = world_from_asset @ asset_from_node
    rows["p"] = part.p_m @ m[:3, :3].T + m[:3, 3]
    # The cofactors carry normals through any scale; in a mirror they turn them inside out.
    sides = m[:3, :3]
    mirrored = np.linalg.det(sides) < 0.0
    cofactors = cross(sides[[1, 2, 0]], sides[[2, 0, 1]])
    if mirrored:
        cofactors = -cofactors
    normal = part.normal @ cofactors.T
    rows["normal"] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    _fill(rows, part)
    # Triangles are counter-clockwise in the asset already, where its nodes mirror them.
    triangles = part.triangles
    if np.linalg.det(world_from_asset[:3, :3]) < 0.0:
        triangles = triangles[:, ::-1]
    return rows, triangles


def _chunks(
    vertices: list[npt.NDArray[np.void]],
    triangles: list[npt.NDArray[np.uint32]],
    table: list[tuple[int, SceneObject]],
    proxy: tuple[str, ...],
) -> MeshChunks:
    low = np.array([v["p"].min(axis=0) for v in vertices]).reshape(-1, 3)
    high = np.array([v["p"].max(axis=0) for v in vertices]).reshape(-1, 3)
    stop = np.cumsum([len(t) for t in triangles], dtype=np.intp)
    start = stop
    if len(stop):
        start = np.concatenate(([0], stop[:-1])).astype(np.intp)
    return MeshChunks(
        material=np.array([material for material, _ in table], np.intp),
        centre_m=0.5 * (low + high),
        radius_m=0.5 * np.linalg.norm(high - low, axis=1),
        start=start,
        stop=stop,
        name=tuple(thing.name for _, thing in table),
        layer=tuple(thing.layer for _, thing in table),
        casts_shadow=np.array([thing.casts_shadow for _, thing in table], np.bool_),
        proxy=np.array([thing.name in proxy for _, thing in table], np.bool_),
        gone=np.zeros(len(table), np.bool_),
    )


_OF_VERTICES = ("p_m", "normal", "uv", "uv1", "tangent", "colour", "joints", "weights", "targets")


def in_drawing_order(part: Primitive) -> Primitive:
    """Return the surface with neighbouring vertices at neighbouring places, and triangles in the
    vertices' order.

    A vertex that several triangles share is shaded once while the renderer remembers it, and what
    it remembers is small (llvmpipe: 256 vertices by the low byte of their index). Reverse
    Cuthill-McKee keeps neighbours close.
    """
    from scipy.sparse import coo_matrix  # slow to import; many scenes have no mesh of a file
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    count = len(part.p_m)
    a, b, c = part.triangles.T.astype(np.int64)
    edges = np.concatenate((a, b, c, b, c, a)), np.concatenate((b, c, a, a, b, c))
    graph = coo_matrix((np.ones(len(edges[0]), np.int8), edges), shape=(count, count)).tocsr()
    order = reverse_cuthill_mckee(graph, symmetric_mode=True)
    place = np.empty(count, np.uint32)
    place[order] = np.arange(count, dtype=np.uint32)
    triangles = place[part.triangles]
    if part.material.alpha == "opaque":
        triangles = triangles[np.lexsort((triangles.max(axis=1), triangles.min(axis=1)))]
    values = {name: getattr(part, name) for name in _OF_VERTICES}
    return replace(
        part, triangles=triangles, **{k: v[order] for k, v in values.items() if v is not None}
    )
