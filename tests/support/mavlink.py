"""Help for the tests of the serial IMU.

A motion, our emulator and a reference autopilot, a source at work.
"""

from __future__ import annotations

import asyncio
import os
import tty
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pymavlink.dialects.v20 import common as reference

from tests.support.events import Received, receiving
from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_adapters.mavlink_imu.source import MavlinkImuSource
from vil_bridge.core.clock import Ticker
from vil_bridge.core.types import FloatArray, ImuSample
from vil_bridge.interfaces.ports import PoseSource

BOOT_NS = 41_000_000_000
BACKLOG_NS = 100_000_000
"""Age of a sample beyond which an emulator that was late leaves it out."""
G = 9.80665


class Shaking:
    """Samples on an even grid whose six values are different functions of time."""

    def __init__(self, period_ns: int = 4_000_000) -> None:
        self.period_ns = period_ns

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        first, last = after_ns // self.period_ns + 1, until_ns // self.period_ns
        return [self.sample(k * self.period_ns) for k in range(first, last + 1)]

    @staticmethod
    def sample(t_ns: int) -> tuple[int, FloatArray, FloatArray]:
        t = t_ns * 1e-9
        return (
            t_ns,
            np.array([np.sin(t), 2 * np.cos(t), -0.5]),
            np.array([1.5, -np.sin(3 * t), G + np.cos(t)]),
        )


class Noted(Shaking):
    """Motion that notes which times it was asked for, and the stamps of what it gave."""

    def __init__(self, period_ns: int = 4_000_000) -> None:
        super().__init__(period_ns)
        self.asked: list[tuple[int, int]] = []
        self.stamps_ns: list[int] = []

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        samples = super().imu_between(after_ns, until_ns)
        self.asked.append((after_ns, until_ns))
        self.stamps_ns += [BOOT_NS + t_ns for t_ns, _, _ in samples]
        return samples

    def check_nothing_left_out(self) -> None:
        """Fail unless it was asked for all of its time, but for what an emulator that was late
        leaves out.
        """
        for (_, done_ns), (after_ns, until_ns) in pairwise(self.asked):
            assert after_ns == max(done_ns, until_ns - BACKLOG_NS)

    def steps(self, stamps_ns: list[int]) -> list[int]:
        """Return by how many samples each stamp is after the one before, where none was left out
        in between.
        """
        places = [self.stamps_ns.index(t_ns) for t_ns in stamps_ns]
        return [
            after - before
            for before, after in pairwise(places)
            if self.stamps_ns[after] - self.stamps_ns[before] == (after - before) * self.period_ns
        ]


def reading(device: Path, **options: Any) -> AbstractAsyncContextManager[Received]:
    """A source at work on ``device``."""
    source = MavlinkImuSource("imu", MavlinkImuConfig(device=str(device), **options))
    assert isinstance(source, PoseSource)
    return receiving(source)


def stamps_ns(got: Received) -> list[int]:
    """By the sensor's clock, of all samples so far."""
    return [sample.t_foreign_ns for sample in got.of(ImuSample) if sample.t_foreign_ns is not None]


def emulator(link: Path, epoch_ns: int, **options: Any) -> SerialImuEmulator:
    return SerialImuEmulator(Shaking(), epoch_ns, link, boot_offset_ns=BOOT_NS, **options)


class Autopilot:
    """One side of a terminal, spoken to by the reference implementation."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.heard: list[Any] = []
        self._mav = reference.MAVLink(self, srcSystem=7, srcComponent=1)
        self._mav.robust_parsing = True
        asyncio.get_running_loop().add_reader(fd, self._on_readable)

    def write(self, data: bytes) -> None:
        os.write(self.fd, bytes(data))

    def send(self, message: Any) -> None:
        self._mav.send(message)

    def _on_readable(self) -> None:
        self.heard += self._mav.parse_buffer(os.read(self.fd, 4096)) or []

    def of(self, name: str) -> list[Any]:
        return [message for message in self.heard if message.get_type() == name]

    def heartbeat(self) -> None:
        self.send(reference.MAVLink_heartbeat_message(2, 12, 0, 0, 4, 3))

    def refuse(self, result: int) -> None:
        self.send(reference.MAVLink_command_ack_message(511, result, 0, 0, 1, 191))

    def asked_for(self) -> list[float]:
        return [message.param1 for message in self.of("COMMAND_LONG")]

    def highres(self, time_usec: int, gyro: float = 0.5, fields: int = 0x3F, imu: int = 0) -> None:
        self.send(
            reference.MAVLink_highres_imu_message(
                time_usec, 0.1, 0.2, -9.8, gyro, 0.6, 0.7, 0, 0, 0, 0, 0, 0, 0, fields, imu
            )
        )


@contextmanager
def every(period_ms: int, action: Callable[[], None]) -> Iterator[None]:
    """Do something again and again."""
    ticker = Ticker(period_ms * 1_000_000, lambda _due_ns, _missed: action())
    ticker.start()
    try:
        yield
    finally:
        ticker.stop()


@contextmanager
def terminal() -> Iterator[tuple[int, Path]]:
    """A raw pseudo-terminal.

    Its near end, which the running loop forgets in the end, and the far end's device.
    """
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        yield master, Path(os.ttyname(slave))
    finally:
        asyncio.get_running_loop().remove_reader(master)
        os.close(slave)
        os.close(master)


@contextmanager
def autopilot() -> Iterator[tuple[Autopilot, Path]]:
    with terminal() as (master, device):
        yield Autopilot(master), device
