"""``vil-bridge fly``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vil_bridge.cli.connect import TokenFile, Where, reach
from vil_bridge.cli.options import Sets
from vil_bridge.runtime.exit_codes import Exit


def fly(
    where: Where = "http://127.0.0.1:8080",
    subject: Annotated[
        str, typer.Option(help="Name of the simulated vehicle in its source.")
    ] = "drone",
    gamepad: Annotated[
        Path | None, typer.Option(help="Joystick device, such as /dev/input/js0; none = keys only.")
    ] = None,
    axes: Annotated[
        str, typer.Option(help="Numbers of the gamepad's axes for forward, left, up, turn.")
    ] = "4,3,1,0",
    speed: Annotated[float, typer.Option(min=0.01, max=50.0, help="At full stick, m/s.")] = 2.0,
    turn: Annotated[float, typer.Option(min=0.01, max=20.0, help="At full stick, rad/s.")] = 1.5,
    sets: Sets = None,
    token_file: TokenFile = None,
) -> None:
    """Fly a simulated vehicle of a running bridge with the keyboard or a gamepad.

    Ends with 0 when the pilot quits (q), with 3 when no bridge answers or it has no such vehicle.
    """
    import contextlib

    from vil_bridge.core.errors import VilBridgeError
    from vil_simulation.race.piloting import Gamepad, HttpVehicleClient
    from vil_simulation.race.piloting import fly as fly_by_hand

    numbers = axes.split(",")
    if len(numbers) != 4 or not all(number.strip().isdigit() for number in numbers):
        raise typer.BadParameter("--axes takes four numbers, such as 4,3,1,0")
    forward, left, up, turning = (int(number) for number in numbers)
    bridge = reach(where, sets, token_file, role="control")
    link = HttpVehicleClient(bridge.url, subject, bridge.headers, bridge.tls)
    with contextlib.ExitStack() as stack:
        stack.callback(link.close)
        try:
            pad = None if gamepad is None else Gamepad(gamepad, (forward, left, up, turning))
            if pad is not None:
                stack.callback(pad.close)
            link.state()
            with contextlib.suppress(KeyboardInterrupt):
                typer.echo(fly_by_hand(link, pad, speed_mps=speed, turn_radps=turn), err=True)
        except VilBridgeError as exc:
            typer.echo(f"error: {exc}", err=True)
            raise typer.Exit(Exit.CHECK_FAILED) from None
        except OSError:
            typer.echo(f"no bridge answers at {bridge.site}: is `vil-bridge run` up?", err=True)
            raise typer.Exit(Exit.CHECK_FAILED) from None
