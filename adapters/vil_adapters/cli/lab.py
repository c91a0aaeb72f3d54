"""``vil-bridge lab``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vil_adapters.lab.motions import LabMotions
    from vil_adapters.lab.run import LabConfig

lab = typer.Typer()
_PLACE = "[ROOM@][ADDRESS:]PORT"


def _server(title: str) -> typer.models.OptionInfo:
    """Return an option that adds servers of one kind."""
    help_text = f"Emulate {title} there; ROOM is flight (default) or actor; may be repeated."
    option: typer.models.OptionInfo = typer.Option(
        metavar=_PLACE, help=help_text, show_default=False
    )
    return option


_Texts = list[str] | None
Recording = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a real flight (EuRoC layout), or any file of the `motion-file` source; "
        "none = a simulated drone and a simulated human."
    ),
]
Carried = Annotated[
    bool,
    typer.Option(
        "--carried", help="Move the drone as if carried through the moves of `align`, in a loop."
    ),
]
Seconds = Annotated[
    float, typer.Option(min=0, help="Cut a folder's flight to its events; 0 = all, looped.")
]
_MOTIVE = (
    "OptiTrack Motive (PORT is COMMAND[,DATA][,VERSION][,multicast], e.g. 1510,1511,3.0,multicast)"
)
Motive = Annotated[_Texts, _server(_MOTIVE)]
Tracker = Annotated[_Texts, _server("Vicon Tracker's DataStream")]
TrackerUdp = Annotated[_Texts, _server("the sender of Vicon Tracker's UDP objects")]
Vrpn = Annotated[_Texts, _server("a VRPN server")]
Qtm = Annotated[_Texts, _server("Qualisys QTM")]
FaultTexts = Annotated[
    _Texts,
    typer.Option(
        metavar="[SERVER:]FAULTS",
        help="Inject faults, e.g. motive:loss=5%,occlude=drone:1s@10s/30s; SERVER is a kind "
        "or a room, "
        "none = all; may be repeated.",
        show_default=False,
    ),
]
Link = Annotated[
    _Texts,
    typer.Option(
        metavar="[tcp:][HOST:]PORT=[HOST:]PORT[:FAULTS]",
        help="Emulate a bad network from the first port to the second, e.g. "
        "tcp:7100=7000:delay=20ms±5,cut=1s@10s; "
        "may be repeated.",
        show_default=False,
    ),
]
ReplayCapture = Annotated[
    _Texts,
    typer.Option(
        metavar="[ADDRESS:]PORT=FILE",
        help="Replay a capture of `debug.packet_capture`, Wireshark or tcpdump: its Motive "
        "listens there, Tracker's "
        "UDP objects are sent there; may be repeated.",
        show_default=False,
    ),
]
FlightPorts = Annotated[
    str, typer.Option(help="Ports of Motive in the flight room, without any server option.")
]
ActorPorts = Annotated[
    str, typer.Option(help="Ports of Motive in the actor room, without any server option.")
]
ImuPath = Annotated[Path, typer.Option(help="Path that appears as the vehicle's serial port.")]
MspPath = Annotated[
    Path | None,
    typer.Option(
        help="Path that appears as the serial port of a controller with MSP.", show_default=False
    ),
]
MspPort = Annotated[
    int | None, typer.Option(min=1, max=65535, help="TCP port of the same.", show_default=False)
]
Epoch = Annotated[
    int | None, typer.Option(help="Monotonic time of the motion's start; none = now.")
]


@lab.callback(invoke_without_command=True)
def emulate(
    context: typer.Context,
    recording: Recording = None,
    carried: Carried = False,
    seconds: Seconds = 0,
    motive: Motive = None,
    tracker: Tracker = None,
    tracker_udp: TrackerUdp = None,
    vrpn: Vrpn = None,
    qtm: Qtm = None,
    faults: FaultTexts = None,
    link: Link = None,
    replay_capture: ReplayCapture = None,
    flight_ports: FlightPorts = "1510,1511",
    actor_ports: ActorPorts = "1520,1521",
    imu: ImuPath = Path("out/lab/imu"),
    msp: MspPath = None,
    msp_port: MspPort = None,
    epoch_ns: Epoch = None,
) -> None:
    """Emulate a lab on loopback.

    Mocap servers, an IMU on a serial port, bad networks, until Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    import asyncio

    from vil_adapters.lab.captures import CaptureSpec
    from vil_adapters.lab.link_spec import LinkSpec
    from vil_adapters.lab.run import LabConfig, run_lab
    from vil_adapters.lab.servers import ServerSpec, with_faults
    from vil_bridge.core.errors import ConfigError

    wanted = {
        "motive": motive,
        "tracker": tracker,
        "tracker-udp": tracker_udp,
        "vrpn": vrpn,
        "qtm": qtm,
    }
    servers = [
        ServerSpec.parse(kind, text) for kind, texts in wanted.items() for text in texts or ()
    ]
    captures = tuple(CaptureSpec.parse(text) for text in replay_capture or ())
    if not servers and not captures:
        usual = (("flight", flight_ports), ("actor", actor_ports))
        servers = [ServerSpec.parse("motive", f"{room}@{ports}") for room, ports in usual]
    links = tuple(LinkSpec.parse(text) for text in link or ())
    config = LabConfig(
        with_faults(servers, faults or ()), links, captures, imu, msp, msp_port, epoch_ns
    )
    motions = _motions(recording, seconds, carried=carried)
    _print_plan(config, motions)
    try:
        asyncio.run(run_lab(motions, config, report=lambda text: print(text, flush=True)))
    except ExceptionGroup as group:
        wrong, bugs = group.split(ConfigError)
        if wrong is None or bugs is not None:
            raise
        raise ConfigError([str(exc) for exc in wrong.exceptions]) from None


def _motions(recording: Path | None, seconds: float, *, carried: bool) -> LabMotions:
    """Return the motions that the emulated cameras see.

    Raises:
        ConfigError: two kinds of motion were given.
    """
    from vil_adapters.lab.motions import LabMotions
    from vil_bridge.core.errors import ConfigError

    if carried and recording is not None:
        raise ConfigError("--carried and --recording: choose one")
    if carried:
        return LabMotions.carried()
    return LabMotions.simulated() if recording is None else LabMotions.recorded(recording, seconds)


def _print_plan(config: LabConfig, motions: LabMotions) -> None:
    """Print everything that the lab emulates."""
    for server in config.servers:
        room = motions.flight if server.room == "flight" else motions.actor
        print(f"{server.room} room: {server.title}, subjects {', '.join(room.subjects)}")
    for capture in config.captures:
        print(f"capture: {capture.title}")
    for link in config.links:
        print(
            f"link: {link.protocol} {link.listen[0]}:{link.listen[1]} to "
            f"{link.target[0]}:{link.target[1]}"
        )
    if motions.imu is not None:
        ways = [f"MAVLink on {config.imu_link}"]
        ways += [f"MSP on {config.msp_link}"] * (config.msp_link is not None)
        ways += [f"MSP on TCP port {config.msp_port}"] * (config.msp_port is not None)
        print(f"IMU: {', '.join(ways)}")
    print("running until Ctrl-C", flush=True)
