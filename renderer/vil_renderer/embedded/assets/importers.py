"""Models from files of any format that we read.

glTF by ourselves, OBJ, PLY, STL and COLLADA through trimesh.

Work that trimesh leaves to its callers is done here: units and axes of COLLADA, textures one folder
up, the direction of v, and the refusal to go on without a texture or material that the file names.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import AssetError
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.foreign.file_resolver import AssetFileResolver
from vil_renderer.embedded.assets.foreign.headers import read_collada_header, refuse_unless_mesh
from vil_renderer.embedded.assets.foreign.materials import MaterialConverter, linear_colours
from vil_renderer.embedded.assets.gltf.container import read_file
from vil_renderer.embedded.assets.gltf.images import PictureBudget
from vil_renderer.embedded.assets.gltf.meshes import mirrored, with_tangents
from vil_renderer.embedded.assets.gltf.nodes import decompose
from vil_renderer.embedded.assets.gltf.read import Y_UP, load_gltf
from vil_renderer.embedded.assets.gltf.surface import (
    faceted,
    repaired_normals,
    vertex_normals,
    welded,
)
from vil_renderer.embedded.assets.model import Asset, Node, Primitive
from vil_renderer.embedded.optional_imports import load_native

FORMATS: Final = (".glb", ".gltf", ".obj", ".ply", ".stl", ".dae")

_LARGEST: Final = 1e12
_LOADERS: Final = {
    ".obj": "load_obj",
    ".ply": "load_ply",
    ".stl": "load_stl",
    ".dae": "load_collada",
}
AXES: Final[Mapping[str, FloatArray]] = {
    # COLLADA's table of axes; its "in", towards the viewer, is forward.
    "x": np.array(
        [[0.0, 0.0, 1.0, 0.0], [0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    ),
    "y": Y_UP,
    "z": np.eye(4),
    "-y": np.array(
        [[0.0, 0.0, 1.0, 0.0], [-1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    ),
}
"""Rotations to our axes by the axis that points up."""


def load_asset(
    path: Path,
    unit_m: float | None = None,
    up: Literal["y", "z", "-y"] = "z",
    texture_limit_px: int | None = None,
    budget: PictureBudget | None = None,
) -> Asset:
    """Read a model.

    Normals that the file leaves out are those of the triangles; of a PLY, whose scans are smooth
    surfaces, those around each vertex. Colours of OBJ, PLY and COLLADA are taken as displayed ones.

    Args:
        path: .glb, .gltf, .obj, .ply, .stl or .dae.
        unit_m: length of the file's unit; None = that of the .dae, else one metre.
        up: the axis of an .obj, .ply or .stl that points up: z = its axes are ours; y = as glTF (z
            forward); -y = as a camera (y down, z forward). The other formats say it themselves.
        texture_limit_px: longest side of a texture, None = 4096.
        budget: of the scene, for its decoded pictures; None = the file has one of its own.

    Raises:
        AssetError: the file or one it refers to is broken, absent or unsupported; the message names
            it.
        RendererError: a library that the format needs is not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise AssetError(
            f"{path.name}: {suffix or 'no extension'} is not read; formats: {', '.join(FORMATS)}"
        )
    if suffix in (".glb", ".gltf"):
        asset = load_gltf(path, texture_limit_px, budget)
        if unit_m is None:
            return asset
        return replace(asset, root=_scaled(unit_m) @ asset.root)
    data = read_file(path, path.name)
    axis: str = up
    if suffix == ".dae":
        header = read_collada_header(data, path.name)
        axis = header.up
        if unit_m is None:
            unit_m = header.unit_m
    elif suffix == ".ply":
        refuse_unless_mesh(data, path.name)
    loaded = _load(path, data, suffix)
    nodes = _nodes(
        loaded,
        path,
        suffix == ".ply",
        MaterialConverter(path.name, texture_limit_px, budget or PictureBudget()),
    )
    if unit_m is None:
        unit_m = 1.0
    return Asset(path.stem, nodes, _scaled(unit_m) @ AXES[axis], origin=path.name)


def _scaled(unit_m: float) -> FloatArray:
    return np.diag([unit_m, unit_m, unit_m, 1.0])


def _load(path: Path, data: bytes, suffix: str) -> dict[str, Any]:
    """Load a file with trimesh; return the parts of its meshes by name, and their places."""
    module = "trimesh.exchange." + suffix[1:]
    what = f"{suffix} files"
    loader = getattr(load_native(module, "trimesh", what), _LOADERS[suffix])
    if suffix == ".dae":
        load_native("collada", "pycollada", what)
    resolver = AssetFileResolver(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # numpy's warning that it stopped in the middle of the numbers.
            warnings.filterwarnings("error", message="string or file could not be read")
            loaded: dict[str, Any] = loader(io.BytesIO(data), resolver=resolver)
    # Its loaders raise any exception for broken files.
    except Exception as exc:
        raise AssetError(f"{path.name}: broken: {type(exc).__name__}: {str(exc)[:300]}") from exc
    if resolver.problem is not None:
        raise resolver.problem
    return loaded


def _nodes(
    loaded: dict[str, Any], path: Path, smooth: bool, materials: MaterialConverter
) -> tuple[Node, ...]:
    meshes: Mapping[str, Any] = loaded.get("geometry", {path.stem: loaded})
    places = loaded.get("graph") or [{"geometry": name} for name in meshes]
    nodes: list[Node] = []
    for entry in places:
        name = str(entry["geometry"])
        part = _primitive(meshes[entry["geometry"]], f"{path.name}: {name[:60]}", smooth, materials)
        if part is None:
            continue
        found = decompose(np.asarray(entry.get("matrix", np.eye(4)), np.float64))
        if found is None:
            raise AssetError(
                f"{path.name}: {name[:60]}: its matrix shears or flattens: apply it to the mesh"
            )
        p, q_xyzw, scale = found
        if scale[0] < 0.0:
            part = mirrored(part)
        nodes.append(Node(name, -1, p, q_xyzw, scale, (part,)))
    if not nodes:
        raise AssetError(f"{path.name}: holds no triangles")
    return tuple(nodes)


def _primitive(
    mesh: Mapping[str, Any], label: str, smooth: bool, materials: MaterialConverter
) -> Primitive | None:
    """Convert one mesh of trimesh; None if it has no triangles."""
    if mesh.get("faces") is None or len(mesh["faces"]) == 0:
        return None
    arrays, triangles = _arrays(mesh, label)
    face_colour = mesh.get("face_colors")
    if "normal" in arrays:
        arrays["normal"] = repaired_normals(arrays["normal"], arrays["p_m"], triangles)
        arrays, triangles = welded(arrays, triangles)
    elif smooth and face_colour is None:
        arrays["normal"] = vertex_normals(arrays["p_m"], triangles)
    else:
        if face_colour is not None:
            arrays = {name: array[triangles.reshape(-1)] for name, array in arrays.items()}
            displayed = _table(face_colour, (3, 4), len(triangles), f"{label}: colours")
            arrays["colour"] = np.repeat(linear_colours(displayed), 3, axis=0)
            triangles = np.arange(triangles.size, dtype=np.uint32).reshape(-1, 3)
        arrays, triangles = faceted(arrays, triangles)
    material = materials.material(getattr(mesh.get("visual"), "material", None))
    return with_tangents(Primitive(triangles=triangles, material=material, **arrays))


def _arrays(mesh: Mapping[str, Any], label: str) -> tuple[dict[str, Any], Any]:
    """Return checked arrays by the names that :class:`Primitive` gives them, and triangles."""
    p_m = _finite(
        _table(mesh["vertices"], (3,), None, f"{label}: positions"), f"{label}: positions"
    )
    faces = np.asarray(mesh["faces"])
    if faces.ndim == 2 and faces.shape[1] == 4:
        faces = faces[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise AssetError(f"{label}: faces are no triangles")
    if faces.min() < 0 or faces.max() >= len(p_m):
        raise AssetError(
            f"{label}: a face refers to vertex {faces.max():,}, but there are {len(p_m):,}"
        )
    arrays: dict[str, Any] = {"p_m": p_m}
    for key, name, width, values in (
        ("normal", "normals", 3, mesh.get("vertex_normals")),
        ("uv", "texture coordinates", 2, getattr(mesh.get("visual"), "uv", None)),
    ):
        if values is not None:
            what = f"{label}: {name}"
            arrays[key] = _finite(_table(values, (width,), len(p_m), what), what)
    if "uv" in arrays:
        # These formats count v from the bottom row.
        arrays["uv"][:, 1] = 1.0 - arrays["uv"][:, 1]
    else:
        arrays["uv"] = np.zeros((len(p_m), 2), np.float32)
    colour = mesh.get("vertex_colors")
    if colour is not None:
        arrays["colour"] = linear_colours(_table(colour, (3, 4), len(p_m), f"{label}: colours"))
    return arrays, faces.astype(np.uint32)


def _table(values: Any, widths: tuple[int, ...], rows: int | None, what: str) -> npt.NDArray[Any]:
    """Return numbers in rows, checked against broken files; ``what`` begins the message."""
    try:
        table = np.asarray(values)
    except ValueError:
        table = np.empty((0, 0), object)
    if table.dtype.kind not in "iuf" or table.ndim != 2 or table.shape[1] not in widths:
        raise AssetError(f"{what} are not {' or '.join(map(str, widths))} numbers each")
    if rows is not None and len(table) != rows:
        raise AssetError(f"{what}: {len(table):,} where {rows:,} belong")
    return table


def _finite(table: npt.NDArray[Any], what: str) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        values = table.astype(np.float32)
    # Also false for NaN.
    if not (np.abs(values) <= _LARGEST).all():
        raise AssetError(f"{what} are not finite")
    return values
