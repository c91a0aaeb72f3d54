"""``vil-bridge dataset``."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vil_bridge.cli.exit_codes import explained_disk_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vil_bridge.tools.dataset.dataset import DatasetSummary, Progress
    from vil_bridge.tools.dataset.plan import DatasetPlan

__all__ = ["dataset"]

_STEREO_M = 0.11
_CAMERAS: dict[str, dict[str, Any]] = {
    "front": {"T_body_camera": {"p_m": (0.1, 0.0, 0.0)}},
    "stereo": {"T_body_camera": {"p_m": (0.1, 0.5 * _STEREO_M, 0.0)}, "stereo_baseline_m": _STEREO_M},
    "down": {"T_body_camera": {"p_m": (0.0, 0.0, -0.05), "ypr_deg": (0.0, 90.0, 0.0)}},
}
_HOW = ("out", "plan", "workers", "ray", "as_json")
"""Parameters that say where and how to draw; all others say what, as a plan does."""


def dataset(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the data set; one begun before goes on.")],
    plan: Annotated[
        Path | None,
        typer.Option(help="Everything about it in a file (YAML, docs/guides/datasets.md).", show_default=False),
    ] = None,
    trajectory: Annotated[
        str, typer.Option(metavar="FILE|circle|race", help="Recording, or what to fly; race = the scene's gates.")
    ] = "circle",
    scene: Annotated[str, typer.Option(metavar="SCENE[,SCENE]", help="Names or files of scenes.")] = "hall",
    camera: Annotated[list[str], typer.Option(help=f"Of {', '.join(_CAMERAS)}; may be repeated.")] = ["front"],  # noqa: B006
    modalities: Annotated[str, typer.Option(help="rgb, gray, depth, depth32, normals, semantic, instance, flow.")] = (
        "rgb,depth"
    ),
    measure: Annotated[str, typer.Option(help="Beside the pictures: lidar, range, beacons.")] = "",
    size: Annotated[tuple[int, int], typer.Option(help="Width and height, pixels.")] = (640, 480),
    fov_deg: Annotated[float, typer.Option("--fov", help="Vertical field of view, degrees.")] = 70.0,
    imu: Annotated[str, typer.Option(metavar="PRESET", help="Such as mpu6000 or bmi088; empty = none.")] = "",
    rate_hz: Annotated[float, typer.Option("--rate", help="Frames per second.")] = 20.0,
    frames: Annotated[int | None, typer.Option(help="In each scene; none = the whole flight.", show_default=False)] = (
        None
    ),
    seed: Annotated[int, typer.Option(help="Of the IMU's noise.")] = 0,
    profile: Annotated[str, typer.Option(help="Quality: low, medium, high, ultra.")] = "low",
    workers: Annotated[int, typer.Option(min=1, max=1024, help="How many draw at a time.")] = 1,
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Workers are Ray's: of a cluster (auto, host:port), or local.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Render a flight into a data set: pictures of all kinds, IMU and ground truth in EuRoC's layout.

    Interrupted, the same command goes on where it stopped. Any number of workers makes the same bytes.
    0 = complete, 2 = the plan is bad, 3 = the disk is full.
    """
    from vil_bridge.tools.dataset.dataset import render_dataset
    from vil_bridge.tools.dataset.plan import load_plan

    if plan is not None:
        _refuse_beside_plan(context)
        wanted = load_plan(plan)
    else:
        told = {
            "scenes": _scenes(scene),
            "trajectory": _trajectory(trajectory),
            "rate_hz": rate_hz,
            "frames": frames,
            "seed": seed,
            "profile": profile,
            "modalities": _listed(modalities),
            "measure": _listed(measure),
            "cameras": _cameras(camera, size, fov_deg),
            "imu": {"preset": imu} if imu else None,
        }
        wanted = _planned(told)
    with (
        explained_disk_errors(out, "the same command goes on where it stopped"),
        _progress(quiet=as_json) as on_progress,
        redirect_stdout(sys.stderr),  # Ray prints of its workers
    ):
        done = render_dataset(wanted, out, workers=workers, ray=ray, on_progress=on_progress)
    _tell(done, as_json=as_json)


def _refuse_beside_plan(context: typer.Context) -> None:
    """A plan says everything: an option that says it too would be ignored.

    Raises:
        ConfigError: the options that were given.
    """
    from vil_bridge.core.errors import ConfigError

    sources = {param: context.get_parameter_source(param.name or "") for param in context.command.params}
    given = [
        param.opts[0]
        for param, source in sources.items()
        if param.name not in _HOW and source is not None and source.name != "DEFAULT"
    ]
    if given:
        raise ConfigError(f"{', '.join(given)} beside --plan: the plan says it, write it there or leave --plan out")


def _planned(told: dict[str, Any]) -> DatasetPlan:
    """The plan that options make.

    Raises:
        ConfigError: one line for each that is wrong.
    """
    from pydantic import ValidationError

    from vil_bridge.core.errors import ConfigError
    from vil_bridge.tools.dataset.plan import DatasetPlan

    try:
        return DatasetPlan.model_validate(told)
    except ValidationError as exc:
        found = exc.errors(include_url=False)
        raise ConfigError(
            [f"{'.'.join(map(str, error['loc'])) or 'options'}: {error['msg']}" for error in found]
        ) from None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _scenes(text: str) -> tuple[str, ...]:
    """Names, and files with paths that hold for every worker."""
    return tuple(str(Path(scene).resolve()) if Path(scene).suffix else scene for scene in _listed(text))


def _trajectory(text: str) -> dict[str, Any]:
    return {text: {}} if text in ("circle", "race") else {"recorded": {"file": Path(text).resolve()}}


def _cameras(names: list[str], size: tuple[int, int], fov_deg: float) -> dict[str, Any]:
    """Cameras by their usual names.

    Raises:
        ConfigError: there is none of a name.
    """
    from vil_bridge.core.errors import ConfigError

    if unknown := [name for name in names if name not in _CAMERAS]:
        raise ConfigError(f"--camera {unknown[0]}: one of {', '.join(_CAMERAS)}; a plan (--plan) places any others")
    lens = {"width_px": size[0], "height_px": size[1], "fov_y_deg": fov_deg}
    return {name: _CAMERAS[name] | lens for name in names}


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """A bar on a terminal, a line for each tenth elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    if quiet:
        yield lambda _done, _whole: None
    elif console.is_terminal:
        columns = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        with Progress("frames", *columns, console=console) as bar:
            task = bar.add_task("frames", total=None)
            yield lambda done, whole: bar.update(task, completed=done, total=whole)
    else:
        told = [-1]

        def tell(done: int, whole: int) -> None:
            if (tenth := 10 * done // whole) > told[0]:
                told[0] = tenth
                console.print(f"{done} of {whole} frames", highlight=False)

        yield tell


def _tell(done: DatasetSummary, *, as_json: bool) -> None:
    if as_json:
        import json

        typer.echo(json.dumps(done.as_json()))
        return
    typer.echo(f"{done.folder}: {done.frames} frames, {done.pictures} pictures, sha256 of SHA256SUMS {done.sha256}")
    if done.drawn:
        rate, cost = done.drawn / done.took_s, 1e3 * done.cpu_s / done.drawn
        typer.echo(f"drew {done.drawn} in {done.took_s:.1f} s ({rate:.1f} a second, {cost:.1f} ms of CPU each)")
