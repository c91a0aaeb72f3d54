"""``vil-bridge bench``."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["bench"]


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to measure: path, ingest.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure on this machine, as ratios to a reference in the same run."""
    from vil_bridge.bench import report
    from vil_bridge.bench.ingest import bench_ingest
    from vil_bridge.bench.path import bench_path

    benches = {"path": bench_path, "ingest": bench_ingest}
    if name not in benches:
        raise typer.BadParameter(f"no benchmark named {name!r}; known: {', '.join(benches)}")
    rows = benches[name]()
    print(report.as_json(name, rows) if as_json else report.as_table(rows))
