"""The emulated lab.

Mocap servers of any kind, a serial IMU and bad networks, on real sockets and a real pty.

A student points the bridge at it instead of at hardware; the tests and the demo do the same.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vil_adapters.lab.captures import CaptureSpec
from vil_adapters.lab.link import LinkEmulator
from vil_adapters.lab.link_spec import LinkSpec
from vil_adapters.lab.motions import LabMotions
from vil_adapters.lab.servers import RunningServer, ServerSpec
from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_adapters.msp_imu.emulator import MspEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import ConfigError, RecordingError

DEFAULT_SERVERS: Final = (
    ServerSpec.parse("motive", "flight@1510,1511"),
    ServerSpec.parse("motive", "actor@1520,1521"),
)


@dataclass(frozen=True, slots=True)
class LabConfig:
    """Configuration of the emulated lab.

    Attributes:
        imu_link: path that appears as the vehicle's serial port.
        msp_link, msp_port: the same IMU behind a flight controller that speaks MSP, on a serial
            port or on a TCP port of loopback; None = there is none.
        epoch_ns: bridge time at which the motion starts; None = now.
    """

    servers: tuple[ServerSpec, ...] = DEFAULT_SERVERS
    links: tuple[LinkSpec, ...] = ()
    captures: tuple[CaptureSpec, ...] = ()
    imu_link: Path = Path("out/lab/imu")
    msp_link: Path | None = None
    msp_port: int | None = None
    epoch_ns: int | None = None


async def run_lab(
    motions: LabMotions, config: LabConfig, report: Callable[[str], None] = lambda _: None
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        motions: what happens in the rooms.
        config: the servers and their addresses.
        report: called with lines for people.

    Raises:
        ExceptionGroup: of ``ConfigError`` where a port is in use or the IMU's link cannot be made,
            else of bugs.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, stop.set)
    epoch_ns = now_ns() if config.epoch_ns is None else config.epoch_ns
    runs = [
        _named(server.title, _server(motions, server, epoch_ns).run()) for server in config.servers
    ]
    runs += [
        _named(f"link {link.listen[0]}:{link.listen[1]}", LinkEmulator(link).run())
        for link in config.links
    ]
    runs += [_named(capture.title, _replay(capture, report)) for capture in config.captures]
    if motions.imu is not None:
        imu = SerialImuEmulator(motions.imu, epoch_ns, config.imu_link)
        runs.append(_named(f"IMU {config.imu_link}", imu.run()))
        if config.msp_link is not None:
            runs.append(
                _named(
                    f"MSP {config.msp_link}",
                    MspEmulator(motions.imu, epoch_ns, config.msp_link).run(),
                )
            )
        if config.msp_port is not None:
            by_tcp = MspEmulator(motions.imu, epoch_ns, port=config.msp_port)
            runs.append(_named(f"MSP on TCP port {config.msp_port}", by_tcp.run()))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run) for run in runs]
        await stop.wait()
        for task in tasks:
            task.cancel()


def _server(motions: LabMotions, server: ServerSpec, epoch_ns: int) -> RunningServer:
    """Return the emulator of a server, not running yet."""
    room = motions.flight if server.room == "flight" else motions.actor
    return server.open(room.motion, room.rate_hz, epoch_ns)


async def _replay(capture: CaptureSpec, report: Callable[[str], None]) -> None:
    await capture.open().run()
    report(f"{capture.title}: the capture has ended")


async def _named(title: str, run: Coroutine[Any, Any, None]) -> None:
    """Run, and name what could not be opened."""
    try:
        await run
    except OSError as exc:
        raise ConfigError(f"{title}: {exc.strerror or exc}") from exc
    except RecordingError as exc:
        raise ConfigError(str(exc)) from exc
