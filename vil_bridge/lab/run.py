"""The emulated lab: two Motive servers and a serial IMU on real sockets and a real pty.

What they film and feel is a :class:`~vil_bridge.scenario.Scenario`. A student points the bridge at it
instead of at hardware; the tests and the demo do the same.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.scenario import Scenario

__all__ = ["LabConfig", "run_lab"]

_HUMAN_RATE_HZ = 60.0
_CLOCK_OFFSETS_S = (1000.0, 5000.0)


@dataclass(frozen=True, slots=True)
class LabConfig:
    """Where the emulated lab is found.

    Attributes:
        flight_ports, actor_ports: NatNet command and data ports of the two rooms; 0 = any free one.
        imu_link: path that appears as the vehicle's serial port.
        epoch_ns: bridge time at which the motion starts; None = now.
    """

    flight_ports: tuple[int, int] = (1510, 1511)
    actor_ports: tuple[int, int] = (1520, 1521)
    imu_link: Path = Path("out/lab/imu")
    epoch_ns: int | None = None


async def run_lab(scenario: Scenario, config: LabConfig) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        OSError: a port is in use or the link cannot be made.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(sig, stop.set)
    epoch_ns = now_ns() if config.epoch_ns is None else config.epoch_ns
    rooms = (
        (scenario.vehicle, config.flight_ports, scenario.mocap_rate_hz),
        (scenario.human, config.actor_ports, _HUMAN_RATE_HZ),
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(SerialImuEmulator(scenario.vehicle, epoch_ns, config.imu_link).run())]
        for (motion, ports, rate_hz), offset_s in zip(rooms, _CLOCK_OFFSETS_S, strict=True):
            emulator_config = MotiveEmulatorConfig(
                command_port=ports[0], data_port=ports[1], rate_hz=rate_hz, clock_offset_s=offset_s
            )
            tasks.append(group.create_task(MotiveEmulator(emulator_config, motion, epoch_ns).run()))
        await stop.wait()
        for task in tasks:
            task.cancel()
