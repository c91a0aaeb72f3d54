"""``vil-bridge bench``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vil_benchmarks.report import Row

_DRAWN = frozenset({"render", "klt", "airsim"})
_DATA = Path("../shared/data")
"""Folder of recordings next to a checkout, as for the tests."""


def bench(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="path, poses, fleet, ingest, stream, prediction, compensate, clocks, render, "
            "klt, vehicles, "
            "dashboard, start, airsim, sitl, plan, splats.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Measure the ratios only, with fewer repetitions (ingest, stream, render, "
            "vehicles).",
        ),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="VIL_TEST_DATA",
            help="Folder of recordings and assets (fleet, prediction, compensate, klt). "
            "Prediction and compensate take "
            f"any recording in EuRoC's layout, or a folder of several. Default {_DATA} if present.",
        ),
    ] = None,
) -> None:
    """Measure on this machine, as ratios to a reference in the same run."""
    from vil_benchmarks import report
    from vil_benchmarks.render.yardstick import gl_machine
    from vil_bridge.core.errors import ConfigError, RendererError

    benches = _benches(data or (_DATA if _DATA.is_dir() else None), quick=quick)
    if name not in benches:
        raise typer.BadParameter(
            f"no {'quick ' * quick}benchmark named {name!r}; known: {', '.join(benches)}"
        )
    try:
        rows = benches[name]()
        machine = gl_machine() if name in _DRAWN else {}
    except (ConfigError, RendererError) as exc:
        typer.echo(f"error: {exc}", err=True)
        raise typer.Exit(2) from None
    print(report.as_json(name, rows, machine) if as_json else report.as_table(rows))


def _benches(data: Path | None, *, quick: bool) -> dict[str, Callable[[], list[Row]]]:
    """Return the benchmarks by name."""
    from vil_benchmarks.airsim import bench_airsim
    from vil_benchmarks.clocks import bench_clocks
    from vil_benchmarks.compensate import bench_compensate
    from vil_benchmarks.dashboard import bench_dashboard
    from vil_benchmarks.fleet import bench_fleet
    from vil_benchmarks.ingest import bench_ingest, reference_rows
    from vil_benchmarks.klt import bench_klt
    from vil_benchmarks.path import bench_path
    from vil_benchmarks.plan import bench_plan
    from vil_benchmarks.poses import bench_poses
    from vil_benchmarks.prediction import bench_prediction
    from vil_benchmarks.render.table import bench_render
    from vil_benchmarks.sitl import bench_sitl
    from vil_benchmarks.splats import bench_splats
    from vil_benchmarks.start import bench_start
    from vil_benchmarks.stream import bench_stream, warp_rows
    from vil_benchmarks.vehicles import RATIO_AT, bench_vehicles

    if quick:
        return {
            "ingest": reference_rows,
            "stream": warp_rows,
            "render": partial(bench_render, quick=True),
            "vehicles": partial(bench_vehicles, sizes=(RATIO_AT,), processes=1, peer_sizes=()),
        }
    return {
        "path": bench_path,
        "poses": bench_poses,
        "fleet": partial(bench_fleet, data),
        "ingest": bench_ingest,
        "stream": bench_stream,
        "prediction": partial(bench_prediction, data),
        "compensate": partial(bench_compensate, data),
        "clocks": bench_clocks,
        "render": bench_render,
        "klt": partial(bench_klt, data),
        "vehicles": bench_vehicles,
        "dashboard": bench_dashboard,
        "start": bench_start,
        "airsim": bench_airsim,
        "sitl": bench_sitl,
        "plan": bench_plan,
        "splats": bench_splats,
    }
