"""Units, axes, names, hierarchy and time at the edge; echo clock."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.support.optitrack import ACTOR, walking
from vil_adapters.optitrack.clock_continuity import EchoClock
from vil_adapters.optitrack.convert import (
    NatNetConverter,
    capture_ns,
    changed_subjects,
    latency_ns,
    ns_to_ticks,
    ticks_to_ns,
)
from vil_bridge.bodies.skeleton import global_to_local, local_to_global
from vil_bridge.core.types import ClockExchange, FloatArray
from vil_bridge.protocols.natnet.codec import EchoReply, ServerInfo, decode_echo_request
from vil_bridge.protocols.natnet.frame import BODY, NatNetFrame, SkeletonPose, Suffix
from vil_bridge.protocols.natnet.model import BodyDescription, Models, SkeletonDescription

INFO = ServerInfo("Motive", (3, 1, 0, 0), (4, 1, 0, 0), 10_000_000)
MODELS = Models((BodyDescription("drone", 7), BodyDescription("gate", 3)))
S45 = math.sqrt(0.5)
MS = 1_000_000


def records(*rows: tuple[int, tuple[float, ...], tuple[float, ...], int]) -> np.ndarray:
    return np.array([(i, p, q, 0.0, params) for i, p, q, params in rows], dtype=BODY)


def converter(models: Models = MODELS, **changes: object) -> NatNetConverter:
    options = {"scale_m": 1.0, "up_axis": "y", "coordinates": "auto"} | changes
    return NatNetConverter("lab", models, INFO, **options)  # type: ignore[arg-type]


def described(bones: list[tuple[str, int, int]]) -> Models:
    described = tuple(
        BodyDescription(name, i, parent, (0.0, 0.1 * i, 0.0)) for name, i, parent in bones
    )
    return Models((SkeletonDescription("Actor", 3, described),))


# --- axes, units, names ---------------------------------------------------------------------------


def test_y_up_becomes_z_up_for_position_and_attitude() -> None:
    """Streamed (1, 2, -0.5) is 2 m high; a turn about the streamed up axis is a yaw."""
    frame = NatNetFrame(
        1, records((7, (1.0, 2.0, -0.5), (0.0, S45, 0.0, S45), 1)), suffix=Suffix(0.0, 1000)
    )
    emitted = converter().frame(frame, 123)
    assert emitted.subjects == ("drone",)
    assert emitted.p_m == pytest.approx(np.array([[1.0, 0.5, 2.0]]))
    assert emitted.q_xyzw == pytest.approx(np.array([[0.0, 0.0, S45, S45]]))
    assert (emitted.frame_number, emitted.t_arrival_ns, emitted.t_foreign_ns) == (1, 123, 100_000)


def test_z_up_and_millimetres() -> None:
    frame = NatNetFrame(1, records((7, (1000.0, 2000.0, -500.0), (0.0, S45, 0.0, S45), 1)))
    emitted = converter(scale_m=0.001, up_axis="z").frame(frame, 0)
    assert emitted.p_m == pytest.approx(np.array([[1.0, 2.0, -0.5]]))
    assert emitted.q_xyzw == pytest.approx(np.array([[0.0, S45, 0.0, S45]]))


def test_bodies_are_named_by_id_in_any_order() -> None:
    convert = converter()
    one, two = (
        (7, (1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), 1),
        (3, (2.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), 0),
    )
    first = convert.frame(NatNetFrame(1, records(one, two)), 0)
    swapped = convert.frame(NatNetFrame(2, records(two, one)), 0)
    assert (first.subjects, swapped.subjects) == (("drone", "gate"), ("gate", "drone"))
    assert (first.p_m[:, 0].tolist(), swapped.p_m[:, 0].tolist()) == ([1.0, 2.0], [2.0, 1.0])
    assert (first.tracked.tolist(), swapped.tracked.tolist()) == ([True, False], [False, True])
    assert not convert.unknown
    stranger = convert.frame(
        NatNetFrame(3, records(one, (99, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), 1))), 0
    )
    assert (stranger.subjects, convert.unknown) == (("drone",), True)


def test_a_lost_body_with_a_zero_pose_and_one_with_nan_stay_harmless() -> None:
    convert = converter()
    nan = (float("nan"), 0.0, 0.0)
    frame = NatNetFrame(
        1, records((7, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), 0), (3, nan, (0.0, 0.0, 0.0, 1.0), 1))
    )
    emitted = convert.frame(frame, 0)
    assert emitted.tracked.tolist() == [False, False]
    assert np.linalg.norm(emitted.q_xyzw, axis=1) == pytest.approx([1.0, 1.0])
    assert np.isfinite(emitted.p_m).all()
    assert convert.nonfinite == 1


def test_a_body_without_an_attitude_is_not_tracked_whatever_the_stream_says() -> None:
    convert = converter()
    (tracked,) = convert.frame(
        NatNetFrame(1, records((7, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 0.0), 1))), 0
    ).tracked
    assert (bool(tracked), convert.nonfinite) == (False, 1)


def test_changed_subjects_are_those_described_differently() -> None:
    after = Models(
        (BodyDescription("drone", 7), BodyDescription("gate", 4), BodyDescription("new", 5))
    )
    assert changed_subjects(MODELS, after) == ["gate"]


# --- skeletons ------------------------------------------------------------------------------------


def test_local_and_global_are_inverse() -> None:
    frame = walking(0.7, tracked=True)
    p_local, q_local = global_to_local(frame.p_m, frame.q_xyzw, ACTOR.parents)
    assert p_local[1:] == pytest.approx(ACTOR.offsets_m[1:]), "bones keep their lengths"
    p_m, q_xyzw = local_to_global(p_local, q_local, ACTOR.parents)
    assert p_m == pytest.approx(frame.p_m)
    assert np.abs(np.sum(q_xyzw * frame.q_xyzw, axis=1)) == pytest.approx(np.ones(5))


def test_bones_are_put_parents_first_and_ids_are_masked() -> None:
    models = described([("Hand", 3, 2), ("Root", 1, 0), ("Arm", 2, 1)])
    convert = converter(models, up_axis="z", coordinates="global")
    identity = (0.0, 0.0, 0.0, 1.0)
    rows = [(3 << 16 | i, (float(i), 0.0, 0.0), identity, 1) for i in (3, 1)]
    (skeleton,) = convert.frame(
        NatNetFrame(1, skeletons=(SkeletonPose(3, records(*rows)),)), 0
    ).skeletons
    assert (skeleton.model.bones, skeleton.model.parents) == (("Root", "Arm", "Hand"), (-1, 0, 1))
    assert skeleton.model.offsets_m[:, 1] == pytest.approx([0.1, 0.2, 0.3])
    assert skeleton.p_m[:, 0].tolist() == [1.0, 0.0, 3.0]
    assert skeleton.tracked.tolist() == [True, False, True], "the arm was not streamed"


def test_offsets_become_z_up_too() -> None:
    models = Models(
        (SkeletonDescription("A", 1, (BodyDescription("Hip", 1, 0, (100.0, 900.0, -50.0)),)),)
    )
    convert = converter(models, scale_m=0.001)
    pose = SkeletonPose(1, records((1 << 16 | 1, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), 1)))
    (skeleton,) = convert.frame(NatNetFrame(1, skeletons=(pose,)), 0).skeletons
    assert skeleton.model.offsets_m == pytest.approx(np.array([[0.1, 0.05, 0.9]]))


@pytest.mark.parametrize(
    "bones",
    [[("A", 1, 2), ("B", 2, 1)], [("A", 1, 1)], [("A", 1, 77)], [("A", 1, 0), ("again", 1, 0)], []],
)
def test_impossible_hierarchies_end(bones: list[tuple[str, int, int]]) -> None:
    convert = converter(described(bones), coordinates="local")
    (skeleton,) = convert.frame(
        NatNetFrame(1, skeletons=(SkeletonPose(3, records()),)), 0
    ).skeletons
    assert all(parent < i for i, parent in enumerate(skeleton.model.parents))
    assert not skeleton.tracked.any()


def actor_pose(p: FloatArray, q: FloatArray, params: list[int]) -> NatNetFrame:
    rows = [(3 << 16 | i + 1, tuple(p[i]), tuple(q[i]), params[i]) for i in range(5)]
    return NatNetFrame(1, skeletons=(SkeletonPose(3, records(*rows)),))


def actor_models() -> Models:
    bones = tuple(
        BodyDescription(name, i + 1, parent + 1, (float(x), float(y), float(z)))
        for i, (name, parent, (x, y, z)) in enumerate(
            zip(ACTOR.bones, ACTOR.parents, ACTOR.offsets_m, strict=True)
        )
    )
    return Models((SkeletonDescription("Actor", 3, bones),))


@pytest.mark.parametrize("coordinates", ["local", "global"])
def test_coordinates_are_found_from_the_data(coordinates: str) -> None:
    convert = converter(actor_models(), up_axis="z")
    truth = walking(0.3, tracked=True)
    p, q = truth.p_m, truth.q_xyzw
    if coordinates == "local":
        p, q = global_to_local(p, q, ACTOR.parents)
    (lost,) = convert.frame(actor_pose(p, q, [1, 1, 0, 0, 0]), 0).skeletons
    assert convert.skeleton_coordinates == {"Actor": "auto"}
    assert not lost.tracked.any()
    (seen,) = convert.frame(actor_pose(p, q, [1] * 5), 0).skeletons
    assert convert.skeleton_coordinates == {"Actor": coordinates}
    assert seen.p_m == pytest.approx(truth.p_m, abs=1e-6)
    assert seen.tracked.all()
    (partly,) = convert.frame(actor_pose(p, q, [1, 0, 1, 1, 1]), 0).skeletons
    assert partly.tracked.tolist() == [True, False, coordinates == "global", True, True]


@pytest.mark.parametrize("coordinates", ["local", "global"])
def test_coordinates_are_found_although_a_hand_is_never_tracked(coordinates: str) -> None:
    convert = converter(actor_models(), up_axis="z")
    truth = walking(0.3, tracked=True)
    p, q = truth.p_m, truth.q_xyzw
    if coordinates == "local":
        p, q = global_to_local(p, q, ACTOR.parents)
    p[4] = 0.0  # what the server sends in its stead
    (seen,) = convert.frame(actor_pose(p, q, [1, 1, 1, 1, 0]), 0).skeletons
    assert convert.skeleton_coordinates == {"Actor": coordinates}
    assert seen.tracked.tolist() == [True] * 4 + [False]
    assert seen.p_m[:4] == pytest.approx(truth.p_m[:4], abs=1e-6)


@pytest.mark.parametrize("bad", ["absent", "nan", "infinite", "no attitude"])
@pytest.mark.parametrize("coordinates", ["local", "global"])
def test_a_bone_without_a_pose_is_untracked_and_finite(coordinates: str, bad: str) -> None:
    convert = converter(actor_models(), up_axis="z", coordinates=coordinates)
    truth = walking(0.3, tracked=True)
    p, q = truth.p_m.copy(), truth.q_xyzw.copy()
    if coordinates == "local":
        p, q = global_to_local(p, q, ACTOR.parents)
    match bad:
        case "nan":
            p[1, 2] = np.nan
        case "infinite":
            q[1, 0] = np.inf
        case "no attitude":
            q[1] = 0.0
    frame = actor_pose(p, q, [1] * 5)
    if bad == "absent":
        (pose,) = frame.skeletons
        frame = NatNetFrame(1, skeletons=(SkeletonPose(3, np.delete(pose.bones, 1)),))
    (seen,) = convert.frame(frame, 0).skeletons
    assert seen.tracked.tolist() == [True, False, coordinates == "global", True, True]
    assert np.isfinite(seen.p_m).all()
    assert np.linalg.norm(seen.q_xyzw, axis=1) == pytest.approx(np.ones(5))
    assert seen.p_m[seen.tracked] == pytest.approx(truth.p_m[seen.tracked], abs=1e-6)


# --- time -----------------------------------------------------------------------------------------


def test_ticks_stay_exact_after_weeks() -> None:
    month_ns = 30 * 86_400 * 10**9 + 1
    assert ticks_to_ns(month_ns // 100, 10_000_000) == month_ns - 1
    assert ticks_to_ns(ns_to_ticks(month_ns, 3_312_787), 3_312_787) == pytest.approx(
        month_ns, abs=302
    )


def test_capture_time_falls_back_within_one_clock() -> None:
    old = ServerInfo("Tracking", (1, 9, 0, 0), (2, 9, 0, 0))
    assert capture_ns(Suffix(12.5, 1000, 1100, 1200), INFO) == 100_000
    assert capture_ns(Suffix(12.5, 0, 1100, 1200), INFO) == 110_000
    assert capture_ns(Suffix(12.5), INFO) is None, (
        "seconds since start are another clock than the ticks"
    )
    assert capture_ns(Suffix(12.5), old) == 12_500_000_000
    assert capture_ns(Suffix(None), old) is None
    assert capture_ns(Suffix(float("nan")), old) is None


def test_times_that_64_bits_do_not_hold_are_no_times() -> None:
    old, slow = ServerInfo("Arena", (1, 7, 0, 0), (2, 7, 0, 0)), replace(INFO, ticks_per_s=1)
    century_s = 100 * 365 * 86_400
    assert capture_ns(Suffix(float(century_s)), old) == century_s * 10**9
    for stamp_s in (1e10, -1e10, 1e300, float("inf")):
        assert capture_ns(Suffix(stamp_s), old) is None
    assert capture_ns(Suffix(None, century_s), slow) == century_s * 10**9
    assert capture_ns(Suffix(None, 2**63 // 10**9 + 1), slow) is None
    assert latency_ns(Suffix(None, 1, 1, 1 + century_s), slow) == century_s * 10**9
    assert latency_ns(Suffix(None, 1, 1, 2**64 - 1), slow) == 0
    clock = EchoClock("lab")
    assert clock.request(0) is not None
    assert clock.reply(EchoReply(0, 2**64 - 1), 10, 1) is None
    assert clock.reply(EchoReply(0, century_s), 10, 1) is not None


def test_echoes_come_in_a_burst_then_every_60_ms() -> None:
    clock = EchoClock("lab")
    sent = [t // MS for t in range(0, 1000 * MS, MS) if clock.request(t) is not None]
    assert sent == [0, 20, 40, 60, 80, *range(100, 1000, 60)]
    clock.restart()
    assert clock.request(1000 * MS) is not None


def test_an_exchange_needs_a_pending_echo_and_keeps_its_sign() -> None:
    clock = EchoClock("lab")
    request = clock.request(5 * MS)
    assert request is not None
    reply = EchoReply(decode_echo_request(request), ticks=70_000)
    exchange = clock.reply(reply, 7 * MS, 10_000_000)
    assert exchange == ClockExchange("lab", 5 * MS, 7 * MS, 7 * MS)
    assert clock.reply(reply, 8 * MS, 10_000_000) is None, "answered twice"
    assert clock.reply(EchoReply(12345, 1), 8 * MS, 10_000_000) is None, "never asked"


def test_a_clock_jump_is_told_from_drift_and_delay() -> None:
    clock = EchoClock("lab")

    def exchange(t_ms: int, offset_ms: float, round_trip_ms: int = 2) -> ClockExchange:
        middle_ns = round((t_ms + round_trip_ms / 2 + offset_ms) * MS)
        return ClockExchange("lab", t_ms * MS, middle_ns, (t_ms + round_trip_ms) * MS)

    assert not clock.jumped(exchange(0, 1000.0))
    assert not clock.jumped(exchange(10_000, 1000.5))
    assert not clock.jumped(exchange(20_000, 1300.0, round_trip_ms=700))
    assert clock.jumped(exchange(30_000, 2000.0))
    assert not clock.jumped(exchange(30_250, 2000.0)), "one jump is told once"
