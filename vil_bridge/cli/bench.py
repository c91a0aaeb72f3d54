"""``vil-bridge bench``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["bench"]


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to measure: path, ingest, prediction.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    data: Annotated[
        Path | None, typer.Option(envvar="VIL_TEST_DATA", help="prediction: the folder that holds the recordings.")
    ] = None,
) -> None:
    """Measure on this machine, as ratios to a reference in the same run."""
    from vil_bridge.bench import report
    from vil_bridge.bench.ingest import bench_ingest
    from vil_bridge.bench.path import bench_path
    from vil_bridge.bench.prediction import bench_prediction
    from vil_bridge.core.errors import ConfigError

    benches: dict[str, Callable[[], list[report.Row]]] = {
        "path": bench_path,
        "ingest": bench_ingest,
        "prediction": partial(bench_prediction, data),
    }
    if name not in benches:
        raise typer.BadParameter(f"no benchmark named {name!r}; known: {', '.join(benches)}")
    try:
        rows = benches[name]()
    except ConfigError as exc:
        typer.echo(f"error: {exc}", err=True)
        raise typer.Exit(2) from None
    print(report.as_json(name, rows) if as_json else report.as_table(rows))
