"""Rules of poses.

Each message agrees with the motion in its own frame, and every other frame is a violation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.sensor_readings import BarometerReading, ImuReading, MagnetometerReading
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.pose_messages import Spread
from vil_simulation.autopilots.links.ardupilot import state_line
from vil_simulation.autopilots.links.link import AutopilotSample
from vil_simulation.autopilots.links.poses import PoseKind, PoseSample, TrueMotion, pose_message
from vil_simulation.autopilots.stand_ins.ardupilot_lines import parse
from vil_simulation.autopilots.stand_ins.pose_rules import PoseRules
from vil_simulation.autopilots.stand_ins.violations import WireViolation
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

ORIGIN = GeoOrigin(47.3977, 8.5456, 488.0)
SPREAD = Spread(0.001, 0.001, 0.01)
STEP_NS = 20_000_000
Change = Callable[[Any], Any]


def motion_at(t_s: float) -> TrueMotion:
    """A climbing turn to the left, with the nose down."""
    yaw = 0.3 + 0.5 * t_s
    p = 2.0 * math.cos(t_s), 2.0 * math.sin(t_s), 1.0 + 0.2 * t_s
    v = -2.0 * math.sin(t_s), 2.0 * math.cos(t_s), 0.2
    q = q_from_euler_zyx(yaw, 0.1, -0.2).tolist()
    return TrueMotion(p, v, (q[0], q[1], q[2], q[3]), (0.0, 0.0, 0.5))


def judge(kind: PoseKind, change: Change = lambda body: body, *, delay: int = 0) -> PoseRules:
    """Give the rules two seconds of lines and poses."""
    rules = PoseRules()
    for number in range(1, 101):
        t_ns = number * STEP_NS
        motion = motion_at(t_ns * 1e-9)
        if number > delay:
            rules.take(change(pose_message(pose(kind, t_ns - delay * STEP_NS))))
        imu = ImuReading(t_ns, motion.q_world_body, motion.w_body_radps, (0.0, 0.0, 9.81))
        others = (
            MagnetometerReading(t_ns, (0.0, 0.0, 0.0)),
            BarometerReading(t_ns, 0.0, 101_325.0, 1013.25),
        )
        rules.check(parse(state_line(AutopilotSample(t_ns, motion, imu, *others))))
    return rules


def pose(kind: PoseKind, t_ns: int) -> PoseSample:
    motion = motion_at(t_ns * 1e-9)
    latitude, longitude, height = (float(v) for v in ORIGIN.to_geodetic(np.array(motion.p_world_m)))
    return PoseSample(kind, t_ns, motion, (latitude, longitude, height), SPREAD)


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("kind", ["ODOMETRY", "VISION_POSITION_ESTIMATE", "GPS_INPUT"])
def test_right_poses_pass_also_late_ones(kind: PoseKind, delay: int) -> None:
    assert judge(kind, delay=delay).poses == 100 - delay


def ned(body: mavlink.Odometry) -> mavlink.Odometry:
    return body._replace(x_m=-body.y_m, y_m=body.x_m)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda m: m._replace(frame_id=1),
            r"ODOMETRY has the frames \(1, 12\), not \(20, 12\): ArduPilot drops it",
        ),
        (lambda m: m._replace(child_frame_id=8), r"has the frames \(20, 8\)"),
        (ned, "ODOMETRY's position does not agree"),
        (lambda m: m._replace(z_m=-m.z_m), "ODOMETRY's position does not agree"),
        (lambda m: m._replace(y_m=-m.y_m), "ODOMETRY's position does not agree"),
        (lambda m: m._replace(vy_mps=-m.vy_mps), "ODOMETRY's velocity does not agree"),
        (
            lambda m: m._replace(vx_mps=m.vy_mps, vy_mps=m.vx_mps),
            "ODOMETRY's velocity does not agree",
        ),
        (lambda m: m._replace(q_wxyz=(m.q_wxyz[0], *(-v for v in m.q_wxyz[1:]))), "ODOMETRY: its"),
        (lambda m: m._replace(q_wxyz=(*m.q_wxyz[:2], -m.q_wxyz[2], -m.q_wxyz[3])), "ODOMETRY: its"),
        (
            lambda m: m._replace(q_wxyz=tuple(1.1 * v for v in m.q_wxyz)),
            "ODOMETRY q has the length 1.1000",
        ),
        (lambda m: m._replace(time_usec=7), "time_usec does not rise: 7 us, then 7 us"),
    ],
)
def test_each_other_frame_of_odometry_is_a_violation(change: Change, sentence: str) -> None:
    with pytest.raises(WireViolation, match=sentence):
        judge("ODOMETRY", change)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda m: m._replace(x_m=m.y_m, y_m=-m.x_m),
            "VISION_POSITION_ESTIMATE's position does not agree",
        ),
        (
            lambda m: m._replace(x_m=m.y_m, y_m=m.x_m, z_m=-m.z_m),
            "VISION_POSITION_ESTIMATE's position does not agree",
        ),
        (
            lambda m: m._replace(yaw_rad=m.yaw_rad - math.pi / 2),
            "1.57 rad from the vehicle's in north, east, down",
        ),
        (
            lambda m: m._replace(pitch_rad=-m.pitch_rad),
            "VISION_POSITION_ESTIMATE: its frame is not level",
        ),
        (
            lambda m: m._replace(roll_rad=-m.roll_rad),
            "VISION_POSITION_ESTIMATE: its frame is not level",
        ),
    ],
)
def test_each_other_frame_of_a_vision_position_estimate_is_a_violation(
    change: Change, sentence: str
) -> None:
    with pytest.raises(WireViolation, match=sentence):
        judge("VISION_POSITION_ESTIMATE", change)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda m: m._replace(lat_e7=m.lon_e7, lon_e7=m.lat_e7),
            "GPS_INPUT's position does not agree",
        ),
        (lambda m: m._replace(alt_m=-m.alt_m), "GPS_INPUT's position does not agree"),
        (lambda m: m._replace(vd_mps=-m.vd_mps), "GPS_INPUT's velocity does not agree"),
        (
            lambda m: m._replace(vn_mps=m.ve_mps, ve_mps=m.vn_mps),
            "GPS_INPUT's velocity does not agree",
        ),
        (lambda m: m._replace(yaw_cdeg=36_000 - m.yaw_cdeg), "GPS_INPUT: its yaw is"),
        (lambda m: m._replace(yaw_cdeg=40_000), "yaw 40000 is not a heading: north is 36000"),
        (lambda m: m._replace(fix_type=1), "GPS_INPUT has fix 1, not 3 or more"),
    ],
)
def test_each_other_axis_of_gps_input_is_a_violation(change: Change, sentence: str) -> None:
    with pytest.raises(WireViolation, match=sentence):
        judge("GPS_INPUT", change)


def test_poses_of_another_clock_are_judged_on_their_own() -> None:
    assert (
        judge("ODOMETRY", lambda m: m._replace(time_usec=m.time_usec + 10**12, x_m=9.0)).poses
        == 100
    )
