"""Frame numbers as a clock, pings, and what becomes of packets: judged without sockets."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.support.motions import DANCER, Dance
from tests.support.vicon import golden
from vil_adapters.sessions.frame_order import FrameVerdict
from vil_adapters.vicon import blocks, codec
from vil_adapters.vicon.config import TrackerEmulatorConfig, ViconConfig
from vil_adapters.vicon.convert import ViconConverter, latency_ns, period_ticks
from vil_adapters.vicon.emulator_frames import BlockGenerator, EncodedFrame
from vil_adapters.vicon.receiver import FrameClock, PingTimes, ViconReceiver
from vil_adapters.vicon.source import wanted_types
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import SourceEvent, SourceFrame, SourceReset
from vil_bridge.runtime.supervisor import Status

TICKS = 1_350_000
PERIOD_NS = 10_000_000


def clock_at(frame_id: int) -> FrameClock:
    clock = FrameClock()
    assert clock.judge(frame_id, TICKS, frame_id * PERIOD_NS) is FrameVerdict.NEW
    return clock


def test_numbers_times_the_period_are_the_time_without_rounding() -> None:
    clock = FrameClock()
    clock.judge(0, 562_501, 0)  # 239.9996 Hz
    assert clock.stamp_ns(10**9) == 10**9 * 562_501 * NS_PER_S // 135_000_000


def test_gaps_are_counted_and_repeats_are_known() -> None:
    clock = clock_at(100)
    assert clock.judge(104, TICKS, 104 * PERIOD_NS) is FrameVerdict.NEW
    assert clock.lost == 3
    assert clock.judge(104, TICKS, 105 * PERIOD_NS) is FrameVerdict.DUPLICATE
    assert clock.lost == 3


@pytest.mark.parametrize(("frame_id", "ticks"), [(99, TICKS), (101, 2 * TICKS), (100, 2 * TICKS)])
def test_a_number_that_goes_back_or_another_period_is_a_new_clock(
    frame_id: int, ticks: int
) -> None:
    clock = clock_at(100)
    assert clock.judge(frame_id, ticks, 101 * PERIOD_NS) is FrameVerdict.RESTARTED
    assert (clock.lost, clock.period_ticks) == (0, ticks)
    assert clock.judge(frame_id + 1, ticks, 102 * PERIOD_NS) is FrameVerdict.NEW


def test_late_datagrams_do_not_make_a_new_clock() -> None:
    clock = FrameClock(datagrams=True)
    for frame_id in (100, 102):
        assert clock.judge(frame_id, TICKS, frame_id * PERIOD_NS) is FrameVerdict.NEW
    assert clock.judge(101, TICKS, 102 * PERIOD_NS) is FrameVerdict.REORDERED
    assert clock.judge(103, TICKS, 103 * PERIOD_NS) is FrameVerdict.NEW
    for late, new in ((98, 104), (5, 105), (6, 106), (5, 107)):
        assert clock.judge(late, TICKS, new * PERIOD_NS) in (
            FrameVerdict.REORDERED,
            FrameVerdict.OUT_OF_SEQUENCE,
        )
        assert clock.judge(new, TICKS, new * PERIOD_NS) is FrameVerdict.NEW
    assert clock.judge(5, TICKS, 108 * PERIOD_NS) is FrameVerdict.OUT_OF_SEQUENCE
    assert clock.judge(6, TICKS, 109 * PERIOD_NS) is FrameVerdict.RESTARTED, (
        "nothing of the old clock came between"
    )
    assert clock.judge(7, TICKS, 110 * PERIOD_NS) is FrameVerdict.NEW


@pytest.mark.parametrize(
    ("frame_id", "verdict"),
    [(600, FrameVerdict.NEW), (605, FrameVerdict.NEW), (200, FrameVerdict.RESTARTED)],
)
def test_after_an_outage_a_number_must_fit_the_time_that_passed(
    frame_id: int, verdict: FrameVerdict
) -> None:
    clock = clock_at(100)
    clock.reconnected()
    assert clock.judge(frame_id, TICKS, 600 * PERIOD_NS) is verdict
    # Without an outage a jump is a loss: numbers are not compared to arrivals, which may come in
    # bursts.
    clock = clock_at(100)
    assert clock.judge(200, TICKS, 600 * PERIOD_NS) is FrameVerdict.NEW


def test_only_what_a_ping_takes_beyond_a_frame_is_the_wire() -> None:
    pings = PingTimes()
    for _ in range(49):
        pings.add(40_000_000)
    assert pings.one_way_ns(PERIOD_NS) == 0, "too few to be believed"
    pings.add(30_000_000)
    assert pings.one_way_ns(PERIOD_NS) == 10_000_000
    pings.add(4_000_000)
    assert (pings.shortest_ns, pings.one_way_ns(PERIOD_NS)) == (4_000_000, 0)


def test_the_shortest_ping_is_shown_in_milliseconds() -> None:
    taker, _, status = receiver()
    taker.pings.add(1_250_000)
    taker.handle(codec.split_datagram(golden("one_object")), 2 * NS_PER_S)
    taker.deliver()
    assert status.facts["ping_ms"] == 1.25


def test_the_period_comes_from_the_rates_where_the_stream_does_not_tell_it() -> None:
    def ticks(*encoded: bytes) -> int:
        return period_ticks(codec.split_datagram(codec.encode_packet(*encoded)))

    rates = blocks.FRAME_RATE_INFO.encode({"Camera": 100.0, "Wrong": float("nan")})
    assert ticks(blocks.STREAM_INFO.encode(TICKS), rates) == TICKS
    assert ticks(blocks.STREAM_INFO.encode(0), rates) == TICKS
    assert ticks(rates) == TICKS
    assert ticks() == ticks(blocks.STREAM_INFO.encode(-5)) == 0


@pytest.mark.parametrize(
    ("parts", "expected"),
    [((0.001, 0.0025), 3_500_000), ((-1.0,), 0), ((float("nan"),), 0), ((1e9,), 0), ((), 0)],
)
def test_the_latency_is_the_sum_of_its_parts_or_unknown(
    parts: tuple[float, ...], expected: int
) -> None:
    block = blocks.LATENCY_INFO.encode(tuple(blocks.LatencySample("a", s) for s in parts))
    assert latency_ns(codec.split_datagram(codec.encode_packet(block))) == expected


def receiver() -> tuple[ViconReceiver, list[SourceEvent], Status]:
    events: list[SourceEvent] = []
    status = Status("lab")
    return ViconReceiver("lab", ViconConverter("lab"), (), events.append, status), events, status


def frame(frame_id: int, *more: bytes) -> codec.Blocks:
    return codec.split_datagram(codec.encode_packet(*more, blocks.FRAME_INFO.encode(frame_id)))


def test_the_newest_of_several_frames_is_emitted_with_what_was_unchanged() -> None:
    taker, events, status = receiver()
    stream = blocks.STREAM_INFO.encode(TICKS)
    assert not taker.handle(codec.split_datagram(codec.encode_packet(stream)), 1), (
        "no frame of its own"
    )
    assert taker.handle(codec.split_datagram(golden("one_object")), 5)
    taker.deliver()
    assert taker.handle(frame(42), 7)
    assert taker.handle(frame(45), 8)
    taker.deliver()
    taker.deliver()
    first, second = events
    assert isinstance(first, SourceFrame)
    assert isinstance(second, SourceFrame)
    np.testing.assert_array_equal(first.p_m, [[1.0, 0.0, 1.5]])
    assert (first.frame_number, first.subjects, first.tracked.tolist(), first.t_arrival_ns) == (
        42,
        ("cf7",),
        [True],
        5,
    )
    assert first.t_foreign_ns is None, (
        "the group of descriptions came again without the period: it is gone"
    )
    assert (second.frame_number, second.tracked.tolist()) == (46, [False])
    assert (status.counters["superseded"], status.counters["lost"]) == (1, 2)


def test_a_packet_without_a_frame_takes_nothing_from_the_frame_before_it() -> None:
    """A ping that comes back alone leaves out every segment, but it is no frame in which all are
    lost.
    """
    taker, events, status = receiver()
    assert taker.handle(codec.split_datagram(golden("one_object")), 5)
    assert not taker.handle(codec.split_datagram(codec.encode_packet(codec.PING.encode(7))), 6)
    taker.deliver()
    (only,) = events
    assert isinstance(only, SourceFrame)
    assert only.tracked.tolist() == [True]
    assert only.t_arrival_ns == 5
    assert not status.counters["superseded"]


def test_a_new_clock_is_announced_before_its_first_frame() -> None:
    taker, events, status = receiver()
    taker.handle(codec.split_datagram(golden("one_object")), 5)
    taker.deliver()
    taker.handle(frame(3), 7)
    taker.deliver()
    assert [type(event) for event in events] == [SourceFrame, SourceReset, SourceFrame]
    assert status.counters["resets"] == 1


def test_frames_without_descriptions_are_counted() -> None:
    taker, events, status = receiver()
    assert taker.handle(frame(3), 7)
    taker.deliver()
    assert (events, status.counters["undescribed"]) == ([], 1)


def test_offsets_are_the_scaled_rest_pose_and_the_scale_is_told() -> None:
    model = dataclasses.replace(DANCER, scale=1.25)
    motion = Dance(skeleton_models=(model,))
    for up_axis in ("z", "y"):
        film = BlockGenerator(motion, TrackerEmulatorConfig.model_validate({"up_axis": up_axis}), 1)
        topology, scale = (film.statics[kind][1] for kind in (28, 28001))
        rest = blocks.SUBJECT_TOPOLOGY.all(
            codec.split_datagram(codec.encode_packet(topology, scale))
        )[0].rows
        assert np.linalg.norm(rest["p"][1]) == pytest.approx(
            np.linalg.norm(DANCER.offsets_m[1]) * 1e3 / 1.25
        )
        converter = ViconConverter("lab")
        exposure = EncodedFrame(film, 0, motion.at(0), 0)
        encoded = [block for _, block in film.statics.values()] + [
            exposure.block(kind)[1] for kind in (5, 9)
        ]
        assert converter.describe(codec.split_datagram(codec.encode_packet(*encoded)))
        (found,) = converter.skeletons
        assert found.scale == pytest.approx(1.25)
        np.testing.assert_allclose(found.offsets_m, model.offsets_m, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(9, [True, False, True, True, True]), (901, [True, False, False, True, True])],
)
def test_a_local_pose_is_known_no_better_than_those_above_it(
    kind: int, expected: list[bool]
) -> None:
    seen = Dance().at(0)
    seen.skeletons[0].tracked[1] = False
    film = BlockGenerator(Dance(), TrackerEmulatorConfig(), 1)
    encoded = [block for _, block in film.statics.values()] + [
        EncodedFrame(film, 0, seen, 0).block(kind)[1]
    ]
    packet = codec.split_datagram(codec.encode_packet(*encoded))
    converter = ViconConverter("lab")
    converter.describe(packet)
    (skeleton,) = converter.frame(packet, 1, None, 0, 0).skeletons
    assert skeleton.tracked.tolist() == expected
    real = seen.skeletons[0].p_m
    np.testing.assert_allclose(skeleton.p_m[skeleton.tracked], real[skeleton.tracked], atol=1e-6)


@pytest.mark.parametrize(
    ("config", "asked", "not_asked"),
    [
        (ViconConfig(), {9, 100004, 2, 5, 26}, {6, 7, 8, 901}),
        (ViconConfig(lightweight=True), {901}, {6, 7, 8, 9}),
        (ViconConfig(markers="labeled"), {6, 9}, {7}),
        (ViconConfig(markers="all"), {6, 7, 9}, {8}),
    ],
)
def test_nothing_is_asked_for_that_is_not_needed(
    config: ViconConfig, asked: set[int], not_asked: set[int]
) -> None:
    everything = frozenset(range(2000)) | {28001, 100004}
    wanted = wanted_types(config, everything)
    assert asked <= wanted
    assert not not_asked & wanted
    assert wanted_types(config, everything - {901, 28}) == (wanted - {901, 28}) | (
        {9} if config.lightweight else set()
    )
