"""The serial IMU source on real pseudo-terminals: against our emulator, and against pymavlink."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import tty
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as reference

from tests.support import ROOT
from vil_adapters import mavlink_request
from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_adapters.mavlink_imu.source import MavlinkImuSource
from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.core.ports import PoseSource
from vil_bridge.core.supervisor import ComponentState, Status
from vil_bridge.core.types import ClockExchange, FloatArray, ImuSample, SourceEvent, SourceReset

BOOT_NS = 41_000_000_000
G = 9.80665


class Shaking:
    """Samples on an even grid whose six values are different functions of time."""

    def __init__(self, period_ns: int = 4_000_000) -> None:
        self._period_ns = period_ns

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        first, last = after_ns // self._period_ns + 1, until_ns // self._period_ns
        return [self.sample(k * self._period_ns) for k in range(first, last + 1)]

    @staticmethod
    def sample(t_ns: int) -> tuple[int, FloatArray, FloatArray]:
        t = t_ns * 1e-9
        return t_ns, np.array([np.sin(t), 2 * np.cos(t), -0.5]), np.array([1.5, -np.sin(3 * t), G + np.cos(t)])


class Events:
    """What a source emitted, and a way to wait for more."""

    def __init__(self) -> None:
        self.all: list[SourceEvent] = []
        self._news = asyncio.Event()

    def emit(self, event: SourceEvent) -> None:
        self.all.append(event)
        self._news.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]

    async def until(self, done: Callable[[], bool], seconds: float = 5.0) -> None:
        """Wait for a condition, looked at after each event and ten times a second."""
        async with asyncio.timeout(seconds):
            while not done():
                self._news.clear()
                try:
                    async with asyncio.timeout(0.1):
                        await self._news.wait()
                except TimeoutError:
                    continue


@asynccontextmanager
async def running(device: Path, **options: Any) -> AsyncIterator[tuple[Events, Status]]:
    """A source reading ``device``."""
    source = MavlinkImuSource("imu", MavlinkImuConfig(device=str(device), **options))
    assert isinstance(source, PoseSource)
    events, status = Events(), Status("imu")
    task = asyncio.create_task(source.run(events.emit, status))
    try:
        yield events, status
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def emulator(link: Path, epoch_ns: int, **options: Any) -> SerialImuEmulator:
    return SerialImuEmulator(Shaking(), epoch_ns, link, boot_offset_ns=BOOT_NS, **options)


@pytest.mark.parametrize(
    ("message", "tolerance", "stamp_ns"), [("highres", 1e-6, 1_000), ("scaled", 5e-3, 1_000_000), ("raw", 5e-3, 1_000)]
)
async def test_samples_arrive_in_flu_with_the_sensors_time(
    tmp_path: Path, message: str, tolerance: float, stamp_ns: int
) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns()
    with emulator(link, epoch_ns, message=message):
        async with running(link) as (events, status):
            await events.until(lambda: len(events.of(ImuSample)) >= 50)
            assert status.state is ComponentState.RUNNING
            assert status.facts["message"] == message
            assert status.facts["autopilot"] == {"system": 1, "type": 12}
    samples: list[ImuSample] = events.of(ImuSample)
    for sample in samples:
        assert sample.t_foreign_ns is not None
        t_ns = sample.t_foreign_ns - BOOT_NS
        _, w, f = Shaking.sample(t_ns)
        assert sample.t_arrival_ns - epoch_ns - t_ns >= 0
        np.testing.assert_allclose(sample.w_radps, w, atol=tolerance)
        np.testing.assert_allclose(sample.f_mps2, f, atol=tolerance)
    stamps = [sample.t_foreign_ns for sample in samples if sample.t_foreign_ns is not None]
    np.testing.assert_allclose(np.diff(stamps), 4_000_000, atol=stamp_ns)
    assert status.counters["garbage_bytes"] == 0
    assert not link.is_symlink()


async def test_clock_exchanges_enclose_the_sensors_clock(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns() + 1_000_000_000
    with emulator(link, epoch_ns, drift_ppm=50_000.0) as peer:
        async with running(link) as (events, _):
            await events.until(lambda: len(events.of(ClockExchange)) >= 8)
    for exchange in events.of(ClockExchange):
        assert exchange.t_sent_ns < exchange.t_received_ns
        assert peer.clock_ns(exchange.t_sent_ns) <= exchange.t_foreign_ns <= peer.clock_ns(exchange.t_received_ns)
    first, last = events.of(ClockExchange)[0], events.of(ClockExchange)[-1]
    rate = (last.t_foreign_ns - first.t_foreign_ns) / (last.t_received_ns - first.t_received_ns)
    assert rate == pytest.approx(1.05, abs=0.02)


async def test_device_may_appear_late_vanish_and_come_back(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns()
    async with running(link) as (events, status):
        await events.until(lambda: status.state is ComponentState.WAITING)
        assert status.report().reason.startswith(f"{link} does not exist")
        for round_ in range(3):
            before = len(events.of(ImuSample))
            with emulator(link, epoch_ns):
                await events.until(lambda before=before: len(events.of(ImuSample)) > before + 5, 2.0)  # type: ignore[misc]
            await events.until(lambda: status.state is ComponentState.WAITING, 2.0)
            assert len(events.of(SourceReset)) == round_ + 1
        assert isinstance(events.all[-1], SourceReset)


async def test_unread_bytes_are_dropped_oldest_first(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    with SerialImuEmulator(Shaking(100_000), now_ns(), link, boot_offset_ns=BOOT_NS) as peer:
        async with asyncio.timeout(5):
            while peer.dropped < 5:
                await asyncio.sleep(0.01)
        opened_ns = now_ns()
        async with running(link) as (events, _):
            await events.until(lambda: bool(events.of(ImuSample)))
            first = events.of(ImuSample)[0]
            assert first.t_foreign_ns > peer.clock_ns(opened_ns) - 300_000_000


async def test_emulator_replaces_links_but_no_files(tmp_path: Path) -> None:
    link = tmp_path / "folder" / "imu"
    with emulator(link, 0):
        first = link.readlink()
        with emulator(link, 0):
            assert link.readlink() != first
        assert not link.exists()
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(FileExistsError), emulator(file, 0):
        pass
    assert file.read_text() == "precious"


async def test_the_link_of_a_killed_emulator_leads_nowhere(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    script = (
        "import asyncio, sys; from pathlib import Path; from tests.e2e.test_mavlink_imu import emulator; "
        "asyncio.run(emulator(Path(sys.argv[1]), 0).run())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(link), cwd=ROOT)
    await Events().until(link.exists, 20.0)
    process.kill()
    await process.wait()
    master, slave = os.openpty()  # gets the number that became free
    try:
        assert link.is_symlink()
        assert not link.exists()
    finally:
        os.close(slave)
        os.close(master)


# --- an independent autopilot: pymavlink on the other end ----------------------------------------


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
def autopilot() -> Iterator[tuple[Autopilot, Path]]:
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        yield Autopilot(master), Path(os.ttyname(slave))
    finally:
        asyncio.get_running_loop().remove_reader(master)
        os.close(slave)
        os.close(master)


async def test_reference_autopilot_is_asked_answered_and_understood() -> None:
    with autopilot() as (peer, device):
        async with running(device, rate_hz=200.0) as (events, _):
            await events.until(lambda: bool(peer.of("TIMESYNC")) and bool(peer.of("HEARTBEAT")))
            assert not peer.of("COMMAND_LONG"), "nobody is known who would obey"
            peer.heartbeat()
            await events.until(lambda: bool(peer.of("COMMAND_LONG")))
            (command,) = peer.of("COMMAND_LONG")
            assert (command.command, command.param1, command.param2) == (511, 105.0, 5000.0)
            assert (command.target_system, command.target_component) == (7, 1)
            (heartbeat,) = peer.of("HEARTBEAT")
            assert (heartbeat.type, heartbeat.autopilot, heartbeat.get_srcComponent()) == (18, 8, 191)
            # It asks for our clock.
            before_ns = now_ns()
            peer.send(reference.MAVLink_timesync_message(0, 123456789))
            await events.until(lambda: any(m.ts1 == 123456789 for m in peer.of("TIMESYNC")))
            (answer,) = (m for m in peer.of("TIMESYNC") if m.ts1 == 123456789)
            assert before_ns < answer.tc1 < now_ns()
            # It answers ours, after an answer to somebody else's request and one said twice.
            request = next(m for m in peer.of("TIMESYNC") if m.tc1 == 0)
            for ts1 in (request.ts1 + 1, request.ts1, request.ts1):
                peer.send(reference.MAVLink_timesync_message(987654321, ts1))
            peer.highres(5_000_000)
            await events.until(lambda: bool(events.of(ImuSample)))
            (exchange,) = events.of(ClockExchange)
            assert (exchange.t_sent_ns, exchange.t_foreign_ns) == (request.ts1, 987654321)
            sample = events.of(ImuSample)[0]
            assert sample.t_foreign_ns == 5_000_000_000
            np.testing.assert_allclose(sample.w_radps, [0.5, -0.6, -0.7], rtol=1e-6)
            np.testing.assert_allclose(sample.f_mps2, [0.1, -0.2, 9.8], rtol=1e-6)


async def test_garbage_and_impossible_samples_are_counted() -> None:
    with autopilot() as (peer, device):
        async with running(device) as (events, status):
            await events.until(lambda: bool(peer.of("TIMESYNC")))
            good = bytes(reference.MAVLink_highres_imu_message(1, *[0.0] * 13, 0x3F).pack(peer._mav))
            peer.write(good[:20])
            peer.write(bytes(range(256)) + bytes(40))
            broken = bytearray(good)
            broken[15] ^= 0x40
            peer.write(bytes(broken))
            peer.highres(1000, gyro=float("nan"))
            peer.highres(1001, gyro=1e6)
            peer.highres(1002, fields=0x07)
            peer.highres(1003, imu=1)
            peer.highres(2000)
            await events.until(lambda: bool(events.of(ImuSample)))
            assert [s.t_foreign_ns for s in events.of(ImuSample)] == [2_000_000]
            assert status.counters["malformed"] == 3
            assert status.counters["bad_crc"] >= 1
            assert status.counters["garbage_bytes"] >= 256


async def test_best_message_is_chosen_and_a_restart_is_told() -> None:
    with autopilot() as (peer, device):
        async with running(device) as (events, status):
            await events.until(lambda: bool(peer.of("TIMESYNC")))
            peer.send(reference.MAVLink_scaled_imu_message(90_000, 0, 0, -1000, 100, 0, 0, 0, 0, 0))
            await events.until(lambda: status.facts.get("message") == "scaled")
            peer.highres(90_010_000)
            peer.send(reference.MAVLink_scaled_imu_message(90_020, 0, 0, -1000, 100, 0, 0, 0, 0, 0))
            peer.highres(90_030_000)
            peer.highres(2_000_000)
            await events.until(lambda: len(events.of(ImuSample)) == 4)
            kinds = [type(e) for e in events.all]
            assert kinds == [ImuSample, ImuSample, ImuSample, SourceReset, ImuSample]
            assert [s.t_foreign_ns // 1_000_000 for s in events.of(ImuSample)] == [90_000, 90_010, 90_030, 2_000]
            assert status.facts["message"] == "highres"


@pytest.fixture
def asked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not answered is asked again after half a second."""
    monkeypatch.setattr(mavlink_request, "_AGAIN_NS", NS_PER_S // 2)


@pytest.mark.usefixtures("asked_soon")
async def test_silence_is_reported_and_other_messages_are_asked_for() -> None:
    with autopilot() as (peer, device):
        async with running(device) as (events, status):
            await events.until(lambda: status.state is ComponentState.WAITING)
            assert "baud" in status.report().reason
            with every(300, peer.heartbeat):
                await events.until(lambda: len(peer.of("COMMAND_LONG")) >= 3, 8.0)
                assert peer.asked_for()[:3] == [105.0, 26.0, 27.0]
                await events.until(lambda: "the autopilot (system 7)" in status.report().reason)
                assert "highres: no answer" in status.report().reason
            peer.highres(1)
            await events.until(lambda: status.state is ComponentState.RUNNING)


# --- the rate -------------------------------------------------------------------------------------


def spacing_ns(events: Events, last: int) -> list[int]:
    """Between the stamps of the last samples."""
    stamps = [sample.t_foreign_ns for sample in events.of(ImuSample)[-last:]]
    return [after - before for before, after in pairwise(stamps)]


async def test_the_emulator_obeys_only_what_is_addressed_to_it(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    with emulator(link, now_ns(), initial_rate_hz=50.0):
        fd = os.open(link, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            us, events = Autopilot(fd), Events()

            def ask(system: int, component: int, message: int, interval_us: float) -> None:
                us.send(
                    reference.MAVLink_command_long_message(
                        system, component, 511, 0, message, interval_us, 0, 0, 0, 0, 0
                    )
                )

            for target in ((0, 0), (0, 1), (7, 1), (1, 100)):
                ask(*target, 105, 4000)
            us.send(reference.MAVLink_timesync_message(0, 77))
            await events.until(lambda: any(m.ts1 == 77 for m in us.of("TIMESYNC")))
            seen = len(us.of("HIGHRES_IMU"))
            await events.until(lambda: len(us.of("HIGHRES_IMU")) >= seen + 6)
            stamps = [m.time_usec for m in us.of("HIGHRES_IMU")][seen:]
            assert np.diff(stamps).tolist() == [20_000] * (len(stamps) - 1)
            assert not us.of("COMMAND_ACK"), "what is meant for others is not answered either"
            ask(1, 0, 26, 4000)
            ask(1, 1, 105, 10_000)
            await events.until(lambda: len(us.of("COMMAND_ACK")) == 2)
            acks = [(m.command, m.result, m.target_system, m.target_component) for m in us.of("COMMAND_ACK")]
            assert acks == [(511, 4, 7, 1), (511, 0, 7, 1)]
            seen = len(us.of("HIGHRES_IMU"))
            await events.until(lambda: len(us.of("HIGHRES_IMU")) >= seen + 6)
            # 10 ms lie between two samples of a 4 ms grid: the nearest ones go out.
            assert set(np.diff([m.time_usec for m in us.of("HIGHRES_IMU")][seen:]).tolist()) <= {8_000, 12_000}
        finally:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)


async def test_the_rate_is_raised_also_after_a_restart(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns()
    async with running(link, rate_hz=250.0) as (events, status):
        for _ in range(2):
            before = len(events.of(ImuSample))
            with emulator(link, epoch_ns, initial_rate_hz=50.0):
                await events.until(lambda before=before: len(events.of(ImuSample)) > before)  # type: ignore[misc]
                await events.until(lambda: spacing_ns(events, 11) == [4_000_000] * 10)
            assert status.facts["requests"] == {"highres": "accepted"}
            await events.until(lambda: status.state is ComponentState.WAITING)


async def test_a_sensor_a_little_faster_than_asked_for_loses_nothing(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    with SerialImuEmulator(Shaking(3_500_000), now_ns(), link, initial_rate_hz=50.0):
        async with running(link, rate_hz=250.0) as (events, status):
            await events.until(lambda: "accepted" in status.facts.get("requests", {}).values())
            seen = len(events.of(ImuSample))
            await events.until(lambda: len(events.of(ImuSample)) > seen + 100)
    assert set(spacing_ns(events, 100)) <= {3_500_000}


async def test_a_restart_seen_in_the_stamps_and_a_low_rate_are_asked_about_again() -> None:
    with autopilot() as (peer, device):
        async with running(device, rate_hz=250.0) as (events, status):
            await events.until(lambda: bool(peer.of("TIMESYNC")))
            peer.highres(90_000_000)
            await events.until(lambda: peer.asked_for() == [105.0])
            peer.highres(1_000_000)
            await events.until(lambda: peer.asked_for() == [105.0] * 2, 1.0)
            assert len(events.of(SourceReset)) == 1
            with every(20, lambda: peer.highres(2_000_000)):
                await events.until(lambda: len(peer.asked_for()) == 3)
                assert 20.0 < status.facts["rate_hz"] < 60.0
            assert {(m.param1, m.target_system, m.target_component) for m in peer.of("COMMAND_LONG")} == {(105.0, 7, 1)}


@pytest.mark.usefixtures("asked_soon")
async def test_a_refusal_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with autopilot() as (peer, device), caplog.at_level(logging.WARNING):
        async with running(device, message="highres") as (events, status):
            with every(300, peer.heartbeat):
                for refused in (1, 2):
                    await events.until(lambda refused=refused: len(peer.asked_for()) == refused)  # type: ignore[misc]
                    peer.refuse(2)
                    await events.until(lambda refused=refused: status.counters["refused"] == refused)  # type: ignore[misc]
            assert status.facts["requests"] == {"highres": "denied"}
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning == "imu: the autopilot will not send highres at 250 Hz: denied"


async def test_device_in_use_is_waited_for(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    with emulator(link, now_ns()):
        async with running(link) as (first, _):
            await first.until(lambda: bool(first.of(ImuSample)))
            async with running(link) as (second, status):
                await second.until(lambda: status.state is ComponentState.WAITING)
                assert "cannot be opened" in status.report().reason
        async with running(link) as (third, _):
            await third.until(lambda: bool(third.of(ImuSample)))
