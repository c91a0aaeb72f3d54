"""``vil-bridge plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.connect import TokenFile
from vil_bridge.cli.disk_errors import explained_disk_errors
from vil_bridge.runtime.exit_codes import Exit
from vil_simulation.cli.plan_bridge import (
    Fov,
    LiveMap,
    LookAt,
    LookWeight,
    Send,
    Start,
    bridge_flight,
    fly_live,
    give,
    point_of,
    start_of,
    view_goal,
)

if TYPE_CHECKING:
    from vil_bridge.core.types import FloatArray
    from vil_bridge.world.occupancy.occupancy_map import OccupancyMap
    from vil_simulation.planning.bridge_flight import BridgeQuery
    from vil_simulation.planning.smoothing import PlannedFlight
    from vil_simulation.planning.visibility import ViewGoal

_ELSEWHERE = "choose another place with --out or --map-out"
_Scene = Annotated[str | None, typer.Option(help="Shipped scene, or a scene file (YAML).")]
_MapFile = Annotated[
    Path | None,
    typer.Option(
        "--map", exists=True, dir_okay=False, help="OctoMap file (.ot, .bt) instead of a scene."
    ),
]
_Fly = Annotated[
    bool,
    typer.Option(
        "--fly", help="Fly it with a simulated quadcopter, and check the scene's surfaces."
    ),
]


def plan(
    goal: Annotated[str, typer.Option("--to", metavar="X,Y,Z", help="Goal, world ENU, metres.")],
    start: Start = None,
    scene: _Scene = None,
    map_file: _MapFile = None,
    live_map: LiveMap = None,
    send: Send = None,
    token_file: TokenFile = None,
    through_unknown: Annotated[
        bool,
        typer.Option("--through-unknown", help="Fly through space that the file does not know."),
    ] = False,
    resolution_m: Annotated[
        float,
        typer.Option("--resolution", min=0.01, max=10.0, help="Voxel of the scene's map, metres."),
    ] = 0.1,
    radius_m: Annotated[
        float, typer.Option("--radius", min=0.01, max=10.0, help="Of the vehicle, metres.")
    ] = 0.3,
    speed_mps: Annotated[
        float, typer.Option("--speed", min=0.1, max=30.0, help="Largest speed, m/s.")
    ] = 5.0,
    seed: Annotated[int, typer.Option(min=1, help="The same seed gives the same flight.")] = 1,
    look_at: LookAt = None,
    fov: Fov = "90,60",
    look_weight: LookWeight = 1.0,
    fly: _Fly = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Flight to write: .csv or .json.")
    ] = None,
    map_out: Annotated[
        Path | None, typer.Option("--map-out", help="Map to write: .ot, .bt or .ply.")
    ] = None,
) -> None:
    """Plan a flight through a scene or a map: a free path, made smooth and checked.

    Ends with 0 when there is a flight, and it flew free; with 2 for a query that cannot be
    answered; else with 3.
    """
    bridge = None if send is None else bridge_flight(send, token_file)
    view = view_goal(look_at, fov, look_weight)
    goal_m = point_of(goal, "--to")
    if live_map is not None:
        if bridge is None or scene is not None or map_file is not None or start is not None or fly:
            raise typer.BadParameter(
                "it goes with --to and --send, and without another map", param_hint="--live-map"
            )
        fly_live(
            bridge,
            _live_query(
                bridge.actor, live_map, goal_m, radius_m, speed_mps, seed, through_unknown, view
            ),
        )
        return
    place = _place(scene, map_file)
    _check_files(out, map_out)
    if fly and scene is None:
        raise typer.BadParameter(
            "--fly checks the surfaces of a scene: give --scene", param_hint="--fly"
        )
    start_m, yaw_rad = start_of(start, bridge)
    numbers = resolution_m, radius_m, speed_mps, seed, through_unknown
    first_yaw_rad: float | None = None
    if bridge is not None:
        first_yaw_rad = yaw_rad
    flight = _planned(start_m, goal_m, place, numbers, view, first_yaw_rad, out, map_out)
    if fly and scene is not None:
        _fly(flight, scene, radius_m)
    if bridge is not None:
        give(bridge, flight, yaw_rad if view is None else None)


def _planned(
    start_m: FloatArray,
    goal_m: FloatArray,
    place: str | Path,
    numbers: tuple[float, float, float, int, bool],
    view: ViewGoal | None,
    yaw_rad: float | None,
    out: Path | None,
    map_out: Path | None,
) -> PlannedFlight:
    """Plan, print and write a flight.

    Raises:
        typer.Exit: none was found.
    """
    from vil_simulation.planning.query import FlightQuery, answer

    found, flight = answer(
        FlightQuery(start_m, goal_m, place, *numbers, view=view, yaw_rad=yaw_rad)
    )
    _write(found, flight, out, map_out)
    if flight is None:
        typer.echo(
            "no free flight was found: try another --seed, a smaller --radius, or move the goal",
            err=True,
        )
        raise typer.Exit(Exit.CHECK_FAILED)
    if view is not None:
        from vil_simulation.planning.visibility import share_in_view

        typer.echo(
            "the landmark is in view for "
            f"{100.0 * share_in_view(found, view, flight.trajectory):.0f} % of the time"
        )
    return flight


def _live_query(
    actor: str,
    name: str,
    goal_m: FloatArray,
    radius_m: float,
    speed_mps: float,
    seed: int,
    through_unknown: bool,
    view: ViewGoal | None,
) -> BridgeQuery:
    from vil_simulation.planning.bridge_flight import BridgeQuery
    from vil_simulation.planning.query import ACCELERATION_MPS2
    from vil_simulation.vehicles.control.limits import Limits

    limits = Limits(speed_mps=speed_mps, acceleration_mps2=ACCELERATION_MPS2)
    return BridgeQuery(actor, name, goal_m, radius_m, limits, seed, through_unknown, view)


def _place(scene: str | None, map_file: Path | None) -> str | Path:
    """Return the one place that is given."""
    given = [place for place in (scene, map_file) if place is not None]
    if len(given) != 1:
        raise typer.BadParameter("give one of --scene and --map", param_hint="--scene")
    return given[0]


def _check_files(out: Path | None, map_out: Path | None) -> None:
    from vil_bridge.world.occupancy.map_file import check_map_file
    from vil_simulation.planning.flight_file import check_flight_file

    if out is not None:
        check_flight_file(out)
    if map_out is not None:
        check_map_file(map_out)


def _write(
    found: OccupancyMap, flight: PlannedFlight | None, out: Path | None, map_out: Path | None
) -> None:
    """Print the flight and write the files that are asked for."""
    from vil_bridge.world.occupancy.map_file import write_map
    from vil_simulation.planning.flight_file import write_flight

    with explained_disk_errors(Path(), _ELSEWHERE):
        if map_out is not None:
            write_map(map_out, found)
            typer.echo(f"wrote {len(found.codes)} voxels to {map_out}")
        if flight is not None:
            typer.echo(_summary(flight))
            if out is not None:
                write_flight(out, flight)
                typer.echo(f"wrote the flight to {out}")


def _fly(flight: PlannedFlight, scene: str, radius_m: float) -> None:
    from vil_bridge.registry import solid_world
    from vil_simulation.planning.simulated_flight import contact_on, fly_along

    contact = contact_on(fly_along([flight.trajectory])[0], solid_world(scene, None), radius_m)
    if contact is not None:
        place = ", ".join(f"{value:.2f}" for value in contact.point_world_m)
        typer.echo(f"the flight touched {contact.other} at ({place})", err=True)
        raise typer.Exit(Exit.CHECK_FAILED)
    typer.echo("the simulated flight touched nothing")


def _summary(flight: PlannedFlight) -> str:
    import numpy as np

    kind = "minimum snap" if flight.smooth else "straight legs with stops"
    length_m = float(np.linalg.norm(np.diff(flight.path_m, axis=0), axis=1).sum())
    lines = [f"{kind}: {flight.trajectory.duration_s:.2f} s, path {length_m:.2f} m, waypoints (m):"]
    return "\n".join(
        [
            *lines,
            *("  {:.2f}, {:.2f}, {:.2f}".format(*point) for point in flight.waypoints_m.tolist()),
        ]
    )
