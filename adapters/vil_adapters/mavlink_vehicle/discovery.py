"""Search for vehicles: serial devices by name, never opened, and heartbeats on UDP ports."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from serial.tools import list_ports

from vil_adapters.mavlink_vehicle.config import MavlinkVehicleConfig
from vil_adapters.sessions.discovery import LOOPBACK
from vil_adapters.sessions.mavlink_session import HEARTBEAT, OUR_COMPONENT, OUR_SYSTEM
from vil_bridge.interfaces.ports import FoundSource
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.transports import UdpTransport
from vil_bridge.runtime.network import host_and_port, resolve

_PORT: Final[int] = MavlinkVehicleConfig.model_fields["port"].default
_POLL_S: Final = 0.05
_AUTOPILOTS: Final = {3: "ArduPilot", 12: "PX4"}


async def discover(targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
    """List serial devices, and the vehicles that send from each target.

    Each target is ``host`` (its vehicle sends to port 14540 here) or ``host:port`` (sends there, or
    listens at that port of the host); none = this computer.

    Raises:
        ConfigError: a target is neither.
    """
    found = await asyncio.gather(*(_listen(target, timeout_s) for target in targets or (LOOPBACK,)))
    return [*_serial_devices(), *(source for group in found for source in group)]


def _serial_devices() -> list[FoundSource]:
    return [
        FoundSource(
            "mavlink-vehicle",
            {"device": port.device},
            f"serial device, not opened: {port.description}",
        )
        for port in sorted(list_ports.comports(include_links=True))
    ]


async def _listen(target: str, timeout_s: float) -> list[FoundSource]:
    """Return the vehicles of one computer, by both directions at once."""
    host, port = host_and_port(target, _PORT)
    ports: list[tuple[int, int | None]] = [(port, None)]
    if ":" in target:
        ports.append((0, port))
    try:
        ip = await resolve(host, port)
    except OSError:
        return []
    found = await asyncio.gather(
        *(_receive(host, ip, local, remote, timeout_s) for local, remote in ports)
    )
    return [source for group in found for source in group]


async def _receive(
    host: str, ip: str, port: int, peer_port: int | None, timeout_s: float
) -> list[FoundSource]:
    with contextlib.ExitStack() as stack:
        try:
            transport = stack.enter_context(
                contextlib.closing(UdpTransport(ip, port, peer_port, Counter()))
            )
        except OSError:
            return []  # no route, or the port is in use: by a bridge that is running, most likely
        systems: dict[int, int] = {}
        poses: Counter[int] = Counter()
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        transport.send(framing.encode(HEARTBEAT, 0, system=OUR_SYSTEM, component=OUR_COMPONENT))
        parser = framing.MavlinkParser()
        while loop.time() < until:
            while (data := transport.receive()) is not None:
                for message in parser.feed(data):
                    if isinstance(message.body, mavlink.Heartbeat):
                        systems[message.system] = message.body.autopilot
                    poses[message.system] += isinstance(
                        message.body, mavlink.Odometry | mavlink.LocalPositionNed
                    )
            await asyncio.sleep(_POLL_S)
    keys: dict[str, Any] = {"peer": host, "port": port}
    if peer_port is not None:
        keys["peer_port"] = peer_port
    default: str = MavlinkVehicleConfig.model_fields["subject"].default
    return [
        FoundSource(
            "mavlink-vehicle",
            {**keys, "system": system},
            f"{_AUTOPILOTS.get(autopilot, 'autopilot')}, system {system}",
            ((default, round(poses[system] / timeout_s, 1) if poses[system] else None),),
        )
        for system, autopilot in sorted(systems.items())
        if autopilot != mavlink.AUTOPILOT_INVALID
    ]
