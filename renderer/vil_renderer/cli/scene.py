"""``vil-bridge scene``: check, list, sheet, cloud, bake, import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vil_renderer.cli.scene_import import import_
from vil_renderer.cli.scene_sheet import sheet

scene = typer.Typer(help="Scenes of the embedded renderer.", no_args_is_help=True)


scene.command()(sheet)
scene.command("import")(import_)


@scene.callback()
def _scenes() -> None:
    """Scenes of the embedded renderer."""


@scene.command()
def check(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Scene file (YAML), or a shipped scene.")
    ],
) -> None:
    """Read a scene with all its files: 0 = good, 2 = bad, with every problem and its place."""
    from vil_renderer.embedded.scenefile import check_scene

    lines = check_scene(file)
    typer.echo(f"{file} is good")
    for line in lines:
        typer.echo(f"  {line}")


@scene.command("list")
def list_scenes() -> None:
    """List the shipped scenes."""
    from vil_renderer.embedded.scenefile import scene_names

    for name in scene_names():
        typer.echo(name)


@scene.command()
def cloud(
    scene: Annotated[
        str, typer.Argument(metavar="SCENE", help="Scene file (YAML), or a shipped scene.")
    ],
    out: Annotated[Path, typer.Argument(metavar="FILE", help="PLY to write, binary.")],
    resolution_m: Annotated[
        float, typer.Option("--resolution", min=0.001, help="Cell, or spacing of points, metres.")
    ] = 0.1,
    voxels: Annotated[
        bool,
        typer.Option("--voxels", help="Write centres of occupied cells instead of surface points."),
    ] = False,
    centre_m: Annotated[
        tuple[float, float, float],
        typer.Option("--centre", help="Centre of the box, world, metres."),
    ] = (0.0, 0.0, 0.0),
    size_m: Annotated[
        tuple[float, float, float],
        typer.Option("--size", help="Full lengths of the box, metres; 0 0 0 = everything."),
    ] = (0.0, 0.0, 0.0),
    labels: Annotated[
        bool, typer.Option("--labels", help="Write normals and ids with the points.")
    ] = False,
) -> None:
    """Write the solid surfaces of a scene, or of a box in it, as a point cloud."""
    import numpy as np

    from vil_renderer.embedded.geometry.point_cloud import Box, sample_cloud, voxel_cloud, write_ply
    from vil_renderer.embedded.scenefile import load_scene

    box = Box(np.array(centre_m), np.array(size_m)) if any(size_m) else None
    made = (voxel_cloud if voxels else sample_cloud)(load_scene(scene), resolution_m, box)
    write_ply(out, made, labels=labels)
    typer.echo(f"wrote {len(made.p_m)} points to {out}")


@scene.command()
def bake(
    scene: Annotated[
        str, typer.Argument(metavar="SCENE", help="Scene file (YAML), or a shipped scene.")
    ],
) -> None:
    """Work out the light of a scene over all bounces and store it, for renderers with --baked."""
    from vil_renderer.embedded.engine.vertices import static_mesh
    from vil_renderer.embedded.lighting.baked.store import stored_light
    from vil_renderer.embedded.scenefile import load_scene

    loaded = load_scene(scene)

    def show(step: str, share: float) -> None:
        typer.echo(f"\r{step} {100.0 * share:3.0f} %   ", nl=False, err=True)

    made = stored_light(loaded, static_mesh(loaded), show)
    typer.echo(err=True)
    lights = ", ".join(source.name for source in made.sources)
    typer.echo(
        f"{loaded.name}: {len(made.light)} places, exposure x {made.gain:.2f}, lights: {lights}"
    )
