"""Bad lines: noise, half frames, a pulled cable, a slow UART; UDP as the other wire.

Rates of an attitude.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as reference

from tests.support.events import receiving, until
from tests.support.mavlink import BOOT_NS, Shaking, autopilot, emulator, reading, stamps_ns
from tests.support.mavlink_out import UdpAutopilot
from vil_adapters.mavlink_imu.codec import to_message
from vil_adapters.mavlink_imu.config import MavlinkImuConfig
from vil_adapters.mavlink_imu.source import MavlinkImuSource
from vil_bridge.core.clock import Ticker, now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.types import ImuSample
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.world.clock_sync import ClockModel

MS = 1_000_000
G = 9.80665


def frame_of(t_us: int) -> bytes:
    """The sample of an instant, by the reference."""
    peer = reference.MAVLink(None, srcSystem=7, srcComponent=1)
    message = reference.MAVLink_highres_imu_message(
        t_us, 0.1, 0.2, -9.8, 0.5, 0.6, 0.7, *[0] * 7, 0x3F, 0
    )
    return bytes(message.pack(peer))


async def test_each_kind_of_noise_costs_the_message_that_it_hit_and_no_other() -> None:
    breaks: list[Callable[[bytes], bytes]] = [
        lambda frame: frame[:30],
        lambda frame: frame[:1],
        lambda frame: frame[30:],
        lambda frame: frame[:40] + bytes((frame[40] ^ 0x10,)) + frame[41:],
        lambda frame: frame[:5] + b"\xfd" + frame[5:],
        lambda frame: bytes(range(200)),
        lambda frame: b"\xfd\xfe" * 20,
        lambda frame: b"",
    ]
    with autopilot() as (peer, device):
        async with reading(device) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")))
            whole: list[int] = []
            for n in range(1, 3 * len(breaks) + 1):
                frame = frame_of(4000 * n)
                hit = n % 3 == 0
                peer.write(breaks[n // 3 - 1](frame) if hit else frame)
                whole += [] if hit else [4_000_000 * n]
                await asyncio.sleep(0)
            for n in range(1000, 1006):  # what a stray magic byte may claim
                peer.write(frame_of(4000 * n))
            await got.until(lambda: len(stamps_ns(got)) >= len(whole) + 6)
            assert [t for t in stamps_ns(got) if t < 3_000_000_000] == whole
            assert got.status.counters["garbage_bytes"] > 200
            assert got.status.counters["bad_crc"] >= 1


async def test_a_pulled_cable_is_told_and_time_does_not_drift(tmp_path: Path) -> None:
    """A cable is pulled twice.

    By the clock exchanges alone the stamps stay those of the sensor, to a millisecond.
    """
    link, epoch_ns = tmp_path / "imu", now_ns()
    clock, taken = ClockModel(), 0
    async with reading(link) as got:
        for round_ in range(3):
            with emulator(link, epoch_ns, drift_ppm=200.0):
                before = len(got.exchanges)
                await got.until(
                    lambda before=before: len(got.exchanges) >= before + 5,  # type: ignore[misc]
                )
                for exchange in got.exchanges[taken:]:
                    clock.add_exchange(
                        exchange.t_sent_ns, exchange.t_foreign_ns, exchange.t_received_ns
                    )
                taken = len(got.exchanges)
                for sample in got.of(ImuSample)[-50:]:
                    assert sample.t_foreign_ns is not None and clock.line is not None
                    t_ns = clock.line.to_bridge(sample.t_foreign_ns)
                    felt_ns = epoch_ns + round((sample.t_foreign_ns - BOOT_NS) / (1 + 200e-6))
                    assert abs(t_ns - felt_ns) < 1 * MS + clock.line.uncertainty_ns
            await got.until(lambda: got.status.state is ComponentState.WAITING)
            assert len(got.resets) == round_ + 1


async def test_a_pause_within_one_opening_is_counted() -> None:
    with autopilot() as (peer, device):
        async with reading(device, rate_hz=250.0) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")))
            stamps_us = [
                *range(4_000, 84_000, 4_000),
                *range(200_000, 240_000, 4_000),
                *range(700_000, 720_000, 4_000),
            ]
            for t_us in stamps_us:
                peer.write(frame_of(t_us))
                await asyncio.sleep(0)
            await got.until(lambda: len(stamps_ns(got)) == len(stamps_us))
            assert got.status.counters["gaps"] == 2
            assert got.status.facts["longest_gap_ms"] == pytest.approx(464.0)


async def test_a_uart_of_921600_baud_is_kept_up_with() -> None:
    """92160 bytes a second, a thousand samples in pieces that end anywhere.

    All arrive, in order.
    """
    data = b"".join(frame_of(1000 * n) for n in range(1, 1001))
    most = 10 * 92_160 // 500
    with autopilot() as (peer, device):
        os.set_blocking(peer.fd, False)
        async with reading(device, rate_hz=1000.0) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")))
            begun_ns, sent = now_ns(), 0

            def pace(_due_ns: int, _missed: int) -> None:
                nonlocal sent
                due = min(len(data), (now_ns() - begun_ns) * 92_160 // 1_000_000_000, sent + most)
                # A terminal holds 4095 bytes for a reader that lags.
                with contextlib.suppress(BlockingIOError):
                    sent += os.write(peer.fd, data[sent:due])

            ticker = Ticker(2 * MS, pace)
            ticker.start()
            try:
                await got.until(lambda: len(stamps_ns(got)) >= 1000)
            finally:
                ticker.stop()
            assert stamps_ns(got) == [1_000_000 * n for n in range(1, 1001)]
            assert (got.status.counters["garbage_bytes"], got.status.counters["bad_crc"]) == (0, 0)
            assert now_ns() - begun_ns > 0.7 * 1e9 * len(data) / 92_160, "paced, not at once"


# --- UDP ------------------------------------------------------------------------------------------


def by_udp(**keys: Any) -> MavlinkImuSource:
    return MavlinkImuSource("imu", MavlinkImuConfig(**{"port": 0} | keys))


@pytest.mark.wire
async def test_samples_by_udp_with_clock_and_rate() -> None:
    with UdpAutopilot() as peer:
        async with receiving(by_udp(peer_port=peer.port, rate_hz=200.0)) as got:
            await until(lambda: bool(peer.of("TIMESYNC")))
            peer.heartbeat()
            await until(lambda: bool(peer.of("COMMAND_LONG")))
            command = peer.of("COMMAND_LONG")[0]
            assert (command.command, command.param1, command.param2) == (511, 105.0, 5000.0)
            request = peer.of("TIMESYNC")[-1]
            peer.send(reference.MAVLink_timesync_message(987654321, request.ts1))
            peer.write(frame_of(5_000_000))
            peer.write(b"noise")
            peer.write(frame_of(5_004_000)[:-1])
            peer.write(frame_of(5_008_000))
            await got.until(lambda: len(stamps_ns(got)) == 2)
            assert stamps_ns(got) == [5_000_000_000, 5_008_000_000]
            assert [e.t_foreign_ns for e in got.exchanges] == [987654321]
            assert got.status.counters["malformed"] == 2
            assert got.status.state is ComponentState.RUNNING


@pytest.mark.wire
async def test_a_udp_port_that_is_taken() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(SourceUnavailable, match="cannot listen on UDP port"):
            async with receiving(by_udp(port=taken.getsockname()[1])) as got:
                assert got.task is not None
                await asyncio.wait((got.task,), timeout=60.0)


# --- ATTITUDE_QUATERNION --------------------------------------------------------------------------


async def test_an_attitude_gives_rates_and_the_force_of_rest() -> None:
    """Nose 30 degrees up, heading 50 degrees.

    Gravity's reaction is then half forward, the rest up.
    """
    half = np.radians(15.0)
    # FRD in NED: nose up is positive.
    x, y, z, w = q_from_euler_zyx(np.radians(50.0), 2 * half, 0.0)
    with autopilot() as (peer, device):
        async with reading(device) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")))
            peer.send(
                reference.MAVLink_attitude_quaternion_message(5000, w, x, y, z, 0.1, 0.2, 0.3)
            )
            peer.send(
                reference.MAVLink_attitude_quaternion_message(5004, 3, 0, 0, 0, 0.1, 0.2, 0.3)
            )
            peer.send(
                reference.MAVLink_attitude_quaternion_message(5008, w, x, y, z, float("nan"), 0, 0)
            )
            await got.until(lambda: got.status.counters["malformed"] == 2)
            (sample,) = got.of(ImuSample)
            assert sample.t_foreign_ns == 5_000_000_000
            np.testing.assert_allclose(sample.w_radps, [0.1, -0.2, -0.3], rtol=1e-6)
            np.testing.assert_allclose(sample.f_mps2, [0.5 * G, 0.0, np.sqrt(0.75) * G], atol=1e-5)
            assert got.status.facts["message"] == "attitude"
            peer.highres(5_012_000)
            await got.until(lambda: len(got.of(ImuSample)) == 2)
            peer.send(
                reference.MAVLink_attitude_quaternion_message(5016, w, x, y, z, 0.1, 0.2, 0.3)
            )
            peer.highres(5_020_000)
            await got.until(lambda: len(got.of(ImuSample)) == 3)
            assert stamps_ns(got) == [5_000_000_000, 5_012_000_000, 5_020_000_000], (
                "the better message wins"
            )


async def test_the_emulator_sends_attitudes_when_that_is_all_it_has(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns()
    with emulator(link, epoch_ns, message="attitude"):
        async with reading(link, message="attitude") as got:
            await got.until(lambda: len(got.of(ImuSample)) >= 20)
    for sample in got.of(ImuSample):
        assert sample.t_foreign_ns is not None
        _, w, f = Shaking.sample(sample.t_foreign_ns - BOOT_NS)
        np.testing.assert_allclose(sample.w_radps, w, atol=5e-3)  # stamps of milliseconds
        np.testing.assert_allclose(sample.f_mps2, G * f / np.linalg.norm(f), atol=0.05)


@pytest.mark.parametrize("force", [(0, 0, G), (1, 2, 9), (-3, 0.5, -8), (0, 9, 0.1)])
def test_the_attitude_of_a_force_holds_it(force: tuple[float, float, float]) -> None:
    message = to_message(
        "attitude", 5 * MS, np.array([0.1, 0.2, 0.3]), np.array(force, dtype=float)
    )
    assert isinstance(message, mavlink.AttitudeQuaternion)
    w, x, y, z = message[1:5]
    up_frd = np.array(force) * [1, -1, -1] / np.linalg.norm(force)
    rotated = up_frd + 2 * np.cross([x, y, z], np.cross([x, y, z], up_frd) + w * up_frd)
    np.testing.assert_allclose(rotated, [0, 0, -1], atol=1e-9)
