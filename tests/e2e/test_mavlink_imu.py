"""The serial IMU source on real pseudo-terminals, against our emulator."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.events import until
from tests.support.mavlink import BOOT_NS, Noted, Shaking, emulator, reading, stamps_ns
from tests.support.programs import Program
from vil_adapters.mavlink_imu.codec import ImuKind
from vil_adapters.mavlink_imu.emulator import SerialImuEmulator
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import ImuSample, SourceReset
from vil_bridge.runtime.supervisor import ComponentState


@pytest.mark.parametrize(
    ("message", "tolerance", "stamp_ns"),
    [("highres", 1e-6, 1_000), ("scaled", 5e-3, 1_000_000), ("raw", 5e-3, 1_000)],
)
async def test_samples_arrive_in_flu_with_the_sensors_time(
    tmp_path: Path, message: ImuKind, tolerance: float, stamp_ns: int
) -> None:
    link, epoch_ns, motion = tmp_path / "imu", now_ns(), Noted()
    with SerialImuEmulator(motion, epoch_ns, link, boot_offset_ns=BOOT_NS, message=message):
        async with reading(link) as got:
            await got.until(lambda: len(got.of(ImuSample)) >= 50)
            await got.until(lambda: got.status.state is ComponentState.RUNNING)
            assert got.status.facts["message"] == message
            assert got.status.facts["autopilot"] == {"system": 1, "type": 12}
    for sample in got.of(ImuSample):
        assert sample.t_foreign_ns is not None
        t_ns = sample.t_foreign_ns - BOOT_NS
        _, w, f = Shaking.sample(t_ns)
        assert sample.t_arrival_ns - epoch_ns - t_ns >= 0
        np.testing.assert_allclose(sample.w_radps, w, atol=tolerance)
        np.testing.assert_allclose(sample.f_mps2, f, atol=tolerance)
    motion.check_nothing_left_out()
    stamps = stamps_ns(got)
    first = next(i for i, t_ns in enumerate(motion.stamps_ns) if t_ns > stamps[0] - stamp_ns)
    sent = motion.stamps_ns[first : first + len(stamps)]
    np.testing.assert_allclose(stamps, sent, rtol=0, atol=stamp_ns)
    assert got.status.counters["garbage_bytes"] == 0
    assert not link.is_symlink()


async def test_clock_exchanges_enclose_the_sensors_clock(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns() + 1_000_000_000
    with emulator(link, epoch_ns, drift_ppm=50_000.0) as peer:
        async with reading(link) as got:
            await got.until(lambda: len(got.exchanges) >= 8)
    for exchange in got.exchanges:
        assert exchange.t_sent_ns < exchange.t_received_ns
        assert (
            peer.clock_ns(exchange.t_sent_ns)
            <= exchange.t_foreign_ns
            <= peer.clock_ns(exchange.t_received_ns)
        )
    first, last = got.exchanges[0], got.exchanges[-1]
    foreign_ns = last.t_foreign_ns - first.t_foreign_ns
    # The instants of the answers lie somewhere between those of question and receipt.
    least = foreign_ns / (last.t_received_ns - first.t_sent_ns)
    most = foreign_ns / (last.t_sent_ns - first.t_received_ns)
    assert least < 1.05 < most


async def test_device_may_appear_late_vanish_and_come_back(tmp_path: Path) -> None:
    link, epoch_ns = tmp_path / "imu", now_ns()
    async with reading(link) as got:
        await got.until(lambda: got.status.state is ComponentState.WAITING)
        assert got.status.report().reason.startswith(f"{link} does not exist")
        for round_ in range(3):
            before = len(got.of(ImuSample))
            with emulator(link, epoch_ns):
                await got.until(
                    lambda before=before: len(got.of(ImuSample)) > before + 5,  # type: ignore[misc]
                )
            await got.until(lambda: got.status.state is ComponentState.WAITING)
            assert len(got.resets) == round_ + 1
        assert isinstance(got.events[-1], SourceReset)


async def test_unread_bytes_are_dropped_oldest_first(tmp_path: Path) -> None:
    link, motion = tmp_path / "imu", Noted(100_000)
    with SerialImuEmulator(motion, now_ns(), link, boot_offset_ns=BOOT_NS) as peer:
        await until(lambda: peer.dropped >= 5 and peer.sent >= 1000)
        sent = peer.sent
        async with reading(link) as got:
            await got.until(lambda: bool(stamps_ns(got)))
            assert motion.stamps_ns.index(stamps_ns(got)[0]) > sent - 100, "4095 bytes wait at most"


async def test_emulator_replaces_dead_links_but_no_live_ones_and_no_files(tmp_path: Path) -> None:
    link = tmp_path / "folder" / "imu"
    with emulator(link, 0):
        first = link.readlink()
        with (
            pytest.raises(FileExistsError, match=r"is in use.*Stop the other program"),
            emulator(link, 0),
        ):
            pass
        assert link.readlink() == first
        assert link.exists()
    assert not link.is_symlink()
    link.symlink_to("/proc/4194304/fd/7")
    with emulator(link, 0):
        assert link.exists()
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(FileExistsError), emulator(file, 0):
        pass
    assert file.read_text() == "precious"


@pytest.mark.process
async def test_the_link_of_a_killed_emulator_leads_nowhere(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    script = (
        "import asyncio, sys; from pathlib import Path; from tests.support.mavlink "
        "import emulator; "
        "asyncio.run(emulator(Path(sys.argv[1]), 0).run())"
    )
    with Program(sys.executable, "-c", script, link) as process:
        await process.until(link.exists, "the link")
        process.kill()
    master, slave = os.openpty()  # gets the number that became free
    try:
        assert link.is_symlink()
        assert not link.exists()
    finally:
        os.close(slave)
        os.close(master)


async def test_device_in_use_is_waited_for(tmp_path: Path) -> None:
    link = tmp_path / "imu"
    with emulator(link, now_ns()):
        async with reading(link) as first:
            await first.until(lambda: bool(first.of(ImuSample)))
            async with reading(link) as second:
                await second.until(lambda: second.status.state is ComponentState.WAITING)
                assert "cannot be opened" in second.status.report().reason
        async with reading(link) as third:
            await third.until(lambda: bool(third.of(ImuSample)))
