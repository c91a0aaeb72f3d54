"""``vil-bridge lab``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["lab"]


def _two_ports(text: str) -> tuple[int, int]:
    command, comma, data = text.partition(",")
    try:
        ports = int(command), int(data)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write COMMAND,DATA such as 1510,1511") from None
    if not comma or not all(0 <= p <= 65535 for p in ports):
        raise typer.BadParameter(f"{text!r}: ports are 0 to 65535")
    return ports


def lab(
    recording: Annotated[
        Path | None, typer.Option(help="Folder of a real flight (EuRoC layout); none = a simulated drone.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Cut the recording to its events; 0 = all of it, looped.")] = 0,
    flight_ports: Annotated[str, typer.Option(help="NatNet ports COMMAND,DATA of the flight room.")] = "1510,1511",
    actor_ports: Annotated[str, typer.Option(help="NatNet ports COMMAND,DATA of the actor room.")] = "1520,1521",
    imu: Annotated[Path, typer.Option(help="Path that appears as the vehicle's serial port.")] = Path("out/lab/imu"),
    epoch_ns: Annotated[int | None, typer.Option(help="Monotonic time of the motion's start; none = now.")] = None,
) -> None:
    """Emulate a lab on loopback: two Motive servers and an IMU on a serial port, until Ctrl-C."""
    import asyncio

    from vil_bridge.lab.run import LabConfig, run_lab
    from vil_bridge.scenario import HUMAN_SUBJECT, VEHICLE_SUBJECT, Scenario

    config = LabConfig(
        flight_ports=_two_ports(flight_ports),
        actor_ports=_two_ports(actor_ports),
        imu_link=imu,
        epoch_ns=epoch_ns,
    )
    scenario = Scenario.simulated() if recording is None else Scenario.recorded(recording, seconds)
    print(f"flight room: Motive at 127.0.0.1:{config.flight_ports[0]}, rigid body {VEHICLE_SUBJECT!r}")
    print(f"actor room:  Motive at 127.0.0.1:{config.actor_ports[0]}, skeleton {HUMAN_SUBJECT!r}")
    print(f"IMU:         MAVLink on {config.imu_link}", flush=True)
    asyncio.run(run_lab(scenario, config))
