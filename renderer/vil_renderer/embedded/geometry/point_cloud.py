"""Point clouds of a scene, as binary PLY.

Sampled from its surfaces, or the occupied cells of a grid.

Both hold solid objects, movable ones at rest, and no actors.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.errors import RendererError
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.ply import ply_bytes
from vil_renderer.embedded.assets.model import Float32Array
from vil_renderer.embedded.geometry.voxels import Box, Grid, all_triangles, near_cells
from vil_renderer.embedded.scene import Scene, Triangles

__all__ = ["Box", "Cloud", "sample_cloud", "voxel_cloud", "write_ply"]

MOST_POINTS: Final = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Cloud:
    """Points.

    Attributes:
        p_m: float32 (n, 3), world.
        normal: float32 (n, 3), of the surface at the point or nearest to it.
        semantic, instance: uint16 (n,), of that surface.
    """

    p_m: Float32Array
    normal: Float32Array
    semantic: npt.NDArray[np.uint16]
    instance: npt.NDArray[np.uint16]


def sample_cloud(scene: Scene, spacing_m: float, box: Box | None = None, *, seed: int = 0) -> Cloud:
    """Sample points on the surfaces by area, one per square of ``spacing_m``.

    Args:
        scene: the scene.
        spacing_m: side of that square.
        box: only points inside; None = everything.
        seed: of where the points fall.

    Raises:
        RendererError: more than 20 million points, or a spacing that is not positive.
    """
    if not spacing_m > 0.0:
        raise RendererError(f"the spacing of points must be positive, not {spacing_m} m")
    triangles = all_triangles(scene)
    corners = triangles.p_m[triangles.triangles].astype(np.float64)
    if box is not None:
        lower = box.centre_m - 0.5 * box.size_m
        upper = box.centre_m + 0.5 * box.size_m
        meets = ((corners.max(axis=1) >= lower) & (corners.min(axis=1) <= upper)).all(axis=1)
    else:
        meets = np.ones(len(corners), bool)
    areas = np.where(meets, 0.5 * np.linalg.norm(_normals(corners), axis=1), 0.0)
    count = areas.sum() / spacing_m**2
    if count > MOST_POINTS:
        raise RendererError(
            f"{count:.3g} points are too many (at most {MOST_POINTS:,}): choose a wider spacing"
        )
    rng = np.random.default_rng(seed)
    places = (
        (np.arange(round(count)) + rng.random(round(count))) / max(round(count), 1) * areas.sum()
    )
    chosen = np.minimum(
        np.searchsorted(np.cumsum(areas), places, side="right"), max(len(areas) - 1, 0)
    )
    p_m = _within(corners[chosen], rng)
    inside = slice(None) if box is None else box.holds(p_m)
    return _labelled(scene, triangles, chosen[inside], p_m[inside])


def voxel_cloud(scene: Scene, resolution_m: float, box: Box | None = None) -> Cloud:
    """Return centres of the cells where a sphere of ``resolution_m`` meets a surface, as
    Flightmare's cloud.

    So surfaces come about two cells thick; the inside of closed things is empty.

    Args:
        scene: the scene.
        resolution_m: side of a cell.
        box: volume of the cells; None = the whole scene.

    Raises:
        RendererError: too many cells near surfaces, or a resolution that is not positive.
    """
    triangles = all_triangles(scene)
    grid = Grid.over(box or Box.around(triangles, 2.0 * resolution_m), resolution_m)
    near = near_cells(triangles, grid, resolution_m)
    return _labelled(scene, triangles, near.triangle, grid.centres(near.cell))


def write_ply(path: Path, cloud: Cloud, *, labels: bool = False) -> None:
    """Write binary little-endian PLY 1.0: x, y, z as float.

    The file appears complete or not at all.

    Args:
        path: of the file; its folder is made when it is missing.
        cloud: the points.
        labels: with nx, ny, nz (float) and semantic, instance (ushort) too.

    Raises:
        RendererError: it cannot be written there.
    """
    fields = [(axis, "<f4") for axis in "xyz"]
    columns = list(cloud.p_m.T)
    if labels:
        fields += [
            ("nx", "<f4"),
            ("ny", "<f4"),
            ("nz", "<f4"),
            ("semantic", "<u2"),
            ("instance", "<u2"),
        ]
        columns += [*cloud.normal.T, cloud.semantic, cloud.instance]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(path, ply_bytes(fields, columns))
    except OSError as exc:
        raise RendererError(f"cannot write the point cloud {path}: {exc}") from exc


def _write_whole(path: Path, content: bytes) -> None:
    """Write under another name first: a client that waits for the file must not read half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def _within(corners: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw a uniformly random point (n, 3) in each triangle (n, 3, 3)."""
    root = np.sqrt(rng.random((len(corners), 1)))
    v = rng.random((len(corners), 1))
    return (
        (1.0 - root) * corners[:, 0] + root * (1.0 - v) * corners[:, 1] + root * v * corners[:, 2]
    )


def _labelled(
    scene: Scene, triangles: Triangles, chosen: npt.NDArray[np.intp], p_m: FloatArray
) -> Cloud:
    normal = _normals(triangles.p_m[triangles.triangles[chosen]])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    owner = triangles.owner[chosen]
    semantic = np.array([thing.semantic for thing in scene.objects], np.uint16)
    instance = np.array([thing.instance for thing in scene.objects], np.uint16)
    return Cloud(
        p_m.astype(np.float32), normal.astype(np.float32), semantic[owner], instance[owner]
    )


def _normals(corners: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return twice the area of triangles (n, 3, 3) along their normals."""
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
