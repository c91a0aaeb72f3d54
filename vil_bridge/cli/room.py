"""``vil-bridge room align``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vil_bridge.cli.align import print_result, refuse
from vil_bridge.cli.options import ConfigPath, JsonWithPrompts, Sets, load_config, quiet_logs

if TYPE_CHECKING:
    from vil_bridge.config.root import BridgeConfig

room = typer.Typer(help="Place tracked rooms in the shared world.", no_args_is_help=True)

Body = Annotated[
    str, typer.Option(metavar="ACTOR", help="Body of the room; needed if the room has several.")
]


@room.callback()
def _rooms() -> None:
    """Place tracked rooms in the shared world."""


@room.command("align")
def align_rooms(
    config: ConfigPath,
    room_a: Annotated[
        str, typer.Argument(metavar="ROOM_A", help="Room that stays.", show_default=False)
    ],
    room_b: Annotated[
        str, typer.Argument(metavar="ROOM_B", help="Room to place.", show_default=False)
    ],
    sets: Sets = None,
    body_a: Body = "",
    body_b: Body = "",
    wand: Annotated[
        bool, typer.Option("--wand", help="Carry one body that both rooms see.")
    ] = False,
    spots: Annotated[int, typer.Option(min=2, max=20, help="Number of marks.")] = 3,
    seconds: Annotated[float, typer.Option(min=2, help="Time to carry the wand (seconds).")] = 20.0,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=5, help="Timeout for visiting all marks (seconds).")
    ] = 300.0,
    tilted: Annotated[
        bool,
        typer.Option("--tilted", help="Fit all three angles, for a room whose z is not vertical."),
    ] = False,
    as_json: JsonWithPrompts = False,
) -> None:
    """Place one room in another's world: 0 = found, 3 = refused with the reason.

    Place a body at marks on the floor of each room, in the same order: the marks will coincide in
    the world. Or carry a wand that both rooms see: `vil-bridge room align lab.yaml flight actor
    --wand`.
    """
    import asyncio
    import functools

    from vil_bridge.core.room_registration import place_by_points
    from vil_bridge.setup.align import report
    from vil_bridge.setup.align.guide import lead_spots, record_wand
    from vil_bridge.setup.align.proposal import transform_keys
    from vil_bridge.setup.align.segmentation import CalibrationError

    loaded = load_config(config, sets)
    quiet_logs()
    _check_rooms(loaded, room_a, room_b)
    bodies = _body(loaded, room_a, body_a), _body(loaded, room_b, body_b)
    say = functools.partial(typer.echo, err=True)
    guide = (
        record_wand(loaded, bodies, say, seconds)
        if wand
        else lead_spots(loaded, bodies, spots, say, timeout_s)
    )
    try:
        p_a_m, p_b_m = asyncio.run(guide)
        p_world_m = loaded.rooms[room_a].T_world_room.transform().apply(p_a_m)
        placement = place_by_points(p_world_m, p_b_m, yaw_only=not tilted)
    except (CalibrationError, ValueError) as exc:
        refuse(exc)
    keys = {"rooms": {room_b: {"T_world_room": transform_keys(placement.T_world_room)}}}
    figures = {"residuals_m": placement.residuals_m.tolist()}
    print_result(figures, report.placement_text(placement), keys, as_json=as_json)


def _check_rooms(config: BridgeConfig, *rooms: str) -> None:
    """Refuse unknown rooms, and one room twice.

    Raises:
        ConfigError: as above.
    """
    from vil_bridge.config.references import similar
    from vil_bridge.core.errors import ConfigError

    for name in rooms:
        if name not in config.rooms:
            known = ", ".join(config.rooms) or "none"
            raise ConfigError(
                f"no room is named {name!r}; known: {known}{similar(name, config.rooms)}"
            )
    if len(set(rooms)) < len(rooms):
        raise ConfigError(f"{rooms[0]!r} cannot be placed against itself: name two rooms")


def _body(config: BridgeConfig, name: str, body: str) -> str:
    """Return the rigid body with which a room is placed.

    Raises:
        ConfigError: the room has no such body, or several and no choice.
    """
    from vil_bridge.core.errors import ConfigError
    from vil_bridge.core.types import ActorKind
    from vil_bridge.setup.align.sampling import rigid_actor

    here = [
        actor
        for actor, a in config.actors.items()
        if a.kind is not ActorKind.HUMAN and getattr(config.sources[a.source], "room", None) == name
    ]
    if body:
        if rigid_actor(config, body) not in here:
            raise ConfigError(
                f"{body!r} is not in room {name!r}; there: {', '.join(here) or 'no rigid body'}"
            )
        return body
    if len(here) != 1:
        listed = f"{', '.join(here)}; name it with --body-a or --body-b" if here else "none"
        raise ConfigError(f"room {name!r} needs one rigid body to be placed with, it has: {listed}")
    return here[0]
