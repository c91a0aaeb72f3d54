"""Flights of ``vil-bridge plan`` for actors of a running bridge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.connect import reach
from vil_bridge.runtime.exit_codes import Exit

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vil_bridge.core.types import FloatArray
    from vil_simulation.planning.bridge_flight import BridgeFlight, BridgeQuery
    from vil_simulation.planning.smoothing import PlannedFlight
    from vil_simulation.planning.visibility import ViewGoal

Send = Annotated[
    str | None,
    typer.Option(
        metavar="BRIDGE/ACTOR",
        help="Give the flight to an actor of a running bridge (address or configuration "
        "file): a simulated vehicle "
        "flies it, the pilot of a real one sees it.",
    ),
]
LiveMap = Annotated[
    str | None,
    typer.Option(
        help="Map of the bridge of --send: fly, and plan again whenever it blocks the flight."
    ),
]
LookAt = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y,Z",
        help="Landmark to keep in view: turn to it, and prefer ways from which it is seen.",
    ),
]
Fov = Annotated[
    str,
    typer.Option(metavar="H,V", help="Field of view of the camera ahead, for --look-at, degrees."),
]
LookWeight = Annotated[
    float,
    typer.Option(
        min=0.0, max=100.0, help="Seconds of detour that a second of --look-at in view is worth."
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="X,Y,Z",
        help="Start, world ENU, metres; none = where the actor of --send is.",
    ),
]


def bridge_flight(send: str, token_file: Path | None) -> BridgeFlight:
    """Return the actor of a bridge that is to fly."""
    from vil_simulation.planning.bridge_flight import BridgeFlight

    where, _, actor = send.rpartition("/")
    if not where or not actor:
        raise typer.BadParameter(
            "write BRIDGE/ACTOR, such as http://127.0.0.1:8080/drone", param_hint="--send"
        )
    return BridgeFlight(reach(where, token_file=token_file, role="control"), actor)


def start_of(start: str | None, bridge: BridgeFlight | None) -> tuple[FloatArray, float]:
    """Return the start of a flight, and the heading of the vehicle that is to fly it."""
    if bridge is not None:
        with _explained(bridge):
            place_m, yaw_rad = bridge.place()
        return (place_m if start is None else point_of(start, "--from")), yaw_rad
    if start is None:
        raise typer.BadParameter(
            "give --from, or --send with the actor that is to fly", param_hint="--from"
        )
    return point_of(start, "--from"), 0.0


def give(bridge: BridgeFlight, flight: PlannedFlight, yaw_rad: float | None) -> None:
    """Give a flight to an actor, with one heading, or those of the flight."""
    from vil_simulation.planning.reference_rows import flight_body, row_times

    curve = flight.trajectory
    yaw = curve.at(row_times(curve)).yaw_rad if yaw_rad is None else yaw_rad
    with _explained(bridge):
        given = bridge.give(flight_body(curve, yaw))
    if given.state in ("cancelled", "failed"):
        why: str = given.state
        if given.reason:
            why += f", {given.reason}"
        typer.echo(f"{bridge.actor} does not fly it: {why}")
        raise typer.Exit(Exit.CHECK_FAILED)
    what = "flies it"
    if given.state == "offered":
        what = "is a real vehicle: its pilot decides"
    typer.echo(f"{bridge.actor} {what}")


def fly_live(bridge: BridgeFlight, query: BridgeQuery) -> None:
    """Fly on a bridge's map until the flight has ended."""
    from vil_simulation.planning.bridge_flight import fly_on_live_map

    with _explained(bridge):
        end = fly_on_live_map(bridge.bridge, query, typer.echo)
    ended: str = end.state
    if end.reason:
        ended += f": {end.reason}"
    typer.echo(ended)
    if end.state not in ("done", "offered"):
        raise typer.Exit(Exit.CHECK_FAILED)


def view_goal(look_at: str | None, fov: str, weight: float) -> ViewGoal | None:
    """Return the landmark to keep in view; None = none."""
    import math

    from vil_simulation.planning.visibility import ViewGoal

    if look_at is None:
        return None
    words = fov.split(",")
    if len(words) != 2 or not all(
        word.strip().isdecimal() and 0 < int(word) < 180 for word in words
    ):
        raise typer.BadParameter(
            f"{fov!r} is not a field of view: write H,V in degrees, such as 90,60",
            param_hint="--fov",
        )
    horizontal, vertical = (math.radians(int(word)) for word in words)
    return ViewGoal(point_of(look_at, "--look-at"), (horizontal, vertical), weight)


def _explained(bridge: BridgeFlight) -> AbstractContextManager[None]:
    """Explain on the terminal why the bridge refuses, and end the verb."""
    from vil_bridge.cli.bridge_client import BridgeAddress

    assert isinstance(bridge.bridge, BridgeAddress)
    return bridge.bridge.explained()


def point_of(text: str, option: str) -> FloatArray:
    """Return the place that an option means."""
    import math

    import numpy as np

    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 3 or not all(math.isfinite(number) for number in numbers):
        raise typer.BadParameter(
            f"{text!r} is not a place: write X,Y,Z in metres, such as 1,2.5,1", param_hint=option
        )
    return np.array(numbers)
