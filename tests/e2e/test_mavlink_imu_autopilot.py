"""The serial IMU source and pymavlink, which speaks for the autopilot.

What is asked, answered and refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pymavlink.dialects.v20 import common as reference

from tests.support.events import Received, until
from tests.support.mavlink import (
    BOOT_NS,
    Autopilot,
    Noted,
    autopilot,
    emulator,
    every,
    reading,
    stamps_ns,
)
from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_adapters.sessions import mavlink_session as mavlink_request
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.types import ImuSample, SourceReset
from vil_bridge.runtime.supervisor import ComponentState


async def test_reference_autopilot_is_asked_answered_and_understood() -> None:
    with autopilot() as (peer, device):
        async with reading(device, rate_hz=200.0) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")) and bool(peer.of("HEARTBEAT")))
            assert not peer.of("COMMAND_LONG"), "nobody is known who would obey"
            peer.heartbeat()
            await got.until(lambda: bool(peer.of("COMMAND_LONG")))
            command = peer.of("COMMAND_LONG")[0]
            assert (command.command, command.param1, command.param2) == (511, 105.0, 5000.0)
            assert (command.target_system, command.target_component) == (7, 1)
            heartbeat = peer.of("HEARTBEAT")[0]
            assert (heartbeat.type, heartbeat.autopilot, heartbeat.get_srcComponent()) == (
                18,
                8,
                191,
            )
            # It asks for our clock.
            before_ns = now_ns()
            peer.send(reference.MAVLink_timesync_message(0, 123456789))
            await got.until(lambda: any(m.ts1 == 123456789 for m in peer.of("TIMESYNC")))
            (answer,) = (m for m in peer.of("TIMESYNC") if m.ts1 == 123456789)
            assert before_ns < answer.tc1 < now_ns()
            # It answers ours, after an answer to somebody else's request and one said twice.
            request = next(m for m in peer.of("TIMESYNC") if m.tc1 == 0)
            for ts1 in (request.ts1 + 1, request.ts1, request.ts1):
                peer.send(reference.MAVLink_timesync_message(987654321, ts1))
            peer.highres(5_000_000)
            await got.until(lambda: bool(got.of(ImuSample)))
            (exchange,) = got.exchanges
            assert (exchange.t_sent_ns, exchange.t_foreign_ns) == (request.ts1, 987654321)
            sample = got.of(ImuSample)[0]
            assert sample.t_foreign_ns == 5_000_000_000
            np.testing.assert_allclose(sample.w_radps, [0.5, -0.6, -0.7], rtol=1e-6)
            np.testing.assert_allclose(sample.f_mps2, [0.1, -0.2, 9.8], rtol=1e-6)


async def test_garbage_and_impossible_samples_are_counted() -> None:
    with autopilot() as (peer, device):
        async with reading(device) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")))
            good = bytes(
                reference.MAVLink_highres_imu_message(1, *[0.0] * 13, 0x3F).pack(peer._mav)
            )
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
            await got.until(lambda: bool(got.of(ImuSample)))
            assert stamps_ns(got) == [2_000_000]
            assert got.status.counters["malformed"] == 3
            assert got.status.counters["bad_crc"] >= 1
            assert got.status.counters["garbage_bytes"] >= 256


async def test_best_message_is_chosen_and_a_restart_is_told() -> None:
    with autopilot() as (peer, device):
        async with reading(device) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")))
            peer.send(reference.MAVLink_scaled_imu_message(90_000, 0, 0, -1000, 100, 0, 0, 0, 0, 0))
            await got.until(lambda: got.status.facts.get("message") == "scaled")
            peer.highres(90_010_000)
            peer.send(reference.MAVLink_scaled_imu_message(90_020, 0, 0, -1000, 100, 0, 0, 0, 0, 0))
            peer.highres(90_030_000)
            peer.highres(1_000_000)
            peer.highres(90_040_000)
            peer.highres(2_000_000)
            peer.highres(2_010_000)
            await got.until(lambda: len(got.of(ImuSample)) == 6)
            kinds = [type(e) for e in got.events]
            assert kinds == [ImuSample] * 4 + [SourceReset] + [ImuSample] * 2
            stamps_ms = [stamp // 1_000_000 for stamp in stamps_ns(got)]
            assert stamps_ms == [90_000, 90_010, 90_030, 90_040, 2_000, 2_010], (
                "the late one proves nothing"
            )
            assert got.status.counters["old"] == 1
            assert got.status.facts["message"] == "highres"


@pytest.fixture
def asked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not answered is asked again after half a second."""
    monkeypatch.setattr(mavlink_request, "_AGAIN_NS", NS_PER_S // 2)


@pytest.mark.usefixtures("asked_soon")
async def test_silence_is_reported_and_other_messages_are_asked_for() -> None:
    with autopilot() as (peer, device):
        async with reading(device) as got:
            await got.until(lambda: got.status.state is ComponentState.WAITING)
            assert "baud" in got.status.report().reason
            with every(300, peer.heartbeat):
                await got.until(lambda: len(peer.of("COMMAND_LONG")) >= 3)
                assert peer.asked_for()[:3] == [105.0, 26.0, 27.0]
                await got.until(lambda: "the autopilot (system 7)" in got.status.report().reason)
                assert "highres: no answer" in got.status.report().reason
            peer.highres(1)
            await got.until(lambda: got.status.state is ComponentState.RUNNING)


# --- the rate -------------------------------------------------------------------------------------


def spacing_ns(got: Received, last: int) -> list[int]:
    """Between the stamps of the last samples."""
    return [after - before for before, after in pairwise(stamps_ns(got)[-last:])]


async def test_the_emulator_obeys_only_what_is_addressed_to_it(tmp_path: Path) -> None:
    link, motion = tmp_path / "imu", Noted()
    with SerialImuEmulator(motion, now_ns(), link, boot_offset_ns=BOOT_NS, initial_rate_hz=50.0):
        fd = os.open(link, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            us = Autopilot(fd)

            def ask(system: int, component: int, message: int, interval_us: float) -> None:
                us.send(
                    reference.MAVLink_command_long_message(
                        system, component, 511, 0, message, interval_us, 0, 0, 0, 0, 0
                    )
                )

            def steps() -> list[int]:
                """Those of what has come since ``seen``."""
                return motion.steps([1000 * m.time_usec for m in us.of("HIGHRES_IMU")[seen:]])

            for target in ((0, 0), (0, 1), (7, 1), (1, 100)):
                ask(*target, 105, 4000)
            us.send(reference.MAVLink_timesync_message(0, 77))
            await until(lambda: any(m.ts1 == 77 for m in us.of("TIMESYNC")))
            seen = len(us.of("HIGHRES_IMU"))
            await until(lambda: len(steps()) >= 5)
            assert set(steps()) == {5}, "20 ms lie between two samples"
            assert not us.of("COMMAND_ACK"), "what is meant for others is not answered either"
            ask(1, 0, 26, 4000)
            ask(1, 1, 105, 10_000)
            await until(lambda: len(us.of("COMMAND_ACK")) == 2)
            acks = [
                (m.command, m.result, m.target_system, m.target_component)
                for m in us.of("COMMAND_ACK")
            ]
            assert acks == [(511, 4, 7, 1), (511, 0, 7, 1)]
            seen = len(us.of("HIGHRES_IMU"))
            await until(lambda: len(steps()) >= 5)
            assert set(steps()) <= {2, 3}, (
                "10 ms lie between two samples of a 4 ms grid: the nearest ones go out"
            )
        finally:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)


async def test_the_rate_is_raised_also_after_a_restart(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns()
    async with reading(link, rate_hz=250.0) as got:
        for _ in range(2):
            before = len(got.of(ImuSample))
            with emulator(link, epoch_ns, initial_rate_hz=50.0):
                await got.until(
                    lambda before=before: len(got.of(ImuSample)) > before,  # type: ignore[misc]
                )
                await got.until(lambda: spacing_ns(got, 11) == [4_000_000] * 10)
            assert got.status.facts["requests"] == {"highres": "accepted"}
            await got.until(lambda: got.status.state is ComponentState.WAITING)


async def test_a_sensor_a_little_faster_than_asked_for_loses_nothing(tmp_path: Path) -> None:
    link, motion = tmp_path / "imu", Noted(3_500_000)
    with SerialImuEmulator(motion, now_ns(), link, boot_offset_ns=BOOT_NS, initial_rate_hz=50.0):
        async with reading(link, rate_hz=250.0) as got:
            await got.until(lambda: "accepted" in got.status.facts.get("requests", {}).values())
            seen = len(got.of(ImuSample))
            await got.until(lambda: len(got.of(ImuSample)) > seen + 100)
    stamps = stamps_ns(got)[-100:]
    first = motion.stamps_ns.index(stamps[0])
    assert stamps == motion.stamps_ns[first : first + 100]


async def test_a_restart_seen_in_the_stamps_and_a_low_rate_are_asked_about_again() -> None:
    with autopilot() as (peer, device):
        async with reading(device, rate_hz=250.0) as got:
            await got.until(lambda: bool(peer.of("TIMESYNC")))
            peer.highres(90_000_000)
            await got.until(lambda: peer.asked_for() == [105.0])
            peer.highres(1_000_000)
            peer.highres(1_004_000)
            await got.until(lambda: peer.asked_for() == [105.0] * 2)
            assert len(got.resets) == 1
            with every(20, lambda: peer.highres(2_000_000)):
                await got.until(lambda: len(peer.asked_for()) == 3)
                assert 0.0 < got.status.facts["rate_hz"] < 60.0
            assert {
                (m.param1, m.target_system, m.target_component) for m in peer.of("COMMAND_LONG")
            } == {(105.0, 7, 1)}


@pytest.mark.usefixtures("asked_soon")
async def test_a_refusal_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with autopilot() as (peer, device), caplog.at_level(logging.WARNING):
        async with reading(device, message="highres") as got:
            with every(300, peer.heartbeat):
                for refused in (1, 2):
                    await got.until(
                        lambda refused=refused: len(peer.asked_for()) >= refused,  # type: ignore[misc]
                    )
                    peer.refuse(2)
                    await got.until(
                        lambda refused=refused: got.status.counters["refused"] == refused  # type: ignore[misc]
                    )
            assert got.status.facts["requests"] == {"highres": "denied"}
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning == "imu: the autopilot will not send highres at 250 Hz: denied"
