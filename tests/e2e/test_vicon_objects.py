"""The source of Tracker's UDP object stream against its emulator."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest

from tests.support.events import receiving, until
from tests.support.motions import Dance
from tests.support.vicon import assert_same_attitude
from vil_adapters.vicon.config import TrackerUdpConfig, TrackerUdpEmulatorConfig
from vil_adapters.vicon.object_tracker import ObjectTracker
from vil_adapters.vicon.udp_codec import ITEM, ObjectBlock, decode_objects, encode_objects
from vil_adapters.vicon.udp_emulator import TrackerUdpEmulator
from vil_adapters.vicon.udp_source import TrackerUdpSource
from vil_bridge.core.clock import now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.runtime.supervisor import ComponentState, Status

pytestmark = pytest.mark.wire


def emulated(motion: Dance, faults: str = "", **config: Any) -> TrackerUdpEmulator:
    values: dict[str, Any] = {"port": 0, "rate_hz": 100.0, "latency_ms": 1.0} | config
    return TrackerUdpEmulator(
        TrackerUdpEmulatorConfig(**values), motion, now_ns(), Faults.parse(faults)
    )


def client(tracker: TrackerUdpEmulator, **config: Any) -> TrackerUdpSource:
    return TrackerUdpSource("lab", TrackerUdpConfig(port=tracker.port, **config))


async def test_poses_are_the_motions_at_the_time_of_their_number() -> None:
    motion = Dance(skeleton_models=())
    async with emulated(motion) as tracker, receiving(client(tracker, rate_hz=100.0)) as received:
        for frame in await received.more_frames(10):
            assert frame.t_foreign_ns is not None
            t_ns = frame.t_arrival_ns
            for _ in range(3):
                t_ns += frame.t_foreign_ns - tracker.foreign_ns(t_ns)
            truth = motion.at(t_ns - tracker.epoch_ns)
            assert frame.subjects == truth.subjects
            np.testing.assert_allclose(frame.p_m, truth.p_m, atol=1e-9)
            assert_same_attitude(frame.q_xyzw, truth.q_xyzw, 1e-7)
            assert frame.tracked.all()
        assert received.status.facts["subjects"] == ["drone", "gate"]


async def test_without_a_rate_the_capture_time_is_unknown() -> None:
    async with (
        emulated(Dance(skeleton_models=())) as tracker,
        receiving(client(tracker)) as received,
    ):
        assert (await received.more_frames(1))[0].t_foreign_ns is None


@pytest.mark.parametrize("lost", ["repeat", "omit"])
async def test_a_lost_object_becomes_untracked(lost: str) -> None:
    motion = Dance(skeleton_models=())
    async with emulated(motion, lost=lost) as tracker, receiving(client(tracker)) as received:
        await received.more_frames(3)
        motion.occluded.add("drone")
        await received.until(lambda: not received.frames[-1].tracked[0])
        assert all(not f.tracked[0] and f.tracked[1] for f in await received.more_frames(5))
        motion.occluded.clear()
        await received.until(lambda: received.frames[-1].tracked.all())


async def test_stray_garbage_and_strangers_are_dropped_and_counted() -> None:
    async with (
        emulated(Dance(skeleton_models=())) as tracker,
        receiving(client(tracker)) as received,
    ):
        await received.more_frames(2)
        tracker.inject(b"\x01\x02\x03")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.2", 0))
            stranger.sendto(
                encode_objects(ObjectBlock(1, np.zeros(0, ITEM))), ("127.0.0.1", tracker.port)
            )
        counters = received.status.counters
        await received.until(lambda: counters["malformed"] == counters["foreign"] == 1)
        await received.more_frames(2)


async def test_silence_is_explained_and_a_restart_resumes() -> None:
    async with (
        emulated(Dance(skeleton_models=())) as tracker,
        receiving(client(tracker)) as received,
    ):
        await received.more_frames(20)
        tracker.stop()
        await received.until(lambda: received.status.state is ComponentState.WAITING)
        reason = received.status.report().reason
        assert reason.startswith(f"no objects from 127.0.0.1 on UDP port {tracker.port}")
        assert "firewall" in reason
        await tracker.start()
        await received.more_frames(3)
        assert received.status.state is ComponentState.RUNNING
        assert len(received.resets) == 1
        assert "go on from" in received.resets[0].reason


async def test_lost_and_repeated_datagrams_are_counted() -> None:
    faults = "loss=20%,duplicate=20%,seed=3"
    async with (
        emulated(Dance(skeleton_models=()), faults) as tracker,
        receiving(client(tracker)) as received,
    ):
        await received.more_frames(40)
        counters = received.status.counters
        span = received.frames[-1].frame_number - received.frames[0].frame_number + 1
        assert len(received.frames) + counters["lost"] + counters["superseded"] == span
        assert counters["lost"] > 2
        assert counters["duplicates"] > 2


async def test_datagrams_that_were_overtaken_are_dropped_and_histories_go_on() -> None:
    faults = "reorder=30%,seed=5"
    async with (
        emulated(Dance(skeleton_models=()), faults) as tracker,
        receiving(client(tracker)) as received,
    ):
        await received.until(lambda: received.status.counters["reordered"] >= 3)
        await received.more_frames(3)
    numbers = [frame.frame_number for frame in received.frames]
    assert numbers == sorted(set(numbers))
    assert not received.resets


async def test_a_port_in_use_is_unavailable() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("", 0))
        source = TrackerUdpSource("lab", TrackerUdpConfig(port=taken.getsockname()[1]))
        with pytest.raises(SourceUnavailable, match="cannot listen on UDP port"):
            await source.run(lambda _: None, Status("lab"), SourceContext())


async def test_blocks_are_padded_and_hold_as_many_objects_as_fit() -> None:
    motion = Dance(subjects=tuple(f"body{i}" for i in range(5)), skeleton_models=())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        async with emulated(motion, port=sock.getsockname()[1], block_bytes=256) as tracker:
            await until(lambda: tracker.counters["delivered"])
            datagram = sock.recv(2048)
    assert len(datagram) == 256
    assert decode_objects(datagram).names == ("body0", "body1", "body2")


# --- judged without sockets -----------------------------------------------------------------------


def block(number: int, *items: tuple[bytes, float]) -> ObjectBlock:
    table = np.zeros(len(items), ITEM)
    table["name"], table["p"][:, 0] = [name for name, _ in items], [x_mm for _, x_mm in items]
    return ObjectBlock(number, table)


def test_the_order_of_objects_may_change_and_the_fifth_repeat_is_a_loss() -> None:
    objects = ObjectTracker("lab", None)
    objects.frame(block(1, (b"a", 1000.0), (b"b", 5.0)), 0)
    frame = objects.frame(block(2, (b"b", 6.0), (b"a", 2000.0), (b"c", 0.0)), 0)
    assert frame.subjects == ("a", "b", "c")
    assert frame.p_m[0, 0] == 2.0
    assert frame.tracked.all()
    flags = [
        bool(objects.frame(block(n, (b"a", 1.0), (b"b", float(n))), 0).tracked[0])
        for n in range(3, 9)
    ]
    assert flags == [True] * 4 + [False] * 2
    assert bool(objects.frame(block(9, (b"a", 2.0)), 0).tracked[0])


def test_what_is_not_finite_is_untracked_and_names_are_bounded() -> None:
    objects = ObjectTracker("lab", None)
    frame = objects.frame(block(1, (b"a", np.nan)), 0)
    assert frame.tracked.tolist() == [False]
    assert np.isfinite(frame.p_m).all()
    assert objects.invalid == 1
    for n in range(2, 12):
        frame = objects.frame(block(n, *((f"{n}/{i}".encode(), 1.0) for i in range(200))), 0)
    assert len(frame.subjects) == 1024
    assert objects.refused == 1 + 10 * 200 - 1024


def test_angles_without_sense_are_no_attitude() -> None:
    objects = ObjectTracker("lab", None)
    seen = block(1, (b"a", 1.0), (b"b", 2.0))
    seen.items["euler"][0, 1] = 1e300
    frame = objects.frame(seen, 0)
    assert frame.tracked.tolist() == [False, True]
    assert np.isfinite(frame.q_xyzw).all()
    assert objects.invalid == 1
