"""``vil-bridge scene import``: a filmed hall becomes a scene that is aligned with the room."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.runtime.exit_codes import Exit

if TYPE_CHECKING:
    from vil_renderer.scan.scan_import import ImportedScan


def import_(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER|FILM", help="Folder of COLMAP or nerfstudio, or a film of the hall."
        ),
    ],
    measured: Annotated[
        Path,
        typer.Argument(
            metavar="POINTS", help="CSV of points measured in the room: name,x_m,y_m,z_m,check."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="SCENE", help="Scene file to write.")],
    splats: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Splats as PLY; none = looked for in the folder."
        ),
    ] = None,
    proxy: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Mesh of the same scan; none = looked for in the folder.",
        ),
    ] = None,
    picks: Annotated[
        Path | None, typer.Option(help="CSV of points picked in pictures: name,picture,u_px,v_px.")
    ] = None,
    json_out: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Align a scan with the room by AprilTags, write it as a scene, and state its error."""
    from vil_renderer.scan.film import is_film, poses_of_film
    from vil_renderer.scan.scan_import import import_scan, write_scene

    def show(step: str, share: float) -> None:
        typer.echo(f"\r{step} {100.0 * share:3.0f} %   ", nl=False, err=True)

    folder = source
    if is_film(source):
        folder = out.with_name(f"{out.stem}_scan")
        poses_of_film(source, folder, show)
    scan = import_scan(
        folder,
        measured,
        picks=picks,
        splats=splats,
        proxy=proxy,
        progress=lambda share: show("looking for tags", share),
    )
    typer.echo(err=True)
    _show(scan, json_out=json_out)
    if scan.splats is None and scan.proxy is None and is_film(source):
        typer.echo(
            f"train splats on {folder}, put them there as splat.ply, then: scene import "
            f"{folder} {measured}",
            err=True,
        )
        raise typer.Exit(Exit.OK)
    write_scene(scan, out)
    typer.echo(f"wrote {out}", err=json_out)


def _show(scan: ImportedScan, *, json_out: bool) -> None:
    """Print the errors of an alignment in words, and for programs."""
    import json

    from vil_renderer.scan.scan_import import report

    for line in report(scan):
        typer.echo(line, err=json_out)
    if json_out:
        typer.echo(json.dumps(scan.figures()))
