"""``vil-bridge race``: fly, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.default_verb import DefaultVerbGroup
from vil_bridge.cli.disk_errors import explained_disk_errors
from vil_bridge.core.installation import install_command
from vil_simulation.cli.race_report import report

if TYPE_CHECKING:
    from vil_bridge.courses.course import Course
    from vil_simulation.race.results import RaceEpisode, RaceResult
    from vil_simulation.race.simulated_race import PilotFactory

PilotName = Annotated[
    str,
    typer.Option(
        help="minimum-snap = one pace for the whole curve; time-optimal = the same curve, fastest; "
        "vision = by pictures, IMU and range, without the true gates; "
        "learned = the policy of --policy; keyboard, gamepad = you, on a page, in real "
        "time; or a plug-in's name."
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Results to write, with tracks in a .tracks.npz file next to it; - = print "
        "results in place of a table.",
    ),
]

_HEAD = f"{'seed':>6} {'passed':>6} {'time (s)':>9} {'score':>8}  ended"

race = typer.Typer(cls=DefaultVerbGroup, no_args_is_help=True)


@race.callback()
def _races() -> None:
    """Race simulated vehicles, and draw reports of races.

    `race COURSE` is short for `race fly COURSE`.
    """


@race.command()
def fly(
    course: Annotated[
        str,
        typer.Argument(
            metavar="COURSE", help="Shipped course, or file (YAML; TOML of lsy_drone_racing)."
        ),
    ],
    pilot: PilotName = "minimum-snap",
    episodes: Annotated[
        int, typer.Option(min=1, max=1000, help="Races, each with its own gates.")
    ] = 25,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Of the first race's gates; each further race takes the next number. "
            "None = 0, and the nominal course for you.",
        ),
    ] = None,
    json_file: JsonFile = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Policy of the pilot `learned` (.npz of write_policy)."),
    ] = None,
    http_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Port of the page on which you fly; 0 = any free one."),
    ] = 8080,
) -> None:
    """Race simulated vehicles over a course, faster than real time, and rank them as FlightGoggles
    does.

    Each seed moves the gates within their spreads. Pilots know the moved gates; `vision` knows the
    nominal course: `vil-bridge race alphapilot --pilot time-optimal --json results.json`. The code
    is 0 however the races end. With `--pilot keyboard` or `gamepad` a bridge and its renderer run
    until Ctrl-C, and you fly on a page.
    """
    if pilot in ("keyboard", "gamepad"):
        _fly_on_page(course, pilot, seed, http_port)
        return
    from vil_simulation.race.results import results_text, write_results_file

    loaded = _course(course)
    result = _simulated(loaded, course, pilot, policy, range(seed or 0, (seed or 0) + episodes))
    if json_file == Path("-"):
        typer.echo(results_text(result, loaded))
        return
    if json_file is not None:
        with explained_disk_errors(
            json_file, "free some space, or choose another file with --json"
        ):
            write_results_file(result, loaded, json_file)
    typer.echo(_table(result))


race.command()(report)


def _course(name: str) -> Course:
    """Return a shipped course or that of a file. Raises ConfigError."""
    from vil_bridge.config.course import load_course
    from vil_simulation.race.lsy import read_lsy

    if Path(name).suffix == ".toml":
        return read_lsy(Path(name)).course
    return load_course(name)


def _pilot(name: str, policy: Path | None) -> PilotFactory:
    from vil_simulation.race.pilots import pilot_factory
    from vil_simulation.race.policies import LearnedPilots, read_policy

    if (name == "learned") != (policy is not None):
        raise typer.BadParameter(
            "learned flies the policy of a file. Give both, `--pilot learned --policy FILE`"
        )
    if policy is not None:
        return LearnedPilots(read_policy(policy))
    try:
        return pilot_factory(name)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from None


def _simulated(
    loaded: Course, course: str, pilot: str, policy: Path | None, seeds: range
) -> RaceResult:
    from vil_bridge.core.errors import ConfigError
    from vil_simulation.race.simulated_race import race as fly_races

    if pilot == "vision" and policy is None:
        return _by_vision(loaded, seeds)
    make_pilot = _pilot(pilot, policy)
    try:
        return fly_races(loaded, pilot, make_pilot, seeds)
    except ValueError as exc:
        raise ConfigError(f"{course}: {exc}") from None


def _by_vision(course: Course, seeds: range) -> RaceResult:
    """Fly races that take a minute each, and print each to the error output. Raises ConfigError."""
    from importlib.util import find_spec

    from vil_bridge.core.errors import ConfigError

    if absent := [module for module in ("cv2", "moderngl", "embreex") if find_spec(module) is None]:
        raise ConfigError(
            f"the pilot 'vision' needs {' and '.join(absent)}: {install_command('gl')}"
        )
    from vil_simulation.race.vision_race import race_by_vision

    typer.echo(_HEAD, err=True)
    return race_by_vision(course, seeds, lambda one: typer.echo(_row(one), err=True))


def _fly_on_page(course: str, pilot: str, seed: int | None, http_port: int) -> None:
    import socket
    import tempfile
    from importlib.util import find_spec

    from vil_bridge.core.errors import ConfigError
    from vil_bridge.monitoring.logging_setup import setup_logging
    from vil_simulation.demo.child_processes import ProcessGroup, free_ports
    from vil_simulation.race.arcade import SCENE, arcade_bridge

    if find_spec("moderngl") is None:
        raise ConfigError(f"--pilot {pilot} needs pictures: {install_command('gl')}")
    pose, image, http = free_ports(3, socket.SOCK_STREAM)
    config = arcade_bridge(course, seed, (pose, image), http_port or http)
    setup_logging()
    address = f"http://127.0.0.1:{config.http.port}/arcade"
    with tempfile.TemporaryDirectory() as folder, ProcessGroup(Path(folder)) as processes:
        ports = ("--input-port", str(pose), "--output-port", str(image))
        processes.start("renderer", "renderer", "--scene", SCENE, *ports)
        controls = "a gamepad" if pilot == "gamepad" else "the keyboard"
        typer.echo(f"fly with {controls} on  {address}   (Ctrl-C ends)")
        from vil_bridge.run import run_bridge  # slow to import

        run_bridge(config)


def _table(result: RaceResult) -> str:
    from vil_simulation.race.results import BEST

    lines = [_HEAD, *map(_row, result.episodes)]
    count = len(result.episodes)
    lines.append(
        f"{result.course}, {result.pilot}: completed {result.completed} of {count}, "
        f"mean of the best {min(count, BEST)}: {result.best_mean:.3f}"
    )
    return "\n".join(lines)


def _row(one: RaceEpisode) -> str:
    ended: str = one.ended
    if one.what:
        ended += f" ({one.what})"
    return f"{one.seed:6d} {one.passed:6d} {one.time_s:9.3f} {one.score:8.3f}  {ended}"
