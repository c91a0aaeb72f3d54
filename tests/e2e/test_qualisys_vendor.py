"""The vendor's own client, used plainly, reads from the emulator what the motion was."""

from __future__ import annotations

import asyncio
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from tests.support.events import until
from tests.support.motions import Dance
from vil_adapters.qualisys.config import QtmEmulatorConfig
from vil_adapters.qualisys.emulator import QtmEmulator
from vil_bridge.bodies.skeleton import global_to_local
from vil_bridge.core.clock import now_ns
from vil_bridge.core.geometry import q_to_matrix
from vil_bridge.core.types import MotionFrame, SkeletonModel

pytestmark = pytest.mark.wire


qtm_rt = pytest.importorskip(
    "qtm_rt", reason="the vendor's client is not installed (extra qualisys)"
)


class Still(Dance):
    """The same instant for ever, so that both sides can be compared without a clock."""

    def at(self, t_ns: int) -> MotionFrame:
        return super().at(987_654_321)


class Turned:
    """One body at a known place, turned by +90 degrees about z."""

    subjects = ("turned",)
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def at(self, t_ns: int) -> MotionFrame:
        half = np.sqrt(0.5)
        return MotionFrame(
            self.subjects,
            np.array([[1.0, -2.0, 0.5]]),
            np.array([[0.0, 0.0, half, half]]),
            np.ones(1, dtype=np.bool_),
        )


def emulated(motion: Any) -> QtmEmulator:
    return QtmEmulator(QtmEmulatorConfig(port=0, discovery_port=0), motion, now_ns())


async def connected(qtm: QtmEmulator) -> Any:
    connection = await asyncio.wait_for(
        qtm_rt.connect("127.0.0.1", port=qtm.port, version="1.25", timeout=60.0), 60.0
    )
    assert connection is not None
    return connection


async def streamed(connection: Any, components: list[str], count: int = 3) -> list[Any]:
    packets: list[Any] = []
    await connection.stream_frames(components=components, on_packet=packets.append)
    await until(lambda: len(packets) >= count)
    await connection.stream_frames_stop()
    return packets


async def test_poses_are_equal_to_a_micrometre() -> None:
    motion = Still(("drone", "gate", "lost"), occluded={"lost"})
    async with emulated(motion) as qtm:
        connection = await connected(qtm)
        packet = (await streamed(connection, ["6d", "skeleton:global"]))[-1]
        connection.disconnect()
    truth = motion.at(0)
    assert np.abs(truth.p_m).max() <= 5.0
    header, bodies = packet.get_6d()
    assert header.body_count == 3
    for i in range(2):
        position, rotation = bodies[i]
        assert np.array(position) / 1e3 == pytest.approx(truth.p_m[i], abs=1e-6)
        R = np.array(rotation.matrix).reshape(3, 3).T
        assert pytest.approx(q_to_matrix(truth.q_xyzw[i]), abs=1e-6) == R
    assert np.isnan(bodies[2][0]).all() and np.isnan(bodies[2][1].matrix).all()
    _, (segments,) = packet.get_skeletons()
    assert [segment[0] for segment in segments] == [1, 2, 3, 4, 5]
    assert np.array([segment[1] for segment in segments]) / 1e3 == pytest.approx(
        truth.skeletons[0].p_m, abs=1e-6
    )
    assert np.array([segment[2] for segment in segments]) == pytest.approx(
        truth.skeletons[0].q_xyzw, abs=1e-6
    )


async def test_a_turn_about_z_is_written_column_by_column() -> None:
    async with emulated(Turned()) as qtm:
        connection = await connected(qtm)
        packet = (await streamed(connection, ["6d"]))[-1]
        connection.disconnect()
    _, ((position, rotation),) = packet.get_6d()
    assert np.array(position) == pytest.approx([1000.0, -2000.0, 500.0], abs=1e-3)
    first_column = rotation.matrix[:3]
    assert first_column == pytest.approx([0.0, 1.0, 0.0], abs=1e-6), "body x points along room y"
    assert packet.get_skeletons() is None


async def test_local_segments_and_single_frames() -> None:
    motion = Still()
    async with emulated(motion) as qtm:
        connection = await connected(qtm)
        await streamed(connection, ["6d"], 1)
        packet = await connection.get_current_frame(components=["skeleton"])
        connection.disconnect()
    (actor,) = motion.at(0).skeletons
    p_m, q_xyzw = global_to_local(actor.p_m, actor.q_xyzw, actor.model.parents)
    _, (segments,) = packet.get_skeletons()
    assert np.array([segment[1] for segment in segments]) / 1e3 == pytest.approx(p_m, abs=1e-6)
    assert np.array([segment[2] for segment in segments]) == pytest.approx(q_xyzw, abs=1e-6)


async def test_stamps_numbers_and_the_rate() -> None:
    async with emulated(Dance()) as qtm:
        connection = await connected(qtm)
        packets = await streamed(connection, ["6d"], 20)
        connection.disconnect()
    numbers, stamps = [p.framenumber for p in packets], [p.timestamp for p in packets]
    assert numbers == sorted(set(numbers)), "a server on a busy machine skips some"
    steps = np.diff(stamps) / np.diff(numbers)
    assert np.median(steps) == pytest.approx(10_000, abs=2), "microseconds of a 100 Hz server"


async def test_the_conversation() -> None:
    events: list[object] = []
    async with emulated(Dance()) as qtm:
        connection = await qtm_rt.connect(
            "127.0.0.1", port=qtm.port, version="1.25", on_event=events.append
        )
        assert connection is not None
        assert (await connection.qtm_version()).startswith(b"QTM Version is")
        assert b"little endian" in await connection.byte_order()
        assert await connection.get_state() == qtm_rt.QRTEvent.EventCaptureStarted
        xml = ET.fromstring(await connection.get_parameters(["general", "6d", "skeleton"]))
        with pytest.raises(qtm_rt.QRTCommandException):
            await connection.take_control("secret")
        refused = await qtm_rt.connect("127.0.0.1", port=qtm.port, version="9.9")
        qtm.set_motion(Still(("one",)))
        await until(lambda: qtm_rt.QRTEvent.EventCameraSettingsChanged in events)
        connection.disconnect()
    assert [name.text for name in xml.iterfind("The_6D/Body/Name")] == ["drone", "gate"]
    assert [segment.get("Name") for segment in xml.iter("Segment")] == list(
        Dance().skeleton_models[0].bones
    )
    assert refused is None
