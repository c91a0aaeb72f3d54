"""``vil-bridge race report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vil_bridge.cli.disk_errors import explained_disk_errors


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUNS...",
            exists=True,
            dir_okay=False,
            help="Results of `vil-bridge race --json`, and recordings of bridges with `race`.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Page of HTML to write; tables as CSV next to it.")
    ] = Path("race.html"),
) -> None:
    """Draw a report of races.

    Tracks, laps and splits, crossings, speeds, crashes, and the difference to the best run.

    `vil-bridge race report results.json -o race.html` writes the page, and `race_laps.csv`,
    `race_crossings.csv` and `race_summary.csv`. Several files are compared: `vil-bridge race report
    snap.json optimal.json flight.mcap`.
    """
    from vil_bridge.core.errors import ConfigError
    from vil_simulation.race.report import race_page
    from vil_simulation.race.report_tables import table_files
    from vil_simulation.race.run_files import read_runs

    groups = read_runs(runs)
    tables = table_files(groups, out)
    for made in (out, *tables):
        if made.exists() and any(made.samefile(file) for file in runs):
            raise ConfigError(f"{made} is an input of the report: choose another name")
    page = race_page(groups)
    with explained_disk_errors(out, "give it room, or another name"):
        out.write_text(page, encoding="utf-8")
        for file, text in tables.items():
            file.write_text(text, encoding="utf-8")
    count = sum(len(group.runs) for group in groups)
    typer.echo(
        f"{out}: {count} runs of {len(runs)} files; {', '.join(file.name for file in tables)}"
    )
