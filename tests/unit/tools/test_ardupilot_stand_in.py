"""ArduPilot's stand-in: a naive physics flies it, and each rule of the wire has a peer that
breaks it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

from tests.support.autopilot_peers import ArduPilotPeer, Motion
from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_simulation.autopilots.stand_ins.ardupilot import ArduPilotDay, ArduPilotStandIn
from vil_simulation.autopilots.stand_ins.ardupilot_lines import PhysicsLine, parse
from vil_simulation.autopilots.stand_ins.motion_rules import MotionRules
from vil_simulation.autopilots.stand_ins.pilot import Flight
from vil_simulation.autopilots.stand_ins.vectors import LEVEL, ZERO
from vil_simulation.autopilots.stand_ins.violations import WireViolation

RATE_HZ = 400
REST = (
    b'\n{"timestamp":1.5,"imu":{"gyro":[0.0,-0.1, 1e-3],"accel_body":[0.0,0.0,-9.81]},'
    b'"position":[1.0,2.0,-3.0],"velocity":[0.1,0.2,0.3],"quaternion":[1.0,0.0,0.0,0.0]}\n'
)


def peer(flight: Flight = "none", **events: float) -> ArduPilotPeer:
    day = ArduPilotDay(rate_hz=RATE_HZ, **events)  # type: ignore[arg-type]
    return ArduPilotPeer(ArduPilotStandIn(flight=flight, day=day), RATE_HZ, yaw_rad=0.7)


def sentence_of(
    change: Callable[[Motion], Motion],
    flight: Flight = "none",
    *,
    after_s: float = 0.0,
    seconds: float = 2.0,
) -> str:
    flown = peer(flight)
    right = flown.line
    late: Callable[[Motion], Motion] = lambda m: change(m) if flown.stand_in.t_s >= after_s else m  # noqa: E731
    flown.line = lambda motion: right(late(motion))  # type: ignore[method-assign]
    with pytest.raises(WireViolation) as caught:
        flown.run(seconds)
    return str(caught.value)


def test_it_hovers_for_twenty_seconds() -> None:
    flown = peer("hover")
    flown.run(7.0)
    heights = []
    for _ in range(20):
        flown.run(1.0)
        heights.append(float(flown.vehicle.position[2]))
    assert np.allclose(flown.vehicle.position[:2], 0.0, atol=0.05)
    assert np.allclose(heights, 1.5, atol=0.2)
    assert np.allclose(heights[5:], 1.5, atol=0.03)
    counters = flown.stand_in.counters()
    assert (counters["frames"], counters["answers"], counters["duplicates"]) == (10_800, 10_800, 0)


def test_it_flies_the_box_on_32_channels_and_lands() -> None:
    stand_in = ArduPilotStandIn(flight="box", day=ArduPilotDay(rate_hz=RATE_HZ, channels=32))
    flown = ArduPilotPeer(stand_in, RATE_HZ)
    flown.run(33.0)
    counters = stand_in.counters()
    assert [armed for _, armed in counters["armed"]] == [True, False]
    assert len(counters["corners_m"]) == 4
    assert max(counters["corners_m"]) < 0.05
    assert np.linalg.norm(flown.vehicle.position) < 0.2


def test_the_packets_are_those_of_the_wire() -> None:
    for channels, magic, size in ((16, 18458, 40), (32, 29569, 72)):
        stand_in = ArduPilotStandIn(day=ArduPilotDay(channels=channels))
        (packet,) = stand_in.poll(0.0)
        assert len(packet) == size
        assert struct.unpack_from("<HHI", packet) == (magic, 1200, 0)
        assert set(packet[8:]) == {0}


def test_the_rate_is_computed_back_from_the_timestamps() -> None:
    flown = ArduPilotPeer(ArduPilotStandIn(), 1200)
    flown.run(0.1)
    (packet,) = flown.stand_in.poll(flown.now_s + 1.0)
    assert abs(struct.unpack_from("<HH", packet)[1] - 1200) <= 1


def test_outputs_are_zero_first_then_disarmed_then_armed() -> None:
    flown = peer("hover")
    flown.run(0.4)
    assert flown.packets[-1] == (0, 0, 0, 0)
    flown.run(1.0)
    assert flown.packets[-1] == (1000, 1000, 1000, 1000)
    flown.run(3.0)
    assert min(flown.packets[-1]) >= 1150


def test_a_frame_without_an_answer_is_sent_again_after_a_second() -> None:
    stand_in = peer().stand_in
    (first,) = stand_in.poll(0.0)
    assert stand_in.poll(0.99) == []
    assert stand_in.poll(1.0) == [first]
    assert stand_in.poll(1.99) == []
    assert stand_in.poll(2.0) == [first]
    assert stand_in.duplicates == 2


def test_frames_that_were_lost_do_not_slow_it_down() -> None:
    flown = peer()
    for second in range(6):
        flown.stand_in.poll(float(second))
    flown.now_s = 6.0
    flown.stand_in.receive(flown.answer(flown.stand_in.poll(flown.now_s)[0]), flown.now_s)
    flown.run(2.0)
    assert flown.stand_in.t_s > 1.4


def test_duplicates_are_answered_without_a_step() -> None:
    flown = peer(burst_at_s=0.5, pause_at_s=0.8, pause_s=2.0)
    flown.run(5.0)
    counters = flown.stand_in.counters()
    assert counters["duplicates"] == 13
    assert counters["answers"] == counters["frames"] + 13
    assert counters["simulated_s"] == pytest.approx(3.0, abs=0.05)


def test_it_restarts_with_count_zero_and_takes_off_again() -> None:
    flown = peer("hover", restart_at_s=2.0)
    flown.run(11.0)
    counters = flown.stand_in.counters()
    assert counters["armed"] == [(pytest.approx(6.0, abs=0.02), True)]
    assert abs(float(flown.vehicle.position[2]) - 1.5) < 0.2


# --- violations -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (REST[1:], "is not one line between two newlines"),
        (REST[:-1], "is not one line between two newlines"),
        (
            REST.replace(b'"timestamp":1', b'"timestamp": 1'),
            'a blank stands next to the colon of "timestamp"',
        ),
        (REST.replace(b'"gyro":[', b'"gyro": ['), 'a blank stands next to the colon of "gyro"'),
        (REST.replace(b"[0.0,-0.1", b"[ 0.0,-0.1"), '"gyro" has no value that ArduPilot parses'),
        (REST.replace(b"-0.1, 1e-3", b"-0.1 ,1e-3"), '"gyro" has no value that ArduPilot parses'),
        (REST.replace(b"-9.81]", b"nan]"), '"accel_body" has no value that ArduPilot parses'),
        (REST.replace(b"2.0,-3.0", b"2.0"), '"position" has no value that ArduPilot parses'),
        (REST.replace(b'"velocity":[0.1,0.2,0.3],', b""), 'the answer has no "velocity"'),
        (
            REST.replace(b'"position"', b'"velocity_wind":[0,0,0],"position"'),
            '"velocity" comes after a longer key',
        ),
        (REST.replace(b'"position"', b'"place":1,"position"'), "ArduPilot knows no key 'place'"),
        (
            REST.replace(b"[1.0,0.0,0.0,0.0]", b"[0.99,0.0,0.0,0.0]"),
            "the quaternion has the length 0.9900",
        ),
    ],
)
def test_lines_that_its_parser_does_not_take(line: bytes, sentence: str) -> None:
    assert parse(REST).gyro_radps == (0.0, -0.1, 1e-3)
    with pytest.raises(WireViolation) as caught:
        parse(line)
    assert sentence in str(caught.value)


def test_a_step_of_another_rate_is_a_violation() -> None:
    flown = ArduPilotPeer(ArduPilotStandIn(day=ArduPilotDay(rate_hz=500)), 400)
    with pytest.raises(
        WireViolation, match=r"timestamp rises by 2500.0 us, not by 2000.0 us \(1/500\)"
    ):
        flown.run(0.1)


def test_a_timestamp_that_goes_back_is_a_violation() -> None:
    flown = peer()
    flown.run(0.1)
    flown.now_s += 1.0
    flown.stand_in.poll(flown.now_s)
    with pytest.raises(WireViolation, match="timestamp goes back"):
        flown.stand_in.receive(REST.replace(b'"timestamp":1.5', b'"timestamp":0.001'), flown.now_s)


def test_a_timestamp_that_stands_still_is_a_violation() -> None:
    flown = peer()
    flown.run(0.1)
    (packet,) = flown.stand_in.poll(flown.now_s)
    line = flown.answer(packet)
    flown.stand_in.receive(line, flown.now_s)
    flown.stand_in.poll(flown.now_s)
    with pytest.raises(
        WireViolation, match="timestamp stands still although the frame count went on"
    ):
        flown.stand_in.receive(line, flown.now_s)


def test_a_step_for_a_duplicate_is_a_violation() -> None:
    flown = peer(burst_at_s=0.5)
    right = flown.answer

    def stepping(data: bytes) -> bytes:
        flown._count = -1
        return right(data)

    flown.answer = stepping  # type: ignore[method-assign]
    with pytest.raises(
        WireViolation, match=r"timestamp rises by 2500\.0 us in the answer to a repeated frame 2"
    ):
        flown.run(2.0)


def test_an_answer_before_the_first_frame_is_a_violation() -> None:
    with pytest.raises(WireViolation, match="an answer came before the first servo packet"):
        peer().stand_in.receive(REST, 0.0)


def test_motors_that_turn_at_zero_microseconds_are_a_violation() -> None:
    flown = peer()
    right = flown.vehicle.advance
    flown.vehicle.advance = lambda motors, steps: right((0.6,) * 4, steps)  # type: ignore[method-assign]
    with pytest.raises(WireViolation, match="while all outputs are 0 us: motors must be off"):
        flown.run(1.0)


def test_no_weight_at_rest_is_a_violation() -> None:
    assert "at rest the specific force is" in sentence_of(
        lambda m: m._replace(force=(0.0, 0.0, 0.0)), after_s=0.2
    )


@pytest.mark.parametrize(("windows", "fails"), [(1, False), (2, True)])
def test_a_touch_of_the_ground_within_a_window_is_no_rest(windows: int, fails: bool) -> None:
    """The push that ends a fall adds to the weight of one window.

    The same force in two of them is a fault.
    """
    rules = MotionRules()

    def rest(first: int, count: int, force: float) -> None:
        for number in range(first, first + count):
            rules.check(
                PhysicsLine(number / 400.0, ZERO, (0.0, 0.0, force), ZERO, ZERO, LEVEL), off=True
            )

    rest(0, 41, -GRAVITY_MPS2)
    with (
        pytest.raises(WireViolation, match="at rest the specific force is")
        if fails
        else nullcontext()
    ):
        rest(41, 40 * windows + 5, -GRAVITY_MPS2 - 0.6)
        rest(46 + 40 * windows, 80, -GRAVITY_MPS2)


def test_gravity_with_the_wrong_sign_is_a_violation() -> None:
    sentence = sentence_of(lambda m: m._replace(force=(0.0, 0.0, 9.81)))
    assert "at rest" in sentence or "the velocity does not change" in sentence


def test_a_position_with_height_upwards_is_a_violation() -> None:
    sentence = sentence_of(lambda m: m._replace(p=(m.p[0], m.p[1], -m.p[2])), "hover", seconds=8.0)
    assert "the position does not move by the velocity" in sentence


def test_rates_of_another_frame_are_a_violation() -> None:
    sentence = sentence_of(
        lambda m: m._replace(gyro=(m.gyro[0], -m.gyro[1], -m.gyro[2])),
        "box",
        after_s=7.5,
        seconds=15.0,
    )
    assert "the quaternion does not turn by the rates" in sentence


def test_a_force_of_another_frame_is_a_violation() -> None:
    def east_north(m: Motion) -> Motion:
        return m._replace(p=(m.p[1], m.p[0], m.p[2]), v=(m.v[1], m.v[0], m.v[2]))

    sentence = sentence_of(east_north, "box", after_s=7.0, seconds=20.0)
    assert "the velocity does not change by the specific force and gravity" in sentence
