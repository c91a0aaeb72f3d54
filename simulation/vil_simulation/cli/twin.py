"""``vil-bridge twin``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from vil_bridge.cli.disk_errors import explained_disk_errors


def twin(
    first: Annotated[
        Path, typer.Argument(metavar="A", exists=True, help="Recording of the vehicle.")
    ],
    second: Annotated[
        Path | None,
        typer.Argument(
            metavar="[B]", exists=True, help="Recording of the twin; none = the same file."
        ),
    ] = None,
    actor: Annotated[str, typer.Option(help="Body of A; empty = the first.")] = "",
    twin: Annotated[str, typer.Option(help="Body of B; empty = the first.")] = "",
    align: Annotated[
        Literal["none", "posyaw"],
        typer.Option(help="posyaw = turn B about the vertical and shift it onto A first."),
    ] = "none",
    clock: Annotated[
        Literal["same", "start"],
        typer.Option(help="start = each counts from its first pose; same = one clock."),
    ] = "same",
    longest_delay_s: Annotated[
        float,
        typer.Option(
            "--longest-delay", min=0, max=5, help="Search for B's delay, seconds; 0 = none."
        ),
    ] = 0.5,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Page of HTML to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the paths of a vehicle and its twin: distances, delay, and a report.

    Recordings of this program, TUM, EuRoC, and what else the source `motion-file` reads:
    `vil-bridge twin flight.mcap --actor drone --twin drone_sim -o twin.html`,
    `vil-bridge twin real.txt simulated.txt --align posyaw --json`.
    """
    import json

    from vil_bridge.core.errors import ConfigError
    from vil_simulation.twins.comparison import compare, figure_lines, figures_of_twin, read_paths
    from vil_simulation.twins.report import twin_page

    files = first, second or first
    if out is not None and out.exists() and any(out.samefile(file) for file in files):
        raise ConfigError(f"{out} is an input of the comparison: choose another name")
    if files[0] == files[1] and actor == twin:
        raise ConfigError(
            "A and B are the same body. Name two bodies with --actor and --twin, or a second file"
        )
    found = compare(*read_paths((files[0], actor), (files[1], twin), clock), align, longest_delay_s)
    if out is not None:
        with explained_disk_errors(out, "give it room, or another name"):
            out.write_text(twin_page(found), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(figures_of_twin(found), indent=2))
        return
    for line in figure_lines(found):
        typer.echo(line)
