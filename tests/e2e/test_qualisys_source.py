"""The Qualisys source against the QTM emulator, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("qtm_rt", reason="the vendor's client is not installed (extra qualisys)")

from tests.support.events import Received, elapse, receiving, until
from tests.support.motions import Dance
from vil_adapters.qualisys import connection as link
from vil_adapters.qualisys import source
from vil_adapters.qualisys.codec import PacketType, encode_packet, encode_text
from vil_adapters.qualisys.config import QtmEmulatorConfig, QualisysConfig
from vil_adapters.qualisys.discovery import ask_around, discover
from vil_adapters.qualisys.emulator import QtmEmulator
from vil_adapters.qualisys.source import QualisysSource
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_conj, q_log, q_mul
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.faults import Faults
from vil_bridge.registry import create
from vil_bridge.runtime.supervisor import ComponentState

pytestmark = pytest.mark.wire


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed several times sooner, for tests of what is then said and done."""
    monkeypatch.setattr(source, "_WAITING_NS", NS_PER_S // 2)
    monkeypatch.setattr(source, "_SILENCE_NS", 3 * NS_PER_S // 10)
    monkeypatch.setattr(link, "REPLY_S", 0.4)


def emulated(motion: Dance | None = None, faults: str = "", **config: Any) -> QtmEmulator:
    settings = QtmEmulatorConfig(port=0, discovery_port=0, **config)
    return QtmEmulator(settings, motion or Dance(), now_ns(), Faults.parse(faults))


def received(port: int, **config: Any) -> AbstractAsyncContextManager[Received]:
    return receiving(QualisysSource("lab", QualisysConfig(port=port, **config)))


def assert_true_poses(frames: list[SourceFrame], qtm: QtmEmulator, motion: Dance) -> None:
    """Each frame holds what the motion was at its own stamp (a microsecond of motion is 2 um)."""
    for frame in frames:
        assert frame.t_foreign_ns is not None
        shown = {name: i for i, name in enumerate(frame.subjects)}
        t_ns = round(
            (frame.t_foreign_ns - qtm.foreign_ns(0)) / (1.0 + qtm.config.clock_drift_ppm * 1e-6)
        )
        truth = motion.at(t_ns - qtm.server.epoch_ns)
        for row, name in enumerate(truth.subjects):
            if name in shown:
                i = shown[name]
                assert frame.p_m[i] == pytest.approx(truth.p_m[row], abs=1e-5)
                turned = q_log(q_mul(q_conj(truth.q_xyzw[row]), frame.q_xyzw[i]))
                assert np.linalg.norm(turned) < 1e-5
        for seen, real in zip(frame.skeletons, truth.skeletons, strict=True):
            assert seen.model.bones == real.model.bones
            assert seen.model.parents == real.model.parents
            assert seen.model.offsets_m == pytest.approx(real.model.offsets_m, abs=1e-9)
            assert seen.p_m == pytest.approx(real.p_m, abs=2e-5)
            assert np.abs((seen.q_xyzw * real.q_xyzw).sum(axis=1)) == pytest.approx(
                np.ones(len(real.p_m)), abs=1e-8
            )


@pytest.mark.parametrize("up_axis", ["y", "z"])
async def test_poses_names_and_skeletons_arrive(up_axis: str) -> None:
    motion = Dance(("drone", "spare", "gate"))
    async with (
        emulated(motion, up_axis=up_axis, disabled_bodies=("spare",)) as qtm,
        received(qtm.port) as lab,
    ):
        frames = await lab.more_frames(5)
        await lab.until(lambda: "frame_rate_hz" in lab.status.facts)
        assert not {"malformed", "duplicates", "undescribed", "resets"} & lab.status.counters.keys()
    assert frames[0].subjects == ("drone", "gate")
    assert frames[0].tracked.all() and frames[0].skeletons[0].tracked.all()
    assert_true_poses(frames, qtm, motion)
    facts = lab.status.report().facts
    assert facts["subjects"] == ["drone", "gate"] and facts["disabled"] == ["spare"]
    assert facts["skeletons"] == ["Actor"] and facts["version"] == "1.25"
    assert facts["frame_rate_hz"] == pytest.approx(100.0, rel=0.2)
    assert "QTM" in facts["server"]


async def test_lost_bodies_and_unsolved_skeletons_are_untracked() -> None:
    motion = Dance(occluded={"drone", "Actor"})
    async with emulated(motion) as qtm, received(qtm.port) as lab:
        (frame, *_) = await lab.more_frames(1)
        assert frame.tracked.tolist() == [False, True]
        assert not frame.skeletons[0].tracked.any()
        assert np.isfinite(frame.p_m).all() and np.isfinite(frame.q_xyzw).all()
        motion.occluded.clear()
        await lab.until(
            lambda: lab.frames[-1].tracked.all() and lab.frames[-1].skeletons[0].tracked.all()
        )


async def test_changed_settings_are_asked_for_again() -> None:
    async with emulated(Dance(("drone", "gate"))) as qtm, received(qtm.port) as lab:
        await lab.more_frames()
        swapped = Dance(("wand", "drone"))
        qtm.set_motion(swapped)
        await lab.until(lambda: lab.frames[-1].subjects == ("wand", "drone"))
        assert_true_poses(await lab.more_frames(), qtm, swapped)
        assert not lab.resets


async def test_a_file_that_loops_resets_histories() -> None:
    async with emulated() as qtm, received(qtm.port) as lab:
        await lab.until(lambda: len(lab.frames) > 30)
        rewound_ns = now_ns()
        qtm.rewind()
        await lab.until(lambda: lab.resets)
        frames = await lab.more_frames()
    assert lab.resets[0].clock and "went back" in lab.resets[0].reason
    assert (
        frames[0].t_foreign_ns is not None
        and frames[0].t_foreign_ns <= frames[0].t_arrival_ns - rewound_ns
    )
    assert lab.events.index(lab.resets[0]) < lab.events.index(frames[0])


async def test_a_restarted_server_is_followed() -> None:
    async with emulated() as qtm, received(qtm.port) as lab:
        await lab.more_frames()
        qtm.stop()
        await lab.until(lambda: lab.resets)
        seen = len(lab.frames)
        await qtm.start()
        assert await lab.until(lambda: len(lab.frames) > seen) < 2.0
    assert "lost" in lab.resets[0].reason


@pytest.mark.usefixtures("impatient")
async def test_a_hanging_server_is_left_and_found_again() -> None:
    async with emulated(faults="halfopen=1min@1min") as qtm, received(qtm.port) as lab:
        await lab.more_frames()
        elapse(qtm, 1)
        await lab.until(lambda: lab.status.state is ComponentState.WAITING)
        assert "does not answer" in lab.status.report().reason
        elapse(qtm, 2)
        await lab.until(lambda: lab.status.state is ComponentState.RUNNING)
        assert lab.resets


async def test_every_number_is_counted_once_also_when_repeats_arrive_together() -> None:
    async with (
        emulated(faults="duplicate=50%,burst=100ms@500ms/300ms,seed=5") as qtm,
        received(qtm.port) as lab,
    ):
        await lab.until(lambda: lab.frames)
        # Some of them before the first.
        counters, early = lab.status.counters, lab.status.counters["superseded"]
        await lab.until(lambda: counters["superseded"] > early + 15)
        span = lab.frames[-1].frame_number - lab.frames[0].frame_number + 1
        assert 0 <= len(lab.frames) + counters["lost"] + counters["superseded"] - span <= early
        assert counters["duplicates"] > 10
        assert counters["lost"] <= qtm.counters["missed_ticks"]


async def test_a_bad_day_is_survived_and_counted() -> None:
    faults = "loss=10%,duplicate=10%,garbage=10%,jitter=2ms,seed=3"
    motion = Dance()
    async with emulated(motion, faults) as qtm, received(qtm.port) as lab:
        await lab.until(lambda: len(lab.frames) > 150 and lab.status.counters["malformed"] > 3)
        assert_true_poses([f for f in lab.frames if f.tracked.all()][:50], qtm, motion)
    counters = lab.status.counters
    assert counters["lost"] > 0 and counters["duplicates"] > 0
    assert counters["malformed"] <= qtm.counters["garbage"]


@asynccontextmanager
async def speaking(words: bytes) -> AsyncIterator[tuple[int, list[int]]]:
    """A server that says the same to everybody; yields its port and the list of those who came."""
    came: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(writer.get_extra_info("peername")[1])
        writer.write(words)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], came


async def test_a_broken_stream_is_left_for_a_new_connection() -> None:
    """Unknown events and types are passed over.

    A size that cannot be ends the connection, not the source.
    """
    words = encode_text(PacketType.COMMAND, "QTM RT Interface connected") + encode_packet(
        PacketType.EVENT, b"\x63"
    )
    words += struct.pack("<II", 12, 99) + bytes(4) + struct.pack("<II", 0, 4)
    async with speaking(words) as (port, came), received(port) as lab:
        await lab.until(lambda: len(came) >= 3)
        assert lab.status.counters["malformed"] >= 4


@pytest.mark.usefixtures("impatient")
async def test_who_is_asked_and_what_to_check_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    async with received(port) as lab:
        await lab.until(lambda: lab.status.state is ComponentState.WAITING)
        reason = lab.status.report().reason
    assert f"127.0.0.1:{port} refuses" in reason and "base port plus one" in reason


@pytest.mark.usefixtures("impatient")
async def test_another_program_is_noticed() -> None:
    async with speaking(b"SSH-2.0-OpenSSH_9.2p1\r\n") as (port, _), received(port) as lab:
        await lab.until(lambda: lab.status.state is ComponentState.WAITING)
        assert "disconnected" in lab.status.report().reason


async def test_wanted_subjects_that_are_missing_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with emulated() as qtm, received(qtm.port, subjects=("drone", "Drone1")) as lab:
        await lab.more_frames()
    assert "config wants 'Drone1'; stream has 'drone', 'gate', 'Actor'" in caplog.text


async def test_servers_are_found_with_their_rates() -> None:
    rate_hz = 20  # which a busy computer keeps
    async with emulated(Dance(occluded={"gate"}), rate_hz=rate_hz) as qtm:
        places = await ask_around(1.0, qtm.discovery_port)
        found = await discover([f"127.0.0.1:{qtm.port}", "127.0.0.1:1"], 2.0)
    assert list(places) == [("127.0.0.1", qtm.port)]
    (server,) = found
    assert (server.type, server.config) == ("qualisys", {"server": "127.0.0.1", "port": qtm.port})
    assert [name for name, _ in server.bodies] == ["drone", "gate"]
    assert server.bodies[0][1] == pytest.approx(rate_hz, rel=0.2) and server.bodies[1][1] == 0.0
    assert server.skeletons[0][0] == "Actor"
    QualisysConfig(**server.config)


def test_without_the_extra_the_cure_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qtm_rt", None)
    for module in ("source", "link", "discovery"):
        monkeypatch.delitem(sys.modules, f"vil_adapters.qualisys.{module}", raising=False)
    with pytest.raises(ConfigError, match=r"\.\[qualisys\]"):
        create("sources", "lab", QualisysConfig())


async def test_the_emulator_is_done_at_once() -> None:
    qtm = emulated()
    await qtm.start()
    port = qtm.port
    qtm.stop()
    qtm.stop()
    with socket.create_server(("127.0.0.1", port)):
        pass
    await until(lambda: qtm.server.started_ns >= 0)
