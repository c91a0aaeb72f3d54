"""PX4's stand-in: a naive simulator flies it, and each rule of the wire has a peer that breaks
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.autopilot_peers import Motion, Px4Peer
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import hil_messages as hil
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_simulation.autopilots.stand_ins.pilot import Flight
from vil_simulation.autopilots.stand_ins.px4 import Px4StandIn
from vil_simulation.autopilots.stand_ins.px4_control import Allocation, Px4Controller
from vil_simulation.autopilots.stand_ins.violations import WireViolation
from vil_simulation.sitl.parameters import px4_parameters
from vil_simulation.vehicles.flightgoggles.airframes import PRESETS

Change = Callable[[Any, Motion], Any]


def peer(flight: Flight = "none", *, odometry: bool = True) -> Px4Peer:
    return Px4Peer(Px4StandIn(flight=flight), odometry=odometry, yaw_rad=0.7)


class Broken(Px4Peer):
    """A peer whose messages of one kind are changed from a simulated second on."""

    def __init__(
        self, kind: type[Any], change: Change, *, after_s: float, odometry: bool, flight: Flight
    ) -> None:
        super().__init__(Px4StandIn(flight=flight), odometry=odometry, yaw_rad=0.7)
        self._kind, self._change, self._after_s = kind, change, after_s
        self._motion = self.vehicle.motion()

    def step(self) -> bytes:
        self._motion = self.vehicle.motion()
        return super().step()

    def frame(self, body: mavlink.Body) -> bytes:
        if type(body) is self._kind and self.stand_in.t_s >= self._after_s:
            body = self._change(body, self._motion)
        return super().frame(body)


def sentence_of(
    kind: type[Any],
    change: Change,
    *,
    after_s: float = 0.0,
    odometry: bool = True,
    flight: Flight = "none",
    seconds: float = 1.0,
) -> str:
    broken = Broken(kind, change, after_s=after_s, odometry=odometry, flight=flight)
    with pytest.raises(WireViolation) as caught:
        broken.run(seconds)
    assert broken.stand_in.t_s >= after_s
    return str(caught.value)


def test_it_hovers_for_twenty_seconds_on_odometry() -> None:
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
    assert (counters["packets"], counters["answers"]) == (6750, 6750 - 11)
    assert counters["armed"] == [(4.0, True)]


@pytest.mark.parametrize("odometry", [True, False], ids=["odometry", "gps"])
def test_it_flies_the_box_and_lands(odometry: bool) -> None:
    flown = peer("box", odometry=odometry)
    flown.run(34.0)
    counters = flown.stand_in.counters()
    assert [armed for _, armed in counters["armed"]] == [True, False]
    assert len(counters["corners_m"]) == 4
    assert max(counters["corners_m"]) < 0.05
    assert np.linalg.norm(flown.vehicle.position) < 0.2
    assert flown.modes[-1] == 1


def test_it_answers_from_the_twelfth_packet_on() -> None:
    flown = peer()
    assert [bool(flown.step()) for _ in range(14)] == [False] * 11 + [True] * 3


def test_it_begins_with_a_wish_for_the_ground_truth() -> None:
    first, second = (
        message.body for message in framing.MavlinkParser().feed(Px4StandIn().greeting())
    )
    assert isinstance(first, mavlink.CommandLong)
    assert (first.command, first.param1, first.param2) == (511, 115.0, 5000.0)
    assert isinstance(second, mavlink.Heartbeat)
    assert second.autopilot == 12


def test_it_does_not_arm_before_it_has_a_position() -> None:
    flown = Px4Peer(Px4StandIn(flight="hover"))
    flown.other = lambda motion: flown.frame(flown.truth(motion))  # type: ignore[method-assign]
    flown.run(6.0)
    assert set(flown.modes) == {1}


def test_the_packets_before_the_first_answer_need_not_wait() -> None:
    flown = peer()
    motion = flown.vehicle.motion()
    for _ in range(12):
        flown.time_us += 4000
        flown.stand_in.receive(flown.frame(flown.sensor(motion)))
    (answer,) = framing.MavlinkParser().feed(flown.stand_in.answer())
    assert isinstance(answer.body, hil.HilActuatorControls)
    assert answer.body.time_usec == flown.time_us


def test_flow_follows_the_gyroscope_and_the_range_looks_down() -> None:
    flown = peer()
    flown.run(0.1)
    level = (0.0,) * 4
    down = hil.DistanceSensor(0, 10, 1200, 150, 0, 0, 25, 255, 0.0, 0.0, level, 100)
    flow = hil.HilOpticalFlow(flown.time_us, 50_000, 0.0, 0.0, 0.0, 0.0, 0.0, 0, -1.0, 0, 0, 255)

    def take(body: mavlink.Body) -> None:
        flown.stand_in.receive(flown.frame(body))

    take(down)
    take(flow)
    flown.run(0.052)
    later = flow._replace(time_usec=flown.time_us, integration_time_us=52_000)
    for wrong, sentence in (
        (down._replace(orientation=0), "orientation is 0, not 25"),
        (down._replace(min_distance_cm=1300), "bounded by 1300 and 1200 cm"),
        (down._replace(current_distance_cm=1300), "reads 1300 cm"),
        (later._replace(integration_time_us=50_000), "lasts 50000, not 52000 us"),
    ):
        with pytest.raises(WireViolation, match=sentence):
            take(wrong)
    flown.run(0.052)
    with pytest.raises(WireViolation, match=r"turns by \(0.000, 0.100, 0.000\)"):
        take(later._replace(time_usec=flown.time_us, integrated_ygyro_rad=0.1))


# --- violations -----------------------------------------------------------------------------------


def test_a_second_sample_before_the_answer_is_a_violation() -> None:
    flown = peer()
    flown.run(0.3)
    motion = flown.vehicle.motion()
    flown.time_us += 4000
    first = flown.frame(flown.sensor(motion))
    flown.time_us += 4000
    with pytest.raises(WireViolation, match="came before the answer to the one before"):
        flown.stand_in.receive(first + flown.frame(flown.sensor(motion)))


@pytest.mark.parametrize("shift_us", [-4000, -8000])
def test_time_that_does_not_rise_is_a_violation(shift_us: int) -> None:
    sentence = sentence_of(
        hil.HilSensor, lambda m, _: m._replace(time_usec=m.time_usec + shift_us), after_s=0.5
    )
    assert "time_usec does not rise" in sentence


def test_another_step_is_a_violation() -> None:
    sentence = sentence_of(
        hil.HilSensor, lambda m, _: m._replace(time_usec=m.time_usec + 1), after_s=0.5
    )
    assert sentence == "time_usec rises by 4001 us, not by 4000 us."


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        (0x1BFE, "part of the accelerometer"),
        (0x1BF7, "part of the gyroscope"),
        (0x1B7F, "part of the magnetometer"),
        (0x19FF, "part of the barometer"),
        (0x3BFF, "unknown bits"),
        (0x1BC7, "without accelerometer or gyroscope"),
    ],
)
def test_incomplete_groups_are_violations(fields: int, part: str) -> None:
    assert part in sentence_of(hil.HilSensor, lambda m, _: m._replace(fields_updated=fields))


@pytest.mark.parametrize("name", ["xacc_mps2", "zgyro_radps", "ymag_gauss", "abs_pressure_hpa"])
def test_a_value_without_noise_is_stale(name: str) -> None:
    value = {"xacc_mps2": 0.0, "zgyro_radps": 0.0, "ymag_gauss": -0.15, "abs_pressure_hpa": 956.0}[
        name
    ]
    change: Change = lambda m, _: m._replace(**{name: value})  # noqa: E731
    assert f"{name} is stale" in sentence_of(hil.HilSensor, change)


def test_gravity_downwards_at_rest_is_a_violation() -> None:
    sentence = sentence_of(hil.HilSensor, lambda m, _: m._replace(zacc_mps2=-m.zacc_mps2))
    assert "at rest the accelerometer reads" in sentence


def test_a_gyroscope_with_the_wrong_sign_is_a_violation() -> None:
    sentence = sentence_of(
        hil.HilSensor,
        lambda m, _: m._replace(xgyro_radps=-m.xgyro_radps, ygyro_radps=-m.ygyro_radps),
        after_s=7.0,
        flight="box",
        seconds=20.0,
    )
    assert "HIL_STATE_QUATERNION's attitude turns" in sentence


def test_an_attitude_that_does_not_turn_with_the_gyroscope_is_a_violation() -> None:
    level = math.cos(0.35), 0.0, 0.0, math.sin(0.35)
    sentence = sentence_of(
        mavlink.Odometry,
        lambda m, _: m._replace(q_wxyz=level),
        after_s=7.0,
        flight="box",
        seconds=20.0,
    )
    assert (
        "gyroscope does not agree with ODOMETRY's attitude" in sentence
        or "velocity (body axes)" in sentence
    )


def test_a_ground_truth_that_stays_away_is_a_violation() -> None:
    flown = peer()
    flown.run(2.0)
    flown.truth = lambda motion: hil.HilStateQuaternion(0, motion.q, *(0,) * 14)  # type: ignore[method-assign]
    with pytest.raises(WireViolation, match="HIL_STATE_QUATERNION does not come each 5000 us"):
        flown.run(0.1)


@pytest.mark.parametrize("unanswered", [1, 122, 500])
def test_what_is_under_way_at_its_first_answer_need_not_wait(unanswered: int) -> None:
    """The simulator sends on until it has heard the first answer."""
    flown = Px4Peer(Px4StandIn(unanswered=unanswered))
    for _ in range(unanswered):
        assert flown.step() == b""
    motion = flown.vehicle.motion()
    for _ in range(3):
        flown.time_us += 4000
        flown.stand_in.receive(flown.frame(flown.truth(motion)) + flown.frame(flown.sensor(motion)))
    (answer,) = framing.MavlinkParser().feed(flown.stand_in.answer())
    assert isinstance(answer.body, hil.HilActuatorControls)
    assert answer.body.time_usec == flown.time_us, "the newest one is answered"


def test_after_a_standstill_the_packets_come_at_once() -> None:
    flown = peer()
    flown.run(0.3)
    flown.stand_in.resume()
    motion = flown.vehicle.motion()
    for _ in range(40):
        flown.time_us += 4000
        flown.stand_in.receive(flown.frame(flown.sensor(motion)))
    assert flown.stand_in.answer()


def saturated(parameters: dict[str, float], seconds: float) -> float:
    """Return the share of a hover at which PX4's own controllers have a motor at its end."""
    flown = Px4Peer(Px4StandIn(flight="hover", controller=Px4Controller(parameters)))
    flown.run(seconds)
    assert abs(float(flown.vehicle.position[2]) - 1.5) < 0.3
    return float(flown.stand_in.counters()["saturated"])


def test_parameters_that_fit_the_vehicle_keep_px4s_motors_from_their_ends() -> None:
    assert saturated({}, 11.0) > 0.1, "none_iris has another torque of its rotors"
    assert saturated(px4_parameters(PRESETS["autopilot_quad_x"]), 11.0) < 0.01


def frame(*places_m: tuple[float, float]) -> dict[str, float]:
    """Return a frame of four rotors by their places, forward and right.

    The first two turn against the others.
    """
    values = {}
    for n, (x_m, y_m) in enumerate(places_m):
        values[f"CA_ROTOR{n}_PX"] = x_m
        values[f"CA_ROTOR{n}_PY"] = y_m
        values[f"CA_ROTOR{n}_KM"] = 0.05 if n < 2 else -0.05
    return values


X_FRAME = frame((0.2, 0.2), (-0.2, -0.2), (0.2, -0.2), (-0.2, 0.2))
"""Front right, rear left, front left, rear right."""
SIDES = {
    "roll": (-1.0, 1.0, 1.0, -1.0),
    "pitch": (1.0, -1.0, 1.0, -1.0),
    "yaw": (1.0, 1.0, -1.0, -1.0),
}
"""Motors that turn faster for a positive torque."""


@pytest.mark.parametrize("axis", SIDES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_torque_adds_no_thrust(axis: str, sign: float) -> None:
    """MC_AIRMODE 0: motors of one side go down to 0 and those of the other up by as much, and no
    further.
    """
    allocation = Allocation(X_FRAME)
    sides = sign * np.array(SIDES[axis])
    share = 1.0 if axis == "yaw" else math.sqrt(0.5)
    for lift in (0.0, 0.05, 0.2, 0.5):
        for torque in (0.1, 0.3, 1.0):
            torques = [sign * torque if name == axis else 0.0 for name in SIDES]
            outputs = allocation.motors((torques[0], torques[1], torques[2]), lift)
            np.testing.assert_allclose(
                outputs, lift + min(lift, share * torque) * sides, atol=1e-12
            )


@pytest.mark.parametrize("axis", ["roll", "pitch"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_full_thrust_gives_way_to_roll_and_pitch(axis: str, sign: float) -> None:
    """A torque beyond what motors have: those of one side are at 1, those of the other at 0."""
    torques = [sign * 2.0 if name == axis else 0.0 for name in SIDES]
    outputs = Allocation(X_FRAME).motors((torques[0], torques[1], torques[2]), 0.9)
    np.testing.assert_allclose(outputs, 0.5 + 0.5 * sign * np.array(SIDES[axis]), atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_motors_in_line_with_an_axis_do_not_bound_its_torque(sign: float) -> None:
    """Front and rear motors of a plus do nothing for roll, left and right ones nothing for
    pitch.
    """
    plus = Allocation(frame((0.2, 0.0), (-0.2, 0.0), (0.0, -0.2), (0.0, 0.2)))
    step = 0.2 * sign
    np.testing.assert_allclose(
        plus.motors((sign, 0.0, 0.0), 0.2), [0.2, 0.2, 0.2 + step, 0.2 - step], atol=1e-12
    )
    np.testing.assert_allclose(
        plus.motors((0.0, sign, 0.0), 0.2), [0.2 + step, 0.2 - step, 0.2, 0.2], atol=1e-12
    )


def test_an_accelerometer_with_the_wrong_sign_is_a_violation() -> None:
    def no_push(m: hil.HilSensor, _: Motion) -> hil.HilSensor:
        return m._replace(zacc_mps2=m.zacc_mps2 - 4.0)

    sentence = sentence_of(hil.HilSensor, no_push, after_s=7.0, flight="hover", seconds=12.0)
    assert "accelerometer does not agree" in sentence


def test_a_field_that_turns_with_the_vehicle_is_a_violation() -> None:
    def mirrored(m: hil.HilSensor, _: Motion) -> hil.HilSensor:
        return m._replace(ymag_gauss=-m.ymag_gauss)

    assert "in the local frame it turned" in sentence_of(
        hil.HilSensor, mirrored, after_s=1.0, seconds=2.0
    )


def test_a_field_in_tesla_is_a_violation() -> None:
    def in_tesla(m: hil.HilSensor, _: Motion) -> hil.HilSensor:
        return m._replace(
            xmag_gauss=m.xmag_gauss * 1e-4,
            ymag_gauss=m.ymag_gauss * 1e-4,
            zmag_gauss=m.zmag_gauss * 1e-4,
        )

    assert "the magnetic field has" in sentence_of(hil.HilSensor, in_tesla)


def test_pressure_in_pascal_is_a_violation() -> None:
    sentence = sentence_of(
        hil.HilSensor,
        lambda m, _: m._replace(abs_pressure_hpa=100.0 * m.abs_pressure_hpa),
        seconds=5.0,
    )
    assert "but pressure_alt says" in sentence


def test_a_barometer_that_stays_on_the_ground_is_a_violation() -> None:
    def grounded(m: hil.HilSensor, motion: Motion) -> hil.HilSensor:
        altitude = m.pressure_alt_m + 2.0 * motion.p[2]
        pressure = 1013.25 * (1.0 - altitude / 44330.77) ** 5.25588
        return m._replace(pressure_alt_m=altitude, abs_pressure_hpa=pressure)

    sentence = sentence_of(hil.HilSensor, grounded, flight="hover", seconds=12.0)
    assert "barometer's altitude does not follow the motion" in sentence


def test_a_fix_whose_speed_is_in_metres_is_a_violation() -> None:
    sentence = sentence_of(
        hil.HilGps,
        lambda m, _: m._replace(vn_cmps=300, vel_cmps=3),
        odometry=False,
        flight="none",
        seconds=2.0,
    )
    assert sentence == "HIL_GPS vel is 3 cm/s, but vn and ve make 300 cm/s."


def test_a_course_beyond_north_is_a_violation() -> None:
    assert "is not a course" in sentence_of(
        hil.HilGps, lambda m, _: m._replace(cog_cdeg=36_000), odometry=False
    )


def test_a_fix_that_does_not_move_with_the_vehicle_is_a_violation() -> None:
    class Both(Broken):
        def other(self, motion: Motion) -> bytes:
            fix = self.frame(self.fix(motion)) if self.packets % 25 == 0 else b""
            return fix + super().other(motion)

    def far(m: hil.HilGps, motion: Motion) -> hil.HilGps:
        return m._replace(lat_e7=m.lat_e7 + round(5.0 * motion.p[0] / 111_319.5 * 1e7))

    broken = Both(hil.HilGps, far, after_s=0.0, odometry=True, flight="box")
    with pytest.raises(WireViolation, match="GPS does not follow the motion"):
        broken.run(30.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"frame_id": 1}, "ODOMETRY frame_id is 1, not 20."),
        ({"child_frame_id": 8}, "ODOMETRY child_frame_id is 8, not 12."),
        ({"estimator_type": 6}, "ODOMETRY estimator_type is 6, not 3."),
        ({"q_wxyz": (0.9, 0.0, 0.0, 0.0)}, "ODOMETRY q has the length 0.9000."),
        ({"x_m": math.nan}, "ODOMETRY has a value that is not a number."),
    ],
)
def test_constants_of_odometry(change: dict[str, Any], sentence: str) -> None:
    assert sentence_of(mavlink.Odometry, lambda m, _: m._replace(**change)) == sentence


def test_velocity_in_the_local_frame_is_a_violation() -> None:
    def local(m: mavlink.Odometry, motion: Motion) -> mavlink.Odometry:
        vx, vy, vz = motion.v
        return m._replace(vx_mps=vx, vy_mps=vy, vz_mps=vz)

    sentence = sentence_of(mavlink.Odometry, local, flight="box", seconds=20.0)
    assert "ODOMETRY's velocity (body axes) does not agree with its position" in sentence


def test_other_messages_are_violations() -> None:
    flown = peer()
    with pytest.raises(WireViolation, match="message 0 is not for this link"):
        flown.stand_in.receive(flown.frame(mavlink.Heartbeat(0, 18, 8, 0, 4)))


def test_version_1_is_a_violation() -> None:
    with pytest.raises(WireViolation, match="begins with 0xFE"):
        peer().stand_in.receive(b"\xfe\x09\x00")


def test_a_signed_frame_is_a_violation() -> None:
    with pytest.raises(WireViolation, match="incompatibility flags 0x01"):
        peer().stand_in.receive(bytes((0xFD, 9, 1, 0, 0, 1, 1, 107, 0, 0)))


def test_a_wrong_checksum_is_a_violation() -> None:
    flown = peer()
    frame = flown.frame(flown.sensor(flown.vehicle.motion()))
    with pytest.raises(WireViolation, match="message 107 has a wrong checksum"):
        flown.stand_in.receive(frame[:-1] + bytes((frame[-1] ^ 1,)))
