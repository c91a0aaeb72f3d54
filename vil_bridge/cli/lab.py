"""``vil-bridge lab``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["lab"]

_PLACE = "[ROOM@][ADDRESS:]PORT"


def _server(title: str) -> typer.models.OptionInfo:
    """An option that adds servers of one kind."""
    help_text = f"Emulate {title} there; ROOM is flight (default) or actor; may be repeated."
    option: typer.models.OptionInfo = typer.Option(metavar=_PLACE, help=help_text, show_default=False)
    return option


def lab(
    recording: Annotated[
        Path | None,
        typer.Option(
            help="A real flight (folder, EuRoC layout), or any file that the `motion-file` source reads; "
            "none = a simulated drone and a simulated human."
        ),
    ] = None,
    carried: Annotated[
        bool,
        typer.Option("--carried", help="Somebody carries the drone through the moves of `align`, again and again."),
    ] = False,
    seconds: Annotated[float, typer.Option(min=0, help="Cut a folder's flight to its events; 0 = all, looped.")] = 0,
    motive: Annotated[
        list[str] | None,
        _server("OptiTrack Motive (PORT is COMMAND[,DATA][,VERSION][,multicast], such as 1510,1511,3.0,multicast)"),
    ] = None,
    tracker: Annotated[list[str] | None, _server("Vicon Tracker's DataStream")] = None,
    tracker_udp: Annotated[list[str] | None, _server("the sender of Vicon Tracker's UDP objects")] = None,
    vrpn: Annotated[list[str] | None, _server("a VRPN server")] = None,
    qtm: Annotated[list[str] | None, _server("Qualisys QTM")] = None,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[SERVER:]FAULTS",
            help="What goes wrong, such as motive:loss=5%,occlude=drone:1s@10s/30s; SERVER is a kind or a room, "
            "none = all; may be repeated.",
            show_default=False,
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[tcp:][HOST:]PORT=[HOST:]PORT[:FAULTS]",
            help="A bad network from the first port to the second, such as tcp:7100=7000:delay=20ms±5,cut=1s@10s; "
            "may be repeated.",
            show_default=False,
        ),
    ] = None,
    replay_capture: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ADDRESS:]PORT=FILE",
            help="Play a capture of `debug.packet_capture`, Wireshark or tcpdump: its Motive listens there, Tracker's UDP "
            "objects are sent there; may be repeated.",
            show_default=False,
        ),
    ] = None,
    flight_ports: Annotated[str, typer.Option(help="Without any server option: Motive in the flight room.")] = (
        "1510,1511"
    ),
    actor_ports: Annotated[str, typer.Option(help="Without any server option: Motive in the actor room.")] = (
        "1520,1521"
    ),
    imu: Annotated[Path, typer.Option(help="Path that appears as the vehicle's serial port.")] = Path("out/lab/imu"),
    msp: Annotated[
        Path | None,
        typer.Option(help="Path that appears as the serial port of a controller that speaks MSP.", show_default=False),
    ] = None,
    msp_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The same on a TCP port.", show_default=False)
    ] = None,
    epoch_ns: Annotated[int | None, typer.Option(help="Monotonic time of the motion's start; none = now.")] = None,
) -> None:
    """Emulate a lab on loopback: mocap servers, an IMU on a serial port, bad networks, until Ctrl-C."""
    import asyncio

    from vil_bridge.core.errors import ConfigError
    from vil_bridge.tools.lab.captures import CaptureSpec
    from vil_bridge.tools.lab.link_spec import LinkSpec
    from vil_bridge.tools.lab.motions import LabMotions
    from vil_bridge.tools.lab.run import LabConfig, run_lab
    from vil_bridge.tools.lab.servers import ServerSpec, with_faults

    asked = {"motive": motive, "tracker": tracker, "tracker-udp": tracker_udp, "vrpn": vrpn, "qtm": qtm}
    servers = [ServerSpec.parse(kind, text) for kind, texts in asked.items() for text in texts or ()]
    captures = tuple(CaptureSpec.parse(text) for text in replay_capture or ())
    if not servers and not captures:
        usual = (("flight", flight_ports), ("actor", actor_ports))
        servers = [ServerSpec.parse("motive", f"{room}@{ports}") for room, ports in usual]
    config = LabConfig(
        servers=with_faults(servers, faults or ()),
        captures=captures,
        links=tuple(LinkSpec.parse(text) for text in link or ()),
        imu_link=imu,
        msp_link=msp,
        msp_port=msp_port,
        epoch_ns=epoch_ns,
    )
    if carried and recording is not None:
        raise ConfigError("--carried and --recording: choose one")
    if carried:
        filmed = LabMotions.carried()
    else:
        filmed = LabMotions.simulated() if recording is None else LabMotions.recorded(recording, seconds)
    for server in config.servers:
        room = filmed.flight if server.room == "flight" else filmed.actor
        print(f"{server.room} room: {server.title}, subjects {', '.join(room.subjects)}")
    for capture in captures:
        print(f"capture: {capture.title}")
    for road in config.links:
        print(f"link: {road.protocol} {road.listen[0]}:{road.listen[1]} to {road.target[0]}:{road.target[1]}")
    if filmed.imu is not None:
        ways = [f"MAVLink on {config.imu_link}"]
        ways += [f"MSP on {msp}"] * (msp is not None) + [f"MSP on TCP port {msp_port}"] * (msp_port is not None)
        print(f"IMU: {', '.join(ways)}")
    print("running until Ctrl-C", flush=True)
    try:
        asyncio.run(run_lab(filmed, config, report=lambda text: print(text, flush=True)))
    except ExceptionGroup as group:
        wrong, bugs = group.split(ConfigError)
        if wrong is None or bugs is not None:
            raise
        raise ConfigError([str(exc) for exc in wrong.exceptions]) from None
