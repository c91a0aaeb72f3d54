"""``vil-bridge align`` and ``vil-bridge calibrate``."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer

from vil_bridge.cli.options import ConfigPath, JsonWithPrompts, Sets, load_config, quiet_logs
from vil_bridge.runtime.exit_codes import Exit

ActorName = Annotated[
    str,
    typer.Argument(metavar="ACTOR", help="A rigid body of the configuration.", show_default=False),
]


def refuse(reason: object) -> NoReturn:
    """Print why there is no result, and end."""
    typer.echo(f"refused: {reason}", err=True)
    raise typer.Exit(Exit.CHECK_FAILED)


def print_result(
    figures: dict[str, Any], text: str, keys: dict[str, Any], *, as_json: bool
) -> None:
    """Print a result with the keys to paste, as JSON or as text with YAML."""
    import json

    from vil_bridge.setup.align import report

    if as_json:
        typer.echo(json.dumps({**figures, "paste": keys}, indent=2))
    else:
        typer.echo(text)
        typer.echo(f"\nto paste:\n\n{report.as_yaml(keys)}", nl=False)


def align(
    config: ConfigPath,
    actor: ActorName,
    sets: Sets = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=5, help="Timeout for all moves, seconds.")
    ] = 180.0,
    as_json: JsonWithPrompts = False,
) -> None:
    """Find axes, handedness and pivot of a body by moving it.

    0 = found, 3 = refused with the reason.

    It asks to hold the body still, then to move it forward, left and up, to turn it left and to
    tilt it. It detects the end of each move, and prints the keys to paste into the configuration.
    Nothing is written, and only the source of this actor is started: `vil-bridge align lab.yaml
    drone`.
    """
    import asyncio
    import functools

    from vil_bridge.setup.align import report
    from vil_bridge.setup.align.guide import lead_moves
    from vil_bridge.setup.align.proposal import mounting_of, propose
    from vil_bridge.setup.align.sampling import rigid_actor
    from vil_bridge.setup.align.segmentation import CalibrationError

    loaded = load_config(config, sets)
    quiet_logs()
    body = loaded.actors[rigid_actor(loaded, actor)]
    source = loaded.sources[body.source]
    T_world_room = loaded.rooms[str(getattr(source, "room", ""))].T_world_room.transform()
    try:
        say = functools.partial(typer.echo, err=True)
        mounting = mounting_of(asyncio.run(lead_moves(loaded, actor, say, timeout_s)))
        proposal = propose(
            mounting, T_world_room=T_world_room, up_axis=getattr(source, "up_axis", None)
        )
    except CalibrationError as exc:
        refuse(exc)
    rows = report.view(mounting, proposal, T_world_room.rotation(), body.T_body_markers.transform())
    keys = report.keys_of(loaded, actor, proposal)
    figures = {
        "axes": dict(zip(("forward", "left", "up"), mounting.axes.names, strict=True)),
        "off_deg": mounting.axes.off_deg,
        "pivot_markers_m": mounting.pivot.p_markers_m.tolist(),
        "pivot_residual_m": mounting.pivot.residual_m,
        "view": {name: {"now": now, "after": then} for name, (now, then) in rows.items()},
    }
    print_result(figures, report.alignment_text(mounting, rows), keys, as_json=as_json)


def calibrate(
    config: ConfigPath,
    actor: ActorName,
    sets: Sets = None,
    seconds: Annotated[
        float, typer.Option(min=10, max=600, help="Length of the recording, seconds.")
    ] = 60.0,
    as_json: JsonWithPrompts = False,
) -> None:
    """Calibrate a body's markers against its IMU: 0 = found, 3 = refused with the reason.

    Turn the body briskly about all of its axes while it records. The poses and the inertial samples
    give rotation and translation, with their uncertainty, and the offset between the two clocks:
    `vil-bridge calibrate lab.yaml drone`.
    """
    import asyncio
    import functools
    import math

    from vil_bridge.core.errors import ConfigError
    from vil_bridge.setup.align import report
    from vil_bridge.setup.align.guide import record_shaking
    from vil_bridge.setup.align.hand_eye import calibrate as find
    from vil_bridge.setup.align.proposal import transform_keys
    from vil_bridge.setup.align.sampling import rigid_actor
    from vil_bridge.setup.align.segmentation import CalibrationError

    loaded = load_config(config, sets)
    quiet_logs()
    body = loaded.actors[rigid_actor(loaded, actor)]
    if body.imu is None:
        raise ConfigError(f"actor {actor!r} has no `imu:`; name the source of its inertial samples")
    try:
        say = functools.partial(typer.echo, err=True)
        poses, imu = asyncio.run(record_shaking(loaded, actor, body.imu, say, seconds))
        found = find(poses, imu)
    except CalibrationError as exc:
        refuse(exc)
    keys = {
        "actors": {
            actor: {
                "T_body_markers": transform_keys(body.T_body_imu.transform() @ found.T_imu_markers)
            }
        }
    }
    figures = {
        "sd_deg": math.degrees(found.sd_rad),
        "sd_m": found.sd_m,
        "offset_ns": found.offset_ns,
        "gyro_bias_radps": found.gyro_bias_radps.tolist(),
        "accel_bias_mps2": found.accel_bias_mps2.tolist(),
        "room_tilt_deg": found.room_tilt_deg,
    }
    print_result(figures, report.calibration_text(found), keys, as_json=as_json)
