"""When a VRPN body is tracked, when it is lost, and which poses make a frame."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_adapters.vrpn.compiled_table import CompiledTrackerTable
from vil_adapters.vrpn.convert import VrpnFrame, sender_and_sensor, subject_name, usable
from vil_adapters.vrpn.tracker_table import PoseVerdict, TrackerTable
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceFrame, TrackingState
from vil_bridge.kernel import library
from vil_bridge.protocols.vrpn.codec import TrackerPose
from vil_bridge.world import world as world_module
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

MS = 1_000_000
S = 1_000 * MS
SERVER_NS = 1_700_000_000 * S
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


class Wire:
    """A server whose clock is ahead by ``SERVER_NS``; what is sent at one time arrives at once."""

    def __init__(
        self, table: type[TrackerTable | CompiledTrackerTable], *, repeats_mean_lost: bool = True
    ) -> None:
        self.table = table("lab", VrpnFrame("m", "z"), repeats_mean_lost=repeats_mean_lost)
        self.verdicts: list[PoseVerdict] = []

    def send(
        self, t_ms: float, *names: str, x: float | None = None, q: tuple[float, ...] = UPRIGHT
    ) -> list[SourceFrame]:
        for name in names:
            self.put(t_ms, name, x=x, q=q)
        return self.table.frames()

    def put(
        self,
        t_ms: float,
        name: str,
        *,
        x: float | None = None,
        q: tuple[float, ...] = UPRIGHT,
        step_ms: float = 0.0,
    ) -> None:
        pose = TrackerPose(0, (t_ms if x is None else x, 0.5, 0.25), (q[0], q[1], q[2], q[3]))
        stamp_ns = SERVER_NS + round((t_ms + step_ms) * MS)
        self.verdicts.append(self.table.judge(name, pose, stamp_ns, round(t_ms * MS)))

    def flags(self, frames: list[SourceFrame]) -> list[dict[str, bool]]:
        return [dict(zip(f.subjects, f.tracked.tolist(), strict=True)) for f in frames]


TABLES = [
    TrackerTable,
    pytest.param(
        CompiledTrackerTable,
        marks=pytest.mark.skipif(
            library.KERNEL is None, reason=f"no compiled kernel: {library.ABSENT}"
        ),
    ),
]


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> type[TrackerTable | CompiledTrackerTable]:
    """Both forms of the table."""
    kind: type[TrackerTable | CompiledTrackerTable] = request.param
    return kind


@pytest.fixture
def wire(table: type[TrackerTable | CompiledTrackerTable]) -> Wire:
    return Wire(table)


def test_poses_of_one_stamp_that_wait_together_are_one_frame(wire: Wire) -> None:
    (first,) = wire.send(10, "a", "b")
    (second,) = wire.send(20, "b", "a")
    assert (first.subjects, second.subjects) == (("a", "b"), ("a", "b"))
    assert second.subjects is first.subjects
    assert (first.frame_number, second.frame_number) == (1, 2)
    assert second.t_foreign_ns == SERVER_NS + 20 * MS
    assert second.t_arrival_ns == 20 * MS
    assert second.p_m.tolist() == [[20, 0.5, 0.25], [20, 0.5, 0.25]]


def test_newest_wins_and_the_overtaken_are_counted(wire: Wire) -> None:
    for t_ms in (10, 20, 30):
        wire.put(t_ms, "a")
    wire.put(30, "b")
    (frame,) = wire.table.frames()
    assert frame.t_foreign_ns == SERVER_NS + 30 * MS
    assert wire.table.superseded == 2
    for t_ms, name in ((40, "a"), (40, "b"), (50, "a")):
        wire.put(t_ms, name)
    older, newer = wire.table.frames()
    assert (older.subjects, newer.subjects) == (("a", "b"), ("a",)), (
        "the pose of b is not lost to the newer one of a"
    )


def test_a_body_of_a_later_message_is_neither_repeated_nor_lost(wire: Wire) -> None:
    wire.send(10, "a", "b")
    (frame,) = wire.send(20, "a")
    assert frame.subjects == ("a",)


def test_a_body_is_lost_after_three_periods_of_the_others(wire: Wire) -> None:
    for t_ms in (10, 20, 30):
        wire.send(t_ms, "a", "b")
    flags = [wire.flags(wire.send(t_ms, "a"))[0] for t_ms in (40, 50, 60, 70, 80)]
    assert flags == [{"a": True}] * 3 + [{"a": True, "b": False}] * 2
    (back,) = wire.send(90, "a", "b")
    assert back.tracked.all()


def test_a_lone_body_that_falls_silent_is_lost_without_a_message(wire: Wire) -> None:
    for t_ms in range(0, 400, 40):
        wire.send(t_ms, "a")
    assert wire.table.silent(360 * MS + 119 * MS) is None
    frame = wire.table.silent(360 * MS + 121 * MS)
    assert frame is not None
    assert (frame.t_foreign_ns, frame.subjects, frame.tracked.tolist()) == (None, ("a",), [False])
    assert frame.p_m.tolist() == [[360, 0.5, 0.25]]
    assert wire.table.silent(900 * MS) is None, "told once"


def test_a_pose_repeated_more_than_five_times_is_an_old_one(wire: Wire) -> None:
    flags = [wire.send(10 * k, "a", x=1.0)[0].tracked.tolist() for k in range(8)]
    assert flags == [[True]] * 6 + [[False]] * 2
    assert wire.table.repeated == 2
    assert wire.send(90, "a", x=1.0 + 1e-12)[0].tracked.all()


@pytest.mark.parametrize(
    ("limit_ms", "state"), [(200, TrackingState.FROZEN), (None, TrackingState.TRACKED)]
)
def test_bodies_that_rest_without_noise_are_judged_by_the_world_where_repeats_do_not_mean_lost(
    monkeypatch: pytest.MonkeyPatch,
    table: type[TrackerTable | CompiledTrackerTable],
    limit_ms: int | None,
    state: TrackingState,
) -> None:
    t_ms, simulator = 0, Wire(table, repeats_mean_lost=False)
    monkeypatch.setattr(world_module, "now_ns", lambda: t_ms * MS)
    limits = TrackingLimits(frozen_after_ns=None if limit_ms is None else limit_ms * MS)
    world = World(
        {"lab": Transform.identity()},
        (Actor("drone", ActorKind.VEHICLE, "lab", "a", limits=limits),),
    )
    for t_ms in range(10, 500, 10):
        (frame,) = simulator.send(t_ms, "a", x=1.0)
        assert frame.tracked.all()
        world.ingest(frame)
    assert world.state_of("drone") is state
    assert simulator.table.repeated == 0


@pytest.mark.parametrize("q", [UPRIGHT, (0.0, 0.0, 0.0, 0.0)])
def test_a_zero_pose_is_a_lost_body_shown_where_it_was(wire: Wire, q: tuple[float, ...]) -> None:
    wire.send(10, "a")
    pose = TrackerPose(0, (0.0, 0.0, 0.0), (q[0], q[1], q[2], q[3]))
    assert wire.table.judge("a", pose, SERVER_NS + 20 * MS, 20 * MS) is PoseVerdict.ACCEPTED
    (frame,) = wire.table.frames()
    assert frame.tracked.tolist() == [False]
    assert frame.p_m.tolist() == [[10, 0.5, 0.25]]


def test_a_pose_that_cannot_be_one_is_not_shown(wire: Wire) -> None:
    wire.send(10, "a")
    (frame,) = wire.send(20, "a", x=math.nan)
    assert wire.verdicts[-1] is PoseVerdict.UNUSABLE
    assert frame.tracked.tolist() == [False]
    assert np.isfinite(frame.p_m).all()
    (frame,) = wire.send(30, "a", q=(0.0, 0.0, 0.0, 1.5))
    assert frame.tracked.tolist() == [False]
    assert np.linalg.norm(frame.q_xyzw) == pytest.approx(1.0)
    assert not usable(TrackerPose(0, (0.0, 1.1e7, 0.0), UPRIGHT), 1e-3)
    assert usable(TrackerPose(0, (0.0, 0.9e7, 0.0), UPRIGHT), 1e-3)


def test_the_same_stamp_twice_is_a_duplicate(wire: Wire) -> None:
    wire.send(10, "a")
    assert wire.send(10, "a", x=7.0) == []
    assert wire.verdicts[-1] is PoseVerdict.DUPLICATE


def test_one_impossible_stamp_is_dropped_and_two_are_another_clock(wire: Wire) -> None:
    wire.send(10, "a")
    wire.put(20, "a", step_ms=3_600_000)
    wire.put(30, "a")
    assert wire.verdicts[-2:] == [PoseVerdict.IMPLAUSIBLE_STAMP, PoseVerdict.ACCEPTED]
    for expected in (PoseVerdict.IMPLAUSIBLE_STAMP, PoseVerdict.CLOCK_JUMPED):
        wire.put(40 if expected is PoseVerdict.IMPLAUSIBLE_STAMP else 50, "a", step_ms=3_600_000)
        assert wire.verdicts[-1] is expected
    wire.table.restart(clock=True)
    wire.put(50, "a", step_ms=3_600_000)
    assert wire.verdicts[-1] is PoseVerdict.ACCEPTED


def test_a_clock_that_goes_back_is_another_clock_at_once(wire: Wire) -> None:
    wire.send(10, "a")
    wire.put(20, "a", step_ms=-100)
    assert wire.verdicts[-1] is PoseVerdict.CLOCK_JUMPED


def test_a_burst_after_a_jam_is_no_other_clock(wire: Wire) -> None:
    wire.send(10, "a")
    for t_ms in (20, 30, 40):
        pose = TrackerPose(0, (float(t_ms), 0.0, 0.0), UPRIGHT)
        wire.verdicts.append(wire.table.judge("a", pose, SERVER_NS + t_ms * MS, 3_000 * MS))
    assert wire.verdicts[-2:] == [PoseVerdict.ACCEPTED, PoseVerdict.ACCEPTED]


def test_units_axes_and_sensors() -> None:
    frame = VrpnFrame("mm", "y")
    p_m, q = frame.to_room(np.array([[1000.0, 2000.0, -3000.0]]), np.array([[0.0, 0.6, 0.0, 0.8]]))
    assert p_m == pytest.approx(np.array([[1.0, 3.0, 2.0]]))
    assert q == pytest.approx(np.array([[0.0, 0.0, 0.6, 0.8]]))
    back, q_back = frame.from_room(p_m, q)
    assert back == pytest.approx(np.array([[1000.0, 2000.0, -3000.0]]))
    assert q_back == pytest.approx(np.array([[0.0, 0.6, 0.0, 0.8]]))
    names = ["hand", "hand/1", "hand/12"]
    assert [subject_name("hand", sensor) for sensor in (0, 1, 12)] == names
    assert [sender_and_sensor(name) for name in names] == [("hand", 0), ("hand", 1), ("hand", 12)]
    assert sender_and_sensor("left/hand") == ("left/hand", 0)
