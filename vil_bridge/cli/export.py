"""``vil-bridge export``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vil_bridge.cli.disk_errors import explained_disk_errors


class _Kind(StrEnum):
    EUROC = "euroc"
    TUM = "tum"
    CSV = "csv"
    PNG = "png"
    ROS2 = "ros2"


def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Recording (.mcap).", show_default=False)
    ],
    to: Annotated[_Kind, typer.Option(help="Format.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="New folder for it.", show_default=False)
    ],
) -> None:
    """Write a recording for other programs.

    EuRoC and TUM (evo, VIO), CSV, PNG, ROS 2 (a bag in MCAP).
    """
    from vil_bridge.offline.export import export as write

    with explained_disk_errors(
        out, "nothing was written: free some space, or choose another folder"
    ):
        written = write(file, to.value, out)
    for name, count in written.items():
        typer.echo(f"{out}/{name}: {count}" if to is not _Kind.ROS2 else f"{name}: {count}")
