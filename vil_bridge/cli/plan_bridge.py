"""Flights of ``vil-bridge plan`` for actors of a running bridge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.connect import reach
from vil_bridge.cli.exit_codes import Exit

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from vil_bridge.core.types import FloatArray
    from vil_bridge.tools.planning.bridge_flight import BridgeFlight
    from vil_bridge.tools.planning.smoothing import PlannedFlight

Send = Annotated[
    str | None,
    typer.Option(
        metavar="BRIDGE/ACTOR",
        help="Give the flight to an actor of a running bridge (address or configuration file): a simulated vehicle "
        "flies it, the pilot of a real one sees it.",
    ),
]
LiveMap = Annotated[
    str | None, typer.Option(help="Map of the bridge of --send: fly, and plan again whenever it blocks the flight.")
]
Start = Annotated[
    str | None,
    typer.Option("--from", metavar="X,Y,Z", help="Start, world ENU, metres; none = where the actor of --send is."),
]


def bridge_flight(send: str, token_file: Path | None) -> BridgeFlight:
    """Return the actor of a bridge that is to fly."""
    from vil_bridge.tools.planning.bridge_flight import BridgeFlight

    where, _, actor = send.rpartition("/")
    if not where or not actor:
        raise typer.BadParameter("write BRIDGE/ACTOR, such as http://127.0.0.1:8080/drone", param_hint="--send")
    return BridgeFlight(reach(where, token_file=token_file, role="control"), actor)


def start_of(start: str | None, bridge: BridgeFlight | None) -> tuple[FloatArray, float]:
    """Return the start of a flight, and the heading of the vehicle that is to fly it."""
    if bridge is not None:
        with _explained(bridge):
            place_m, yaw_rad = bridge.place()
        return (place_m if start is None else point_of(start, "--from")), yaw_rad
    if start is None:
        raise typer.BadParameter("give --from, or --send with the actor that is to fly", param_hint="--from")
    return point_of(start, "--from"), 0.0


def give(bridge: BridgeFlight, flight: PlannedFlight, yaw_rad: float) -> None:
    """Give a flight to an actor, which holds its heading."""
    from vil_bridge.tools.planning.reference_rows import flight_body

    with _explained(bridge):
        given = bridge.give(flight_body(flight.trajectory, yaw_rad))
    what = {"flying": "flies it", "offered": "is a real vehicle: its pilot decides"}[given.state]
    typer.echo(f"{bridge.actor} {what}")


def fly_live(
    bridge: BridgeFlight, name: str, goal_m: FloatArray, numbers: tuple[float, float, int], *, through_unknown: bool
) -> None:
    """Fly on a bridge's map until the flight has ended."""
    from vil_bridge.tools.planning.bridge_flight import BridgeQuery, fly_on_live_map
    from vil_bridge.tools.planning.query import ACCELERATION_MPS2
    from vil_bridge.vehicles.control.limits import Limits

    radius_m, speed_mps, seed = numbers
    limits = Limits(speed_mps=speed_mps, acceleration_mps2=ACCELERATION_MPS2)
    query = BridgeQuery(bridge.actor, name, goal_m, radius_m, limits, seed, through_unknown)
    with _explained(bridge):
        end = fly_on_live_map(bridge.bridge, query, typer.echo)
    typer.echo(f"{end.state}{f': {end.reason}' if end.reason else ''}")
    if end.state not in ("done", "offered"):
        raise typer.Exit(Exit.CHECK_FAILED)


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
        raise typer.BadParameter(f"{text!r} is not a place: write X,Y,Z in metres, such as 1,2.5,1", param_hint=option)
    return np.array(numbers)
