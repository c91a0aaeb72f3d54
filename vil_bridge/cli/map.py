"""``vil-bridge map``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.connect import TokenFile, Where, reach
from vil_bridge.cli.disk_errors import explained_disk_errors
from vil_bridge.cli.options import Sets
from vil_bridge.runtime.exit_codes import Exit

if TYPE_CHECKING:
    from vil_bridge.services.maps.view import MapView

_FILE_S = 60.0
"""A large map takes seconds to write."""


def map_(
    where: Where = "http://127.0.0.1:8080",
    name: Annotated[str | None, typer.Option(help="Name of the map; none = the only one.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write: .ot, .bt or .ply; none = list the maps."),
    ] = None,
    sets: Sets = None,
    token_file: TokenFile = None,
) -> None:
    """Fetch an occupancy map of a running bridge, for `vil-bridge plan --map` and programs that
    read OctoMap.

    Ends with 3 when no bridge answers or it has no such map.
    """
    from vil_bridge.services.maps.view import MapView
    from vil_bridge.web.client.connection import path_of
    from vil_bridge.world.occupancy.map_file import check_map_file

    if out is not None:
        check_map_file(out)
    bridge = reach(where, sets, token_file, timeout_s=_FILE_S)
    with bridge.explained():
        views = bridge.get(dict[str, MapView], path_of("maps"))
        if out is None:
            typer.echo(
                "\n".join(_line(known, view) for known, view in views.items())
                or "the bridge has no maps"
            )
            return
        chosen = _chosen(name, list(views))
        content = bridge.ask("GET", path_of("maps", chosen, f"map{out.suffix}"))
    with explained_disk_errors(out, "choose another place with --out"):
        out.write_bytes(content)
    typer.echo(f"wrote {_line(chosen, views[chosen])} to {out}")


def _chosen(name: str | None, known: list[str]) -> str:
    """Return the name of the map.

    Raises:
        typer.Exit: the bridge has no such map, or several.
    """
    if name in known or (name is None and len(known) == 1):
        return name or known[0]
    what = f"it has no map {name or ''}".rstrip()
    if name is None and known:
        what = "name one with --name"
    listed = ", ".join(known) or "none: add the section `maps` to its configuration"
    typer.echo(f"{what}; the bridge's maps: {listed}", err=True)
    raise typer.Exit(Exit.CHECK_FAILED)


def _line(name: str, view: MapView) -> str:
    return (
        f"{name}: {view.occupied} occupied and {view.free} free voxels of {view.resolution_m:g} m"
    )
