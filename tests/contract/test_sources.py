"""The same promises of every source, against its emulator on real sockets.

The rigs of ``tests/source_rigs`` play a few days together, since most of a day is waiting; each
test then judges one rig on one day.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.common import PATIENCE_S
from tests.support.events import harmed, receiving, until
from tests.support.motions import DANCER, Dance
from tests.support.source_days import (
    BACK_NS,
    DOWN_S,
    FOUND_OUT_NS,
    NAMES,
    OCCLUDED,
    OURS,
    SILENT_S,
    Play,
    load,
    played,
    since_occlusion_ns,
    stood_around_ns,
)
from tests.support.source_rigs import SourceRig
from vil_adapters.emulation.emulator import Emulator
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, now_ns
from vil_bridge.core.types import ClockExchange, SourceEvent, SourceFrame, SourceReset
from vil_bridge.interfaces.faults import Faults
from vil_bridge.interfaces.ports import SourceContext
from vil_bridge.runtime.supervisor import ComponentState, Status
from vil_bridge.world.clock_sync import ClockModel

pytestmark = pytest.mark.wire


SLACK_S = 1.5  # for a busy machine


def test_there_are_rigs() -> None:
    assert {"optitrack", "qualisys", "remote", "vicon", "vrpn"} <= set(OURS)


every_rig = pytest.mark.parametrize("name", NAMES)


# --- the promises ---------------------------------------------------------------------------------


@every_rig
def test_poses_are_the_truth_of_their_instant(name: str) -> None:
    day = played(name, "calm")
    complete = [
        frame for frame in day.received.frames if frame.tracked.all() and len(frame.subjects)
    ]
    assert len(complete) >= 20, day
    for frame in complete:
        t_ns = day.motion_ns(frame)
        assert t_ns is not None
        truth = day.motion.at(t_ns)
        known = [s for s in truth.subjects if s in frame.subjects]
        rows, real = (
            [frame.subjects.index(s) for s in known],
            [truth.subjects.index(s) for s in known],
        )
        assert_equal_poses(
            day.rig, frame.p_m[rows], frame.q_xyzw[rows], truth.p_m[real], truth.q_xyzw[real]
        )
        assert frame.source == day.received.status.name


@every_rig
def test_skeletons_are_the_truth_of_their_instant(name: str) -> None:
    day = played(name, "calm")
    if not day.rig.skeletons:
        pytest.skip("this wire carries no humans")
    complete = [
        frame
        for frame in day.received.frames
        if frame.skeletons and frame.skeletons[0].tracked.all()
    ]
    assert len(complete) >= 20, day
    for frame in complete:
        t_ns = day.motion_ns(frame)
        assert t_ns is not None
        (real,) = day.motion.at(t_ns).skeletons
        (seen,) = frame.skeletons
        assert (seen.model.name, seen.model.bones, seen.model.parents) == (
            "Actor",
            DANCER.bones,
            DANCER.parents,
        )
        assert_equal_poses(day.rig, seen.p_m, seen.q_xyzw, real.p_m, real.q_xyzw)


def assert_equal_poses(
    rig: SourceRig, p_m: object, q_xyzw: object, p_true_m: object, q_true_xyzw: object
) -> None:
    p, p_true, q, q_true = (np.asarray(value) for value in (p_m, p_true_m, q_xyzw, q_true_xyzw))
    # Time is known from the place only as well as the wire tells places.
    slack = 5.0
    assert np.abs(p - p_true).max() <= slack * rig.tolerance_m
    assert np.abs(np.linalg.norm(q, axis=1) - 1.0).max() <= 1e-6
    chord = np.minimum(np.linalg.norm(q - q_true, axis=1), np.linalg.norm(q + q_true, axis=1))
    assert 2.0 * chord.max() <= slack * max(rig.tolerance_rad, rig.tolerance_m)


@every_rig
def test_capture_times_map_to_the_truth(name: str) -> None:
    day = played(name, "calm")
    errors_ms, arrivals_ms, stated_ms = [], [], []
    clock = ClockModel()
    for event in day.received.events:
        mapped_ns = mapped(clock, event)
        if isinstance(event, SourceFrame) and mapped_ns is not None:
            t_ns = day.motion_ns(event)
            if t_ns is not None:
                assert clock.line is not None
                stated_ms.append(clock.line.uncertainty_ns / 1e6)
                errors_ms.append((mapped_ns - day.epoch_ns - t_ns) / 1e6)
                arrivals_ms.append((event.t_arrival_ns - day.epoch_ns - t_ns) / 1e6)
    if day.rig.clock == "none":
        assert all(frame.t_foreign_ns is None for frame in day.received.frames)
        return
    assert len(errors_ms) >= 20, day
    late = errors_ms[len(errors_ms) // 2 :]
    # One-way stamps cannot tell the shortest transit, which is the pipeline's latency where nobody
    # tells it; a two-way exchange is no better than half its way there and back. A busy machine
    # adds to both, and the line of that time says so.
    share = 0.5 if day.rig.clock == "two-way" else 1.0
    allowed_ms = 1.0 + max(
        float(np.median(stated_ms[len(errors_ms) // 2 :])), share * float(np.median(arrivals_ms))
    )
    assert abs(float(np.median(late))) <= allowed_ms, (np.median(late), allowed_ms, str(day))
    noise_ms = float(np.quantile(arrivals_ms, 0.9)) - min(arrivals_ms)
    spread_ms = float(np.ptp(np.quantile(late, [0.1, 0.9])))
    assert spread_ms <= 1.0 + noise_ms, ("an even grid stays even", spread_ms, noise_ms, str(day))


def mapped(clock: ClockModel, event: SourceEvent) -> int | None:
    """Bridge time of a frame's capture, by the clock model that the world has."""
    match event:
        case ClockExchange():
            clock.add_exchange(event.t_sent_ns, event.t_foreign_ns, event.t_received_ns)
        case SourceReset(clock=True):
            clock.reset()
        case SourceFrame(t_foreign_ns=int(t_foreign_ns)):
            clock.add_stamp(t_foreign_ns, event.t_arrival_ns - event.latency_ns)
            return clock.to_bridge(t_foreign_ns)
    return None


@every_rig
def test_the_status_says_that_it_runs_and_counts_nothing_bad(name: str) -> None:
    day = played(name, "calm")
    assert day.received.status.state is ComponentState.RUNNING, day
    assert not harmed(day.received.status.counters), day
    assert day.received.resets == []


@every_rig
def test_an_occluded_subject_is_untracked_and_never_at_the_origin(name: str) -> None:
    day = played(name, "occlusion")
    hidden: list[bool] = []
    seen_again: dict[int, list[bool]] = {}  # by occlusion
    # A frame without a pose tells its time by its stamp, where it has one.
    stamped = [(frame.t_foreign_ns, day.motion_ns(frame)) for frame in day.received.frames]
    offset_ns = next((m - s for s, m in stamped if s is not None and m is not None), None)
    for frame, (stamp_ns, t_ns) in zip(day.received.frames, stamped, strict=True):
        if t_ns is None and stamp_ns is not None and offset_ns is not None:
            t_ns = stamp_ns + offset_ns
        elapsed_ns = (frame.t_arrival_ns if t_ns is None else day.epoch_ns + t_ns) - day.started_ns
        since_ns = since_occlusion_ns(elapsed_ns)
        stood_ns = stood_around_ns(day.stood, day.started_ns, elapsed_ns)
        found_out_ns = 0 if day.rig.flags_loss else FOUND_OUT_NS + stood_ns
        if "drone" not in frame.subjects:
            assert found_out_ns, "an untracked body is told of too"
            shown_ns = 0 if since_ns is None else since_ns - OCCLUDED.duration_ns
            overdue = 0 < shown_ns < BACK_NS + stood_ns and not day.rig.flags_return
            assert since_ns is None or since_ns < found_out_ns or overdue, (
                "and also where the wire is merely silent"
            )
            continue
        row = frame.subjects.index("drone")
        flags = [bool(frame.tracked[row]), *(s.tracked.any() for s in frame.skeletons)]
        if (
            since_ns is not None
            and found_out_ns + 1_000_000 < since_ns < OCCLUDED.duration_ns - 1_000_000
        ):
            hidden.append(any(flags))
        elif (
            since_ns is not None
            and since_ns > OCCLUDED.duration_ns + BACK_NS
            and (all(flags) or not missed(day, frame))
        ):
            turn = (elapsed_ns - OCCLUDED.start_ns) // OCCLUDED.period_ns
            seen_again.setdefault(turn, []).append(all(flags))
        if frame.tracked[row]:
            assert np.linalg.norm(frame.p_m[row, :2]) == pytest.approx(1.0, abs=1e-3)
        for skeleton in frame.skeletons:
            root_m = skeleton.p_m[0, :2] - (2.0, 0.0)
            assert not skeleton.tracked[0] or np.linalg.norm(root_m) == pytest.approx(1.0, abs=1e-3)
    assert len(hidden) >= 5, day
    assert not any(hidden), day
    assert any(map(any, seen_again.values())), day
    for seen in seen_again.values():
        # Where the wire does not flag the return, the first message that shows it may be late on a
        # busy machine.
        late = 0 if day.rig.flags_return else (*seen, True).index(True)
        assert all(seen[late:]), day


def missed(day: Play, frame: SourceFrame) -> bool:
    """Return whether the process stood still shortly before a frame.

    A source may have found its subjects lost.
    """
    return day.stood.within_ns(frame.t_arrival_ns - 300 * NS_PER_MS, frame.t_arrival_ns) > 0


@every_rig
def test_a_restarted_server_is_found_again(name: str) -> None:
    day = played(name, "restart")
    back_ns = day.started_ns + round(DOWN_S[1] * NS_PER_S)
    first_ns = min(
        frame.t_arrival_ns for frame in day.received.frames if frame.t_arrival_ns > back_ns
    )
    stood_s = day.stood.within_ns(back_ns, first_ns) / NS_PER_S
    assert (first_ns - back_ns) / NS_PER_S <= 2.0 + SLACK_S + stood_s, day
    assert day.counters["restarts"] == 1


@every_rig
@pytest.mark.parametrize("kind", ["restart", "short restart"])
def test_what_counts_back_is_announced_by_a_reset(name: str, kind: str) -> None:
    day = played(name, kind)
    last: SourceFrame | None = None
    for event in day.received.events:
        match event:
            case SourceReset():
                last = None
            case SourceFrame():
                if last is not None:
                    assert event.frame_number > last.frame_number, day
                    stamps = last.t_foreign_ns, event.t_foreign_ns
                    assert None in stamps or stamps[0] < stamps[1], (day, stamps)  # type: ignore[operator]
                last = event


@every_rig
def test_a_silent_server_is_named_in_the_status(name: str) -> None:
    day = played(name, "half-open")
    reason = day.received.status.report().reason
    assert "127.0.0.1" in reason, reason
    since_ns, begun_ns = (
        day.received.status.report().since_ns,
        day.started_ns + round(SILENT_S * NS_PER_S),
    )
    assert (since_ns - begun_ns) / NS_PER_S <= 3.5 + SLACK_S + day.stood.within_ns(
        begun_ns, since_ns
    ) / NS_PER_S, day


@every_rig
def test_garbage_is_counted_and_survived(name: str) -> None:
    day = played(name, "garbage")
    counters = day.received.status.counters
    assert 0 < counters["malformed"] <= day.counters["garbage"], day
    assert day.received.frames, day


@every_rig
def test_the_end_comes_at_once(name: str) -> None:
    for day in ("calm", "half-open"):
        assert played(name, day).ended_s <= 2.0


# --- promises that need a look at the sockets -----------------------------------------------------


def sockets() -> set[str]:
    """The sockets of this process, by inode."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(entry)  # noqa: PTH115 - no path but a name
            if target.startswith("socket:"):
                found.add(f"{entry.name} {target}")
    return found


@every_rig
async def test_a_cancelled_source_leaves_no_socket(name: str) -> None:
    rig = load(name)
    async with rig.emulator(Dance(), now_ns(), Faults()) as emulator:
        before = sockets()
        async with receiving(rig.source(emulator)) as received:
            await received.more_frames(3)
            assert sockets() - before
        await until(lambda: sockets() <= before)
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


@every_rig
async def test_an_error_of_the_receiver_ends_the_source(name: str) -> None:
    """It is a bug, which the supervisor must see: no source survives it in silence."""
    rig = load(name)

    def emit(event: SourceEvent) -> None:
        if isinstance(event, SourceFrame):
            raise LookupError("a bug")

    async with rig.emulator(Dance(), now_ns(), Faults()) as emulator, asyncio.timeout(PATIENCE_S):
        with pytest.raises(LookupError, match="a bug"):
            await rig.source(emulator).run(emit, Status("lab"), SourceContext())


class Elsewhere(Dance):
    """The same subjects 50 m further up, which nobody may ever see."""

    def at(self, t_ns: int):  # type: ignore[no-untyped-def]
        frame = super().at(t_ns)
        frame.p_m[:, 2] += 50.0
        return frame


def tapped(emulator: Emulator) -> list[bytes]:
    """Everything that the emulator sends from now on."""
    heard: list[bytes] = []
    send = emulator.server.send

    def tap(
        to: Callable[[bytes], None], message: bytes, *, latency_ns: int = 0, datagram: bool = False
    ) -> None:
        heard.append(message)
        send(to, message, latency_ns=latency_ns, datagram=datagram)

    emulator.server.send = tap  # type: ignore[method-assign, assignment]
    return heard


@contextlib.contextmanager
def udp_addresses(before: set[str]) -> Iterator[list[tuple[str, int]]]:
    """Where the UDP sockets that were opened since then receive."""
    addresses = []
    for entry in sockets() - before:
        with socket.socket(fileno=os.dup(int(entry.split()[0]))) as sock:
            if (
                sock.family == socket.AF_INET
                and sock.type == socket.SOCK_DGRAM
                and sock.getsockname()[1]
            ):
                addresses.append(sock.getsockname())
    yield addresses


@every_rig
async def test_nothing_of_other_senders_is_believed(name: str) -> None:
    rig = load(name)
    motion = Elsewhere()
    async with (
        rig.emulator(motion, now_ns(), Faults()) as stranger,
        receiving(rig.source(stranger)) as lured,
    ):
        heard = tapped(stranger)
        await lured.more_frames(3)
    lies = heard[-3:]
    async with rig.emulator(Dance(), now_ns(), Faults()) as emulator:
        before = sockets()
        async with receiving(rig.source(emulator)) as received:
            await received.more_frames(3)
            with (
                udp_addresses(before) as targets,
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar,
            ):
                if not targets:
                    pytest.skip("this source has connections only")
                liar.bind(("127.0.0.2", 0))
                for target in targets:
                    for lie in lies:
                        with contextlib.suppress(OSError):
                            liar.sendto(
                                lie,
                                ("127.0.0.1" if target[0] == "0.0.0.0" else target[0], target[1]),
                            )
            await received.more_frames(10)
    assert all(np.abs(frame.p_m).max() < 20.0 for frame in received.frames)
