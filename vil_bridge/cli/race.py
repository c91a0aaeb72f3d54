"""``vil-bridge race``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from vil_bridge.cli.exit_codes import explained_disk_errors

if TYPE_CHECKING:
    from vil_bridge.tools.race.simulated_race import RaceResult


def race(
    course: Annotated[str, typer.Argument(metavar="COURSE", help="Shipped course, or a course file (YAML).")],
    pilot: Annotated[
        Literal["minimum-snap", "time-optimal"],
        typer.Option(help="minimum-snap = one pace for the whole curve; time-optimal = the same curve, fastest."),
    ] = "minimum-snap",
    episodes: Annotated[int, typer.Option(min=1, max=1000, help="Races, each with its own gates.")] = 25,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the first race's gates; each further race takes the next number.")
    ] = 0,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Results to write; - = print them in place of a table."),
    ] = None,
) -> None:
    """Race simulated vehicles over a course, faster than real time, and rank them as FlightGoggles does.

    The pilot knows the gates, which each seed moves within their spreads:
    `vil-bridge race alphapilot --pilot time-optimal --json results.json`. The code is 0 however the races end.
    """
    import json

    from vil_bridge.config.course import load_course
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.tools.race.pilots import PILOTS
    from vil_bridge.tools.race.simulated_race import race as fly_races

    loaded = load_course(course)
    try:
        result = fly_races(loaded, pilot, PILOTS[pilot], range(seed, seed + episodes))
    except ValueError as exc:
        raise ConfigError(f"{course}: {exc}") from None
    text = json.dumps(result.figures(), indent=2)
    if json_file == Path("-"):
        typer.echo(text)
        return
    if json_file is not None:
        with explained_disk_errors(json_file, "free some space, or choose another file with --json"):
            json_file.write_text(text + "\n", encoding="utf-8")
    typer.echo(_table(result))


def _table(result: RaceResult) -> str:
    from vil_bridge.tools.race.simulated_race import BEST

    lines = [f"{'seed':>6} {'passed':>6} {'time (s)':>9} {'score':>8}  ended"]
    for one in result.episodes:
        ended = f"{one.ended} ({one.what})" if one.what else one.ended
        lines.append(f"{one.seed:6d} {one.passed:6d} {one.time_s:9.3f} {one.score:8.3f}  {ended}")
    count = len(result.episodes)
    lines.append(
        f"{result.course}, {result.pilot}: completed {result.completed} of {count}, "
        f"mean of the best {min(count, BEST)}: {result.best_mean:.3f}"
    )
    return "\n".join(lines)
