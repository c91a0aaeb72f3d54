"""``vil-bridge scene cloud``: a scene as points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["cloud"]


def cloud(
    scene: Annotated[str, typer.Argument(metavar="SCENE", help="Scene file (YAML), or a shipped scene.")],
    out: Annotated[Path, typer.Argument(metavar="FILE", help="PLY to write, binary.")],
    resolution_m: Annotated[
        float, typer.Option("--resolution", min=0.001, help="Cell, or spacing of points, metres.")
    ] = 0.1,
    voxels: Annotated[
        bool, typer.Option("--voxels", help="Write centres of occupied cells instead of surface points.")
    ] = False,
    centre_m: Annotated[
        tuple[float, float, float], typer.Option("--centre", help="Centre of the box, world, metres.")
    ] = (0.0, 0.0, 0.0),
    size_m: Annotated[
        tuple[float, float, float], typer.Option("--size", help="Full lengths of the box, metres; 0 0 0 = everything.")
    ] = (0.0, 0.0, 0.0),
    labels: Annotated[bool, typer.Option("--labels", help="Write normals and ids with the points.")] = False,
) -> None:
    """Write the solid surfaces of a scene, or of a box in it, as a point cloud."""
    import numpy as np

    from vil_renderer.embedded.geometry.point_cloud import Box, sample_cloud, voxel_cloud, write_ply
    from vil_renderer.embedded.scenefile import load_scene

    box = Box(np.array(centre_m), np.array(size_m)) if any(size_m) else None
    made = (voxel_cloud if voxels else sample_cloud)(load_scene(scene), resolution_m, box)
    write_ply(out, made, labels=labels)
    typer.echo(f"wrote {len(made.p_m)} points to {out}")
