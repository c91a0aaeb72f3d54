"""``vil-bridge scene``: check, list, sheet, cloud."""

from __future__ import annotations

from typing import Annotated

import typer

from vil_bridge.cli.point_cloud import cloud
from vil_bridge.cli.scene_sheet import sheet

__all__ = ["scene"]

scene = typer.Typer(help="Scenes of the embedded renderer.", no_args_is_help=True)


scene.command()(sheet)
scene.command()(cloud)


@scene.callback()
def _scenes() -> None:
    """Scenes of the embedded renderer."""


@scene.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Scene file (YAML), or a shipped scene.")],
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
