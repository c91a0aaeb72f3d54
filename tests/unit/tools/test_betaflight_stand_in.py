"""Betaflight's stand-in: its clock, its motors, and peers that break the rules.

The test holds the wall time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from tests.support.autopilot_peers import BetaflightPeer, Motion
from vil_simulation.autopilots.stand_ins.betaflight import BetaflightStandIn
from vil_simulation.autopilots.stand_ins.violations import WireViolation

BOOT_S = 5.2


def peer() -> BetaflightPeer:
    return BetaflightPeer(BetaflightStandIn(), yaw_rad=0.7)


def armed_peer() -> BetaflightPeer:
    flown = peer()
    flown.run(BOOT_S)
    flown.sticks[4] = 1900
    flown.run(0.1)
    assert flown.stand_in.armed
    return flown


def sentence_of(
    change: Callable[[Motion], Motion], flown: BetaflightPeer, seconds: float = 1.0
) -> str:
    right = flown.packet
    flown.packet = lambda motion: right(change(motion))  # type: ignore[method-assign]
    with pytest.raises(WireViolation) as caught:
        flown.run(seconds)
    return str(caught.value)


def test_the_first_state_is_swallowed_and_the_second_stops_the_clock() -> None:
    flown = peer()
    assert [flown.step() for _ in range(5)] == [True, False, True, True, True]
    assert flown.stand_in.swallowed == 1
    assert flown.stand_in.t_s == pytest.approx(2e-3, abs=3e-4)


def test_half_a_second_of_silence_begins_again() -> None:
    flown = peer()
    flown.run(0.1)
    before_s = flown.stand_in.t_s
    assert [flown.step(0.6), flown.step(), flown.step()] == [True, False, True]
    assert flown.stand_in.swallowed == 2
    assert flown.stand_in.t_s - before_s == pytest.approx(0.6, abs=0.01), (
        "the clock ran on at its last rate"
    )


def test_the_clock_takes_the_rate_of_the_last_pair() -> None:
    flown = peer()
    flown.run(0.1)
    before_s = flown.stand_in.t_s
    flown.step(wall_s=2e-3, stamp_s=1e-3)
    flown.now_s += 0.4
    flown.stand_in.poll(flown.now_s)
    assert flown.stand_in.t_s - before_s == pytest.approx(0.2, rel=0.05)


def test_a_pair_of_20_ms_leaves_the_rate() -> None:
    flown = peer()
    flown.run(0.1)
    flown.step(wall_s=0.001, stamp_s=0.02)
    before_s = flown.stand_in.t_s
    flown.stand_in.poll(flown.now_s + 0.1)
    assert flown.stand_in.t_s - before_s == pytest.approx(0.1, abs=1e-3)


def test_the_packets_are_those_of_the_wire() -> None:
    flown = armed_peer()
    flown.now_s += 1e-3
    flown.stand_in.on_state(
        flown.packet(flown.vehicle.motion()._replace(gyro=(0.0, 0.0, -1.0))), flown.now_s
    )
    assert flown.stand_in.poll(flown.now_s) is None, "the loop takes 100 us"
    packets = flown.stand_in.poll(flown.now_s + 2e-4)
    assert packets is not None
    motors, raw = packets
    assert (len(motors), len(raw)) == (16, 68)
    front_right, rear_left, front_left, rear_right = struct.unpack("<4f", motors)
    count, *own = struct.unpack("<H2x16f", raw)
    assert count == 4
    assert own[:4] == pytest.approx(
        [1000 + 1000 * m for m in (rear_right, front_right, rear_left, front_left)]
    )
    assert flown.stand_in.poll(flown.now_s + 1e-3) is None, "one packet a state"


@pytest.mark.parametrize(
    ("stick", "raised"),
    [(0, (1, 2)), (1, (1, 3)), (3, (0, 1))],
    ids=["roll right", "pitch forward", "yaw right"],
)
def test_the_sticks_raise_the_motors_of_the_real_program(
    stick: int, raised: tuple[int, int]
) -> None:
    flown = armed_peer()
    flown.sticks[2] = 1400
    flown.sticks[stick] = 1600
    flown.run(0.02)
    lowered = [motor for n, motor in enumerate(flown.motors) if n not in raised]
    assert min(flown.motors[n] for n in raised) > max(lowered)


def test_it_hovers_by_the_throttle_and_lands() -> None:
    flown = armed_peer()
    flown.hold_height(5.0, 1.5)
    heights = []
    for _ in range(10):
        flown.hold_height(0.5, 1.5)
        heights.append(float(flown.vehicle.position[2]))
    assert np.std(heights) < 0.05
    assert np.mean(heights) == pytest.approx(1.5, abs=0.05)
    assert flown.answers > 0.99 * flown.stand_in.states
    flown.sticks[4] = 1000
    flown.run(0.05)
    assert flown.motors == (0.0,) * 4


def test_it_does_not_arm_during_the_boot_nor_with_throttle() -> None:
    flown = peer()
    flown.run(1.0)
    flown.sticks[4] = 1900
    flown.run(6.0)
    assert not flown.stand_in.armed, "the switch was high when the boot ended"
    flown.sticks[2], flown.sticks[4] = 1400, 1000
    flown.run(0.1)
    flown.sticks[4] = 1900
    flown.run(0.1)
    assert not flown.stand_in.armed


def test_it_disarms_without_sticks() -> None:
    flown = armed_peer()
    flown.sends_rc = False
    flown.run(0.2)
    before = flown.stand_in.armed
    flown.run(0.15)
    assert (before, flown.stand_in.armed) == (True, False)
    assert flown.stand_in.counters()["armed"][-1][1] is False


# --- violations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [136, 152, 0])
def test_a_state_of_another_size_is_a_violation(size: int) -> None:
    with pytest.raises(WireViolation, match=f"a state has {size} bytes, not 144"):
        peer().stand_in.on_state(bytes(size), 1.0)


def test_a_probe_of_the_port_is_dropped() -> None:
    stand_in = peer().stand_in
    stand_in.on_state(b"\0", 1.0)
    assert (stand_in.probes, stand_in.states) == (1, 0)


def test_a_place_may_be_late_but_not_elsewhere() -> None:
    flown = armed_peer()
    right, place, offset_deg = flown.packet, [0.0, 0.0, 0.0], 0.0

    def late(motion: Motion) -> bytes:
        values = list(struct.unpack("<18d", right(motion)))
        if flown.stand_in.states % 100 == 0:
            place[:] = values[14:17]
        longitude, latitude, altitude = place
        values[14:17] = longitude + 8.0, latitude + offset_deg, altitude
        return struct.pack("<18d", *values)

    flown.packet = late  # type: ignore[method-assign]
    flown.hold_height(4.0, 1.5)
    offset_deg = 3e-5
    with pytest.raises(WireViolation, match="the position does not move by the velocity"):
        flown.hold_height(0.1, 1.5)


def test_sticks_of_another_size_are_a_violation() -> None:
    with pytest.raises(WireViolation, match="an RC packet has 32 bytes, not 40"):
        peer().stand_in.on_rc(bytes(32), 1.0)


def test_a_burst_is_a_violation() -> None:
    flown = peer()
    flown.run(0.1)
    with pytest.raises(WireViolation, match="4 states came within 1 ms"):
        for _ in range(4):
            flown.step(wall_s=1e-4)


def test_a_stamp_that_goes_back_is_a_violation() -> None:
    flown = peer()
    flown.run(0.1)
    with pytest.raises(WireViolation, match="the time goes back"):
        flown.step(stamp_s=-1e-3)


def test_a_force_instead_of_its_opposite_is_a_violation() -> None:
    sentence = sentence_of(lambda m: m._replace(force=(0.0, 0.0, 9.81)), peer())
    assert sentence.startswith(
        ("at rest the specific force is", "the velocity does not change by the specific force")
    )


def test_a_quaternion_that_is_not_one_is_a_violation() -> None:
    sentence = sentence_of(lambda m: m._replace(q=(0.9, 0.0, 0.0, 0.0)), peer())
    assert sentence == "the quaternion has the length 0.9000."


def test_a_position_before_the_velocity_is_a_violation() -> None:
    flown = armed_peer()
    right = flown.packet

    def swapped(motion: Motion) -> bytes:
        values = struct.unpack("<18d", right(motion))
        return struct.pack("<18d", *values[:11], *values[14:17], *values[11:14], values[17])

    flown.packet = swapped  # type: ignore[method-assign]
    with pytest.raises(WireViolation, match=r"the (position|velocity) does not (move|change) by"):
        flown.hold_height(3.0, 1.5)


def test_rates_of_another_frame_are_a_violation() -> None:
    flown = armed_peer()
    flown.hold_height(2.0, 1.5)
    flown.sticks[3] = 1900
    right = flown.packet
    change: Callable[[Motion], Motion] = lambda m: m._replace(  # noqa: E731
        gyro=(m.gyro[0], -m.gyro[1], -m.gyro[2])
    )
    flown.packet = lambda motion: right(change(motion))  # type: ignore[method-assign]
    with pytest.raises(WireViolation, match="the quaternion does not turn by the rates"):
        flown.hold_height(3.0, 1.5)
