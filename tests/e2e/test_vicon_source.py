"""The Vicon source against the emulated DataStream server, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import struct
from typing import Any

import numpy as np
import pytest

from tests.support.common import free_port
from tests.support.events import elapse, receiving, until
from tests.support.motions import Dance
from tests.support.vicon import RATE_HZ, Marked, assert_true, filmed, golden, motion_ns
from vil_adapters.vicon import blocks, codec
from vil_adapters.vicon.config import ViconConfig
from vil_adapters.vicon.source import ViconSource
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.types import SourceFrame, SourceReset
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.runtime.supervisor import ComponentState, Status

pytestmark = pytest.mark.wire


RESUME_S = 2.0
FLOAT32_M = 1e-6


# --- what is received -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "server"),
    [
        ({"mode": "push"}, {}),
        ({"mode": "pull"}, {}),
        ({"mode": "prefetch"}, {}),
        ({"lightweight": True}, {}),
        ({"lightweight": True}, {"lightweight": False}),
        ({}, {"up_axis": "y"}),
        ({"lightweight": True}, {"up_axis": "y"}),
        ({}, {"split_bytes": 5, "unknown_blocks": True}),
    ],
    ids=["push", "pull", "prefetch", "light", "no-light", "y-up", "light-y-up", "odd"],
)
async def test_poses_are_the_motions(source: dict[str, Any], server: dict[str, Any]) -> None:
    motion = Dance()
    async with filmed(motion, source=source, **server) as (tracker, received):
        frames = await received.more_frames(10)
        assert_true(tracker, motion, frames, FLOAT32_M if "lightweight" in source else 1e-9)
        assert [f.frame_number for f in frames] == sorted({f.frame_number for f in frames})
        facts, counters = received.status.facts, received.status.counters
        assert facts["subjects"] == ["drone", "gate"]
        assert facts["skeletons"] == ["Actor"]
        assert facts["up_axis"] == server.get("up_axis", "z")
        assert facts["frame_rate_hz"] == pytest.approx(RATE_HZ)
        assert facts["quality"] == {"drone": 0.9, "gate": 0.9}
        assert facts["latency_ms"].keys() == {"Camera Readout", "Processing", "Streaming"}
        assert all(f.latency_ns >= 1_000_000 for f in frames)
        assert counters["malformed"] == counters["undescribed"] == counters["invalid"] == 0
        assert received.status.state is ComponentState.RUNNING


async def test_multicast_brings_the_same_frames() -> None:
    motion = Dance()
    port = free_port(socket.SOCK_DGRAM)
    source = {"multicast_group": "239.255.43.11", "multicast_port": port, "interface": "127.0.0.1"}
    try:
        async with filmed(motion, source=source) as (tracker, received):
            assert_true(tracker, motion, await received.more_frames(5), 1e-9)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar:
                liar.bind(("127.0.0.2", 0))
                liar.setsockopt(
                    socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1")
                )
                liar.sendto(golden("one_object"), ("239.255.43.11", port))
            await received.until(lambda: received.status.counters["foreign"])
            assert_true(tracker, motion, await received.more_frames(5), 1e-9)
    except SourceUnavailable as exc:
        pytest.skip(f"multicast is not possible here: {exc}")


async def test_markers_of_subjects_and_loose_ones() -> None:
    motion = Marked()
    for wanted, count in (("labeled", 3), ("all", 4)):
        async with filmed(motion, source={"markers": wanted}, up_axis="y") as (tracker, received):
            frame = (await received.more_frames(3))[-1]
            truth = motion.at(motion_ns(tracker, frame)).markers
            assert frame.markers is not None
            assert truth is not None
            assert frame.markers.labels == truth.labels[:count]
            assert (
                frame.markers.tracked.tolist()
                == truth.tracked[:count].tolist()
                == [True, False, True, True][:count]
            )
            seen = truth.tracked[:count]
            np.testing.assert_allclose(frame.markers.p_m[seen], truth.p_m[:count][seen], atol=1e-9)


async def test_segments_of_a_person_are_bodies_on_request() -> None:
    motion = Dance()
    async with filmed(motion, source={"segments": True}) as (tracker, received):
        frame = (await received.more_frames(3))[-1]
        assert frame.subjects == (
            "drone",
            "gate",
            *(f"Actor/{b}" for b in motion.skeleton_models[0].bones),
        )
        truth = motion.at(motion_ns(tracker, frame))
        np.testing.assert_allclose(frame.p_m[2:], truth.skeletons[0].p_m, atol=1e-9)
        assert frame.tracked.all()


@pytest.mark.parametrize("lightweight", [False, True])
async def test_a_walking_human_keeps_its_bones(lightweight: bool) -> None:
    walk = WalkMotion("Actor")
    (model,) = walk.skeleton_models
    child, parent = np.arange(1, 21), np.array(model.parents[1:])
    expected = np.linalg.norm(model.offsets_m[1:], axis=1)
    async with filmed(walk, source={"lightweight": lightweight}) as (_, received):
        frames = await received.more_frames(30)
    for frame in frames:
        (seen,) = frame.skeletons
        assert seen.model.bones == model.bones
        assert seen.tracked.all()
        lengths = np.linalg.norm(seen.p_m[child] - seen.p_m[parent], axis=1)
        np.testing.assert_allclose(lengths, expected, atol=1e-6)
        np.testing.assert_allclose(seen.model.offsets_m, model.offsets_m, atol=1e-9)
        assert seen.p_m[:, 2].min() > -1e-3, "feet on the floor, z up"


async def test_an_occluded_subject_is_untracked_and_never_at_the_origin_as_tracked() -> None:
    motion = Dance(occluded={"drone", "Actor"})
    async with filmed(motion) as (_, received):
        for frame in await received.more_frames(3):
            assert frame.subjects == ("drone", "gate"), "it is told of all the same"
            assert frame.tracked.tolist() == [False, True]
            assert not frame.skeletons[0].tracked.any()
        motion.occluded.clear()
        await received.until(
            lambda: (
                received.frames[-1].tracked.all() and received.frames[-1].skeletons[0].tracked.all()
            )
        )


async def test_a_subject_added_at_run_time_and_one_removed() -> None:
    async with filmed(Dance(subjects=("drone",)), source={"subjects": ("drone", "wand")}) as (
        tracker,
        received,
    ):
        assert (await received.more_frames(2))[-1].subjects == ("drone",)
        tracker.set_motion(Dance(subjects=("drone", "wand"), skeleton_models=()))
        await received.until(lambda: received.frames[-1].subjects == ("drone", "wand"))
        await received.until(lambda: received.frames[-1].tracked.all())
        assert received.frames[-1].skeletons == ()
        assert received.resets == []
        tracker.set_motion(Dance(subjects=("wand",)))
        await received.until(lambda: received.frames[-1].subjects == ("wand",))


async def test_a_missing_subject_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vil_adapters.vicon"):
        async with filmed(source={"subjects": ("cf1", "gate")}) as (_, received):
            await received.more_frames(5)
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["lab: config wants 'cf1'; stream has 'drone', 'gate', 'Actor'"]


# --- time -----------------------------------------------------------------------------------------


async def test_the_frame_number_is_a_clock_that_drifts_and_steps() -> None:
    motion = Dance()
    async with filmed(motion, "drift=500ppm,step=100ms@1min", clock_drift_ppm=0.0) as (
        tracker,
        received,
    ):
        await received.more_frames(20)
        elapse(tracker, 1)
        await received.more_frames(25)
        t_ns = now_ns()
        assert tracker.foreign_ns(t_ns + 10**9) - tracker.foreign_ns(t_ns) == pytest.approx(
            1_000_500_000, abs=100
        )
        stamps = [frame.t_foreign_ns or 0 for frame in received.frames]
        assert_true(tracker, motion, received.frames[-20:], 1e-9)
    assert {stamp % 10_000_000 for stamp in stamps} == {0}
    assert max(b - a for a, b in itertools.pairwise(stamps)) >= 100_000_000, (
        "the step of the server's clock"
    )


async def test_a_step_back_repeats_no_number_neither_at_once_nor_after_a_restart() -> None:
    async with filmed(faults="step=-1s@1min") as (tracker, received):
        await received.more_frames(5)
        stepped_ns = now_ns()
        elapse(tracker, 1)
        await received.until(lambda: received.resets)
        counters = received.status.counters
        frame = (await received.more_frames(5))[0]
        # The first is 1, and one may be due.
        most = RATE_HZ * (frame.t_arrival_ns - stepped_ns) / NS_PER_S + 2
        assert frame.frame_number <= most, "further back than the first there is nothing"
        assert not counters["duplicates"]
        await tracker.restart()
        await received.until(lambda: counters["disconnects"])
        await received.more_frames(5)
        assert not counters["duplicates"]


async def test_pings_come_back() -> None:
    async with filmed(Dance(), "delay=30ms") as (_, received):
        await received.until(lambda: received.status.facts.get("ping_ms"))
        assert received.status.facts["ping_ms"] >= 25.0


async def test_numbers_that_go_back_begin_a_new_history() -> None:
    async with filmed() as (tracker, received):
        await received.more_frames(20)
        await tracker.restart()
        await received.until(lambda: received.resets)
        await received.more_frames(3)
    last = 0
    for event in received.events:
        if isinstance(event, SourceReset):
            last = 0
        elif isinstance(event, SourceFrame):
            assert event.frame_number > last
            last = event.frame_number
    assert received.status.counters["resets"] == len(received.resets) == 1


async def test_a_server_that_skips_frames_is_counted() -> None:
    async with filmed(Dance(), "loss=30%,seed=4") as (tracker, received):
        await received.more_frames(1)
        before, start = received.status.counters.copy(), len(received.frames) - 1
        await received.more_frames(60)
        counters, happened = received.status.counters, received.status.counters - before
        assert happened["lost"] > 5
        frames = received.frames[start:]
        span = frames[-1].frame_number - frames[0].frame_number + 1
        assert len(frames) + happened["lost"] + happened["superseded"] == span
        assert counters["lost"] <= tracker.counters["lost"] + tracker.counters["missed_ticks"]


async def test_a_frame_that_was_asked_for_and_never_came_is_asked_for_again() -> None:
    async with filmed(Dance(), "loss=20%,seed=1", source={"mode": "pull"}) as (tracker, received):
        await received.until(lambda: tracker.counters["lost"] >= 2)
        await received.more_frames(2)
        assert tracker.counters["connections"] == 1


async def test_duplicates_are_not_emitted() -> None:
    async with filmed(Dance(), "duplicate=50%") as (_, received):
        frames = await received.more_frames(30)
        assert received.status.counters["duplicates"] > 3
    assert len({frame.frame_number for frame in frames}) == len(frames)


# --- bad days -------------------------------------------------------------------------------------


async def test_a_restarted_server_with_new_ids_is_back_within_two_seconds() -> None:
    motion = Dance()
    async with filmed(motion) as (tracker, received):
        await received.more_frames(5)
        tracker.stop()
        await received.until(lambda: received.status.state is ComponentState.WAITING)
        reason = received.status.report().reason
        assert "refused" in reason
        assert f"127.0.0.1:{tracker.port}" in reason
        await tracker.start()
        seen = len(received.frames)
        assert await received.until(lambda: len(received.frames) >= seen + 5) < RESUME_S
        assert_true(tracker, motion, received.frames[seen:], 1e-9)
        assert received.status.state is ComponentState.RUNNING


async def test_a_stall_with_the_socket_open_is_left_and_found_again() -> None:
    motion = Dance()
    async with filmed(motion, "halfopen=1min@1min") as (tracker, received):
        await received.more_frames(5)
        elapse(tracker, 1)
        await received.until(lambda: received.status.state is ComponentState.WAITING)
        assert (
            "silent" in received.status.report().reason
            or "sends nothing" in received.status.report().reason
        )
        elapse(tracker, 2)
        frames = await received.more_frames(5)
        assert_true(tracker, motion, frames, 1e-9)
        assert tracker.counters["connections"] >= 2


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack("<II", 0x1A2B0001, 1 << 30),
        bytes(64),
        bytes(1 << 20),
    ],
    ids=["http", "oversized", "zeros", "many"],
)
async def test_garbage_closes_the_connection_and_is_counted(garbage: bytes) -> None:
    async with filmed() as (tracker, received):
        await received.more_frames(3)
        connections, counters = tracker.counters["connections"], received.status.counters
        disconnects = counters["disconnects"]

        def harmed() -> bool:
            if not counters["malformed"]:
                tracker.inject(garbage)
            return bool(counters["malformed"])

        await received.until(harmed)
        await received.more_frames(5)
        assert tracker.counters["connections"] == connections + 1
        assert (counters["malformed"], counters["disconnects"]) == (1, disconnects + 1)


async def test_a_malformed_block_costs_one_packet_and_no_connection() -> None:
    async with filmed() as (tracker, received):
        await received.more_frames(3)
        tracker.inject(codec.encode_packet(struct.pack("<II", 5, 99)))
        await received.until(lambda: received.status.counters["malformed"] == 1)
        numbers = itertools.count(10_000_000)
        # A frame that follows at once takes the place of a broken one.
        while received.status.counters["malformed"] < 2:
            tracker.inject(
                codec.encode_packet(
                    struct.pack("<III", 5, 4, next(numbers)), struct.pack("<III", 9, 4, 1)
                )
            )
            await received.more_frames(1)
        await received.more_frames(3)
        assert tracker.counters["connections"] == 1


async def test_what_is_no_pose_is_untracked_and_counted() -> None:
    """A pose that is not finite, and a matrix that is no rotation."""
    table = np.zeros(2, blocks.POSE)
    table["id"], table["R"] = 1, np.eye(3)
    table["p"][0], table["R"][1] = np.nan, np.diag([1.0, 1.0, -1.0])
    names = [
        blocks.SubjectInfo(i, name, (blocks.ViconSegment(0, 1, (0.0,) * 6, name),))
        for i, name in enumerate("ab")
    ]
    packet = codec.encode_packet(
        *map(blocks.SUBJECT_INFO.encode, names),
        blocks.FRAME_INFO.encode(5),
        *(blocks.GLOBAL_SEGMENTS.encode(blocks.SubjectRows(i, table[i : i + 1])) for i in range(2)),
    )
    async with filmed(faults="halfopen=1min@1ms") as (tracker, received):
        await until(lambda: tracker.clients)
        tracker.inject(packet)
        (frame,) = await received.more_frames(1)
        assert frame.subjects == ("a", "b")
        assert not frame.tracked.any()
        assert np.isfinite(frame.p_m).all()
        assert frame.t_foreign_ns is None, "no period was told"
        assert received.status.counters["invalid"] == 2


async def test_only_the_newest_of_waiting_frames_is_emitted() -> None:
    async with filmed(faults="burst=300ms@300ms/600ms") as (tracker, received):
        await received.until(
            lambda: tracker.counters["held"] > 20 and received.status.counters["superseded"] > 10
        )
        await received.more_frames(3)


async def test_a_server_that_is_absent_is_explained() -> None:
    port = free_port(socket.SOCK_STREAM)
    async with receiving(ViconSource("lab", ViconConfig(port=port))) as received:
        await received.until(lambda: received.status.state is ComponentState.WAITING)
        reason = received.status.report().reason
        assert reason.startswith(
            f"no frames from 127.0.0.1:{port} via interface 127.0.0.1 (refused"
        )
        assert "firewall" in reason


async def test_a_port_that_accepts_and_says_nothing_is_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        config = ViconConfig(port=mute.getsockname()[1])
        async with receiving(ViconSource("lab", config)) as received:
            await received.until(lambda: "sends nothing" in received.status.report().reason)


async def test_an_unknown_server_is_unavailable() -> None:
    source = ViconSource("lab", ViconConfig(server="no-such-host.invalid"))
    with pytest.raises(SourceUnavailable, match=r"cannot find no-such-host\.invalid"):
        async with asyncio.timeout(60):
            await source.run(lambda _: None, Status("lab"), SourceContext())
