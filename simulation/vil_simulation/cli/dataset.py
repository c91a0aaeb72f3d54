"""``vil-bridge dataset``."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vil_bridge.cli.disk_errors import explained_disk_errors
from vil_renderer.cli.options import Profile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vil_simulation.dataset.dataset import DatasetSummary, Progress
    from vil_simulation.dataset.plan import DatasetPlan

_STEREO_M = 0.11
_CAMERAS: dict[str, dict[str, Any]] = {
    "front": {"T_body_camera": {"p_m": (0.1, 0.0, 0.0)}},
    "stereo": {
        "T_body_camera": {"p_m": (0.1, 0.5 * _STEREO_M, 0.0)},
        "stereo_baseline_m": _STEREO_M,
    },
    "down": {"T_body_camera": {"p_m": (0.0, 0.0, -0.05), "ypr_deg": (0.0, 90.0, 0.0)}},
}
_CURE = "the same command continues the data set"
_EXECUTION = ("out", "plan", "workers", "ray", "as_json")
"""Parameters about the execution; all others describe the data set, as a plan does."""


Out = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="Folder of the data set; an incomplete one is continued."),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        help="Describe the whole data set in a file (YAML, docs/guides/datasets.md).",
        show_default=False,
    ),
]
Trajectory = Annotated[
    str,
    typer.Option(
        metavar="FILE|circle|race", help="Recording or flight; race = through the scene's gates."
    ),
]
Scenes = Annotated[str, typer.Option(metavar="SCENE[,SCENE]", help="Names or files of scenes.")]
Cameras = Annotated[list[str], typer.Option(help=f"Of {', '.join(_CAMERAS)}; may be repeated.")]
Modalities = Annotated[
    str, typer.Option(help="rgb, gray, depth, depth32, normals, semantic, instance, flow.")
]
Measure = Annotated[
    str, typer.Option(help="Further sensors: lidar, range, beacons; gates = labels of gates.")
]
Size = Annotated[tuple[int, int], typer.Option(help="Width and height, pixels.")]
FovY = Annotated[float, typer.Option("--fov", help="Vertical field of view, degrees.")]
Imu = Annotated[
    str, typer.Option(metavar="PRESET", help="Such as mpu6000 or bmi088; empty = none.")
]
Rate = Annotated[float, typer.Option("--rate", help="Frames per second.")]
Frames = Annotated[
    int | None, typer.Option(help="Per scene; none = the whole flight.", show_default=False)
]
Seed = Annotated[int, typer.Option(help="Of the IMU's noise.")]
Workers = Annotated[int, typer.Option(min=1, max=1024, help="Number of parallel workers.")]
RayAddress = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="Run the workers in Ray: of a cluster (auto, host:port), or local."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def dataset(
    context: typer.Context,
    out: Out,
    plan: PlanFile = None,
    trajectory: Trajectory = "circle",
    scene: Scenes = "hall",
    camera: Cameras = ["front"],  # noqa: B006
    modalities: Modalities = "rgb,depth",
    measure: Measure = "",
    size: Size = (640, 480),
    fov_deg: FovY = 70.0,
    imu: Imu = "",
    rate_hz: Rate = 20.0,
    frames: Frames = None,
    seed: Seed = 0,
    profile: Profile = "low",
    workers: Workers = 1,
    ray: RayAddress = "",
    as_json: AsJson = False,
) -> None:
    """Render a flight into a data set.

    Pictures of all kinds, IMU and ground truth in EuRoC's layout.

    The same command continues an interrupted data set. The bytes do not depend on the number of
    workers. 0 = complete, 2 = wrong plan, 3 = full disk.
    """
    from vil_simulation.dataset.dataset import render_dataset
    from vil_simulation.dataset.plan import load_plan

    if plan is not None:
        _refuse_options_with_plan(context)
        wanted = load_plan(plan)
    else:
        wanted = _plan_of(
            scenes=_scenes(scene),
            trajectory=_trajectory(trajectory),
            rate_hz=rate_hz,
            frames=frames,
            seed=seed,
            profile=profile,
            modalities=_listed(modalities),
            measure=_listed(measure),
            cameras=_cameras(camera, size, fov_deg),
            imu={"preset": imu} if imu else None,
        )
    # Ray prints of its workers.
    with (
        explained_disk_errors(out, _CURE),
        _progress(quiet=as_json) as on_progress,
        redirect_stdout(sys.stderr),
    ):
        done = render_dataset(wanted, out, workers=workers, ray=ray, on_progress=on_progress)
    _print_summary(done, as_json=as_json)


def _refuse_options_with_plan(context: typer.Context) -> None:
    """Refuse options that a plan would override.

    Raises:
        ConfigError: the options that were given.
    """
    from vil_bridge.core.errors import ConfigError

    sources = {
        param: context.get_parameter_source(param.name or "") for param in context.command.params
    }
    given = [
        param.opts[0]
        for param, source in sources.items()
        if param.name not in _EXECUTION and source is not None and source.name != "DEFAULT"
    ]
    if given:
        raise ConfigError(
            f"{', '.join(given)} and --plan exclude each other: write it into the plan, "
            "or omit --plan"
        )


def _plan_of(**options: Any) -> DatasetPlan:
    """Return the plan that the options describe.

    Raises:
        ConfigError: one line for each that is wrong.
    """
    from pydantic import ValidationError

    from vil_bridge.core.errors import ConfigError
    from vil_simulation.dataset.plan import DatasetPlan

    try:
        return DatasetPlan.model_validate(options)
    except ValidationError as exc:
        found = exc.errors(include_url=False)
        raise ConfigError(
            [f"{'.'.join(map(str, error['loc'])) or 'options'}: {error['msg']}" for error in found]
        ) from None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _scenes(text: str) -> tuple[str, ...]:
    """Return names, and absolute paths of files, which hold for every worker."""
    return tuple(
        str(Path(scene).resolve()) if Path(scene).suffix else scene for scene in _listed(text)
    )


def _trajectory(text: str) -> dict[str, Any]:
    if text in ("circle", "race"):
        return {text: {}}
    return {"recorded": {"file": Path(text).resolve()}}


def _cameras(names: list[str], size: tuple[int, int], fov_deg: float) -> dict[str, Any]:
    """Return cameras by their usual names.

    Raises:
        ConfigError: a name is unknown.
    """
    from vil_bridge.core.errors import ConfigError

    if unknown := [name for name in names if name not in _CAMERAS]:
        raise ConfigError(
            f"--camera {unknown[0]}: one of {', '.join(_CAMERAS)}; a plan (--plan) places "
            "any others"
        )
    lens = {"width_px": size[0], "height_px": size[1], "fov_y_deg": fov_deg}
    return {name: _CAMERAS[name] | lens for name in names}


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """Show a bar on a terminal, a line for each tenth elsewhere."""
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
        printed = [-1]

        def report(done: int, whole: int) -> None:
            if (tenth := 10 * done // whole) > printed[0]:
                printed[0] = tenth
                console.print(f"{done} of {whole} frames", highlight=False)

        yield report


def _print_summary(done: DatasetSummary, *, as_json: bool) -> None:
    if as_json:
        import json

        typer.echo(json.dumps(done.as_json()))
        return
    typer.echo(
        f"{done.folder}: {done.frames} frames, {done.pictures} pictures, sha256 of "
        f"SHA256SUMS {done.sha256}"
    )
    if done.drawn:
        rate = done.drawn / done.took_s
        cost = 1e3 * done.cpu_s / done.drawn
        typer.echo(
            f"drew {done.drawn} in {done.took_s:.1f} s ({rate:.1f} a second, {cost:.1f} "
            "ms of CPU each)"
        )
