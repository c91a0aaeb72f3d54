"""The MSP source on real terminals and TCP, against the emulated controller and against broken
lines.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.events import Received, receiving, until
from tests.support.mavlink import Shaking, terminal
from vil_adapters.msp_imu import source
from vil_adapters.msp_imu.config import MspImuConfig
from vil_adapters.msp_imu.emulator import MspEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import FloatArray, ImuSample
from vil_bridge.interfaces.ports import PoseSource
from vil_bridge.protocols import msp
from vil_bridge.protocols.msp import MspDirection, MspMessage, MspRawImu
from vil_bridge.registry import create
from vil_bridge.runtime.supervisor import ComponentState

pytestmark = pytest.mark.wire


MS = 1_000_000
G = 9.80665


def reading(**keys: Any) -> AbstractAsyncContextManager[Received]:
    config = MspImuConfig(
        **{"acc_lsb_per_g": 2048.0} | {k: str(v) if k == "device" else v for k, v in keys.items()}
    )
    made = create("sources", "imu", config)
    assert isinstance(made, PoseSource)
    return receiving(made)


class Resting:
    """Rest, tilted, until it ``moves``."""

    moves = False

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        t, w, f = Shaking(1 * MS).imu_between(until_ns - 1 * MS, until_ns)[-1]
        if not self.moves:
            return [(t, np.array([0.01, 0.02, -0.01]), np.array([0.0, 0.6 * G, 0.8 * G]))]
        return [(t, w, f)]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("way", ["terminal", "tcp"])
async def test_samples_arrive_in_flu_at_their_time(tmp_path: Path, way: str, version: int) -> None:
    epoch_ns = now_ns() - 1000 * MS
    link = tmp_path / "fc" if way == "terminal" else None
    with MspEmulator(Shaking(1 * MS), epoch_ns, link) as peer:
        where = {"device": link} if link else {"host": "127.0.0.1", "port": peer.port}
        async with reading(version=version, **where) as got:
            await got.until(lambda: len(got.of(ImuSample)) >= 60)
            assert got.status.state is ComponentState.RUNNING
    samples = got.of(ImuSample)
    assert all(b.t_arrival_ns > a.t_arrival_ns for a, b in pairwise(samples))
    errors = []
    for sample in samples:
        assert sample.t_foreign_ns is None
        _, w, f = Shaking.sample(sample.t_arrival_ns - epoch_ns)
        errors.append(
            max(np.abs(sample.w_radps - w).max() / 2.0, np.abs(sample.f_mps2 - f).max() / 3.0)
        )
    # The motion changes by at most 2 rad/s² and 3 m/s³: the median error says how far the stamps
    # are off.
    assert np.median(errors) < 0.006, "seconds"
    assert got.status.counters["garbage_bytes"] == 0


async def test_the_accelerometers_scale_is_found_at_rest_and_kept(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "fc", now_ns()
    async with reading(device=link, acc_lsb_per_g=None) as got:
        motion = Resting()
        with MspEmulator(motion, epoch_ns, link, acc_lsb_per_g=512.0):
            await got.until(lambda: "stand still" in got.status.report().reason)
            assert not got.of(ImuSample)
            await got.until(lambda: bool(got.of(ImuSample)))
            assert got.status.facts["acc_lsb_per_g"] == pytest.approx(512.0, rel=2e-3)
            np.testing.assert_allclose(
                got.of(ImuSample)[0].f_mps2, [0.0, 0.6 * G, 0.8 * G], atol=0.05
            )
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        before = len(got.of(ImuSample))
        motion.moves = True  # and the scale is known already
        with MspEmulator(motion, epoch_ns, link, acc_lsb_per_g=512.0):
            await got.until(lambda: len(got.of(ImuSample)) > before)
        assert len(got.resets) >= 1


@pytest.mark.parametrize("way", ["terminal", "tcp"])
async def test_the_controller_may_appear_late_vanish_and_come_back(
    tmp_path: Path, way: str
) -> None:
    link = tmp_path / "fc" if way == "terminal" else None
    with MspEmulator(Shaking(1 * MS), now_ns(), link) as peer:
        port = peer.port
    where = {"device": link} if link else {"host": "127.0.0.1", "port": port}
    async with reading(**where) as got:
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        assert ("does not exist" if link else "cannot be reached") in got.status.report().reason
        for round_ in range(2):
            before = len(got.of(ImuSample))
            with MspEmulator(Shaking(1 * MS), now_ns() - 1000 * MS, link, port=port):
                await got.until(
                    lambda before=before: len(got.of(ImuSample)) > before + 5,  # type: ignore[misc]
                )
            await got.until(
                lambda round_=round_: len(got.resets) == round_ + 1,  # type: ignore[misc]
            )


class Controller:
    """The far side of a terminal that answers what the test tells it to."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.asked = 0
        self.answer: Callable[[int], bytes] = lambda _: good()
        self._parser = msp.MspParser()
        asyncio.get_running_loop().add_reader(fd, self._on_readable)

    def _on_readable(self) -> None:
        for question in self._parser.feed(os.read(self.fd, 4096)):
            assert (question.direction, question.command) == (MspDirection.REQUEST, msp.RAW_IMU)
            self.asked += 1
            os.write(self.fd, self.answer(self.asked))


def good(count: int = 100) -> bytes:
    payload = msp.pack_raw_imu(MspRawImu((count, -200, 2048), (164, -164, 328)))
    return msp.encode(MspMessage(2, MspDirection.ANSWER, msp.RAW_IMU, payload))


@contextmanager
def controller() -> Iterator[tuple[Controller, Path]]:
    with terminal() as (master, device):
        yield Controller(master), device


def counts(got: Received) -> list[int]:
    return [round(float(s.f_mps2[0]) * 2048.0 / G) for s in got.of(ImuSample)]


async def test_half_frames_and_garbage_cost_one_sample_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every third answer is broken in another way.

    Each answer between them gives its sample at once.
    """
    # No answer takes a busy machine so long.
    monkeypatch.setattr(source, "_UNANSWERED_NS", 1000 * MS)
    broken: list[Callable[[bytes], bytes]] = [
        lambda frame: frame[:11],
        lambda frame: bytes(range(256)),
        lambda frame: frame[:6] + b"\xff" + frame[7:],  # a false length
        lambda frame: frame[:-1] + bytes((frame[-1] ^ 1,)),
        lambda _: b"",
        lambda frame: b"$X>" + b"$" * 9,
    ]
    with controller() as (peer, device):

        def answer(n: int) -> bytes:
            return broken[n // 3 % len(broken)](good(n)) if n % 3 == 0 else good(n)

        peer.answer = answer
        async with reading(device=device) as got:
            await got.until(lambda: peer.asked >= 3 * len(broken) + 3)
            seen = counts(got)
            sent = [n for n in range(1, 3 * len(broken) + 2) if n % 3]
            assert not set(sent) - set(seen)
            assert seen == sorted(seen)
            assert got.status.counters["unanswered"] >= len(broken) - 1
            assert got.status.counters["garbage_bytes"] >= 256
            assert got.status.counters["bad_crc"] >= 1


async def test_a_controller_that_knows_no_such_question_is_told_of() -> None:
    with controller() as (peer, device):
        peer.answer = lambda _: msp.encode(MspMessage(2, MspDirection.REFUSAL, msp.RAW_IMU, b""))
        async with reading(device=device) as got:
            await got.until(lambda: "knows no MSP_RAW_IMU" in got.status.report().reason)
            await got.until(lambda: got.status.counters["refused"] >= 2)
            peer.answer = lambda _: msp.encode(
                MspMessage(2, MspDirection.ANSWER, msp.RAW_IMU, b"short")
            )
            await got.until(lambda: got.status.counters["malformed"] >= 1)
            peer.answer = lambda _: good()
            await got.until(lambda: bool(got.of(ImuSample)))


async def test_it_is_asked_no_more_often_than_configured() -> None:
    with controller() as (peer, device):
        async with reading(device=device, rate_hz=100.0) as got:
            await until(lambda: peer.asked >= 30)
    steps = np.diff([s.t_arrival_ns for s in got.of(ImuSample)])
    assert np.median(steps) > 9 * MS
