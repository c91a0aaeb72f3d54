"""NED, FRD, ENU and FLU of a vehicle to the room's ENU and FLU, and what is no pose."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from vil_adapters.mavlink_vehicle.convert import (
    VehiclePose,
    from_local_position,
    from_odometry,
    healthy,
    to_local_position,
    to_odometry,
)
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.geometry import q_from_euler_zyx
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.messages import (
    AttitudeQuaternion,
    EstimatorStatus,
    LocalPositionNed,
    Odometry,
)

NED, ENU, FRD, FLU = 1, 4, 20, 21
NOT_GIVEN = (math.nan,) * 6
UPRIGHT = (1.0, 0.0, 0.0, 0.0)


def odometry(
    frame: int, q_wxyz: tuple[float, ...] = UPRIGHT, p: tuple[float, ...] = (1.0, 2.0, -3.0)
) -> Odometry:
    x, y, z = p
    return Odometry(5_000_123, x, y, z, q_wxyz, *NOT_GIVEN, frame_id=frame)


def axes(q_xyzw: FloatArray) -> FloatArray:
    """Forward, left and up of the body in the room, as rows."""
    return np.asarray(Rotation.from_quat(q_xyzw).as_matrix().T)


def test_a_vehicle_that_looks_north_has_its_nose_along_y() -> None:
    pose = from_odometry(odometry(NED))
    assert pose is not None
    assert pose.t_ns == 5_000_123_000
    assert pose.p_m == pytest.approx([2.0, 1.0, 3.0])
    assert axes(pose.q_xyzw) == pytest.approx(
        np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1]]), abs=1e-12
    )


def test_a_vehicle_that_looks_along_the_labs_x_is_not_turned() -> None:
    pose = from_odometry(odometry(FRD))
    assert pose is not None
    assert pose.p_m == pytest.approx([1.0, -2.0, 3.0])
    assert axes(pose.q_xyzw) == pytest.approx(np.eye(3), abs=1e-12)


@pytest.mark.parametrize("frame", [ENU, FLU])
def test_upright_in_a_frame_with_z_up_the_attitude_is_half_a_roll(frame: int) -> None:
    # The body is FRD whatever the frame: upright, it is turned about x by 180 degrees.
    pose = from_odometry(odometry(frame, (0.0, 1.0, 0.0, 0.0), (1.0, 2.0, 3.0)))
    assert pose is not None
    assert pose.p_m == pytest.approx([1.0, 2.0, 3.0])
    assert axes(pose.q_xyzw) == pytest.approx(np.eye(3), abs=1e-12)


@pytest.mark.parametrize(
    ("euler_ned", "nose", "left"),
    [
        ((90.0, 0.0, 0.0), [1, 0, 0], [0, 1, 0]),
        ((0.0, 90.0, 0.0), [0, 0, 1], [-1, 0, 0]),
        ((0, 0, 90.0), [0, 1, 0], [0, 0, 1]),
    ],
    ids=["yaw to the east", "nose up", "right side down"],
)
def test_turns_in_ned(
    euler_ned: tuple[float, float, float], nose: list[int], left: list[int]
) -> None:
    x, y, z, w = Rotation.from_euler("ZYX", euler_ned, degrees=True).as_quat()
    pose = from_odometry(odometry(NED, (w, x, y, z)))
    assert pose is not None
    assert axes(pose.q_xyzw)[:2] == pytest.approx(np.array([nose, left]), abs=1e-9)


@pytest.mark.parametrize("frame", [NED, ENU, FRD, FLU])
def test_poses_survive_both_ways(frame: int) -> None:
    pose = VehiclePose(
        7_000_000_000, np.array([1.5, -2.5, 0.75]), q_from_euler_zyx(0.5, -0.25, 2.0)
    )
    back = from_odometry(to_odometry(pose, frame, 0, tracked=True))
    assert back is not None
    assert back.t_ns == pose.t_ns
    assert back.p_m == pytest.approx(pose.p_m)
    assert abs(back.q_xyzw @ pose.q_xyzw) == pytest.approx(1.0)
    attitude, position = to_local_position(pose)
    back = from_local_position(position, attitude)
    assert back is not None
    assert back.p_m == pytest.approx(pose.p_m)
    assert abs(back.q_xyzw @ pose.q_xyzw) == pytest.approx(1.0)


def test_an_attitude_is_carried_to_the_time_of_the_position() -> None:
    position = LocalPositionNed(1_050, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    attitude = AttitudeQuaternion(1_000, *UPRIGHT, 0.0, 0.0, 2.0)
    pose = from_local_position(position, attitude)
    assert pose is not None
    # 2 rad/s to the right for 50 ms: from north towards east.
    assert axes(pose.q_xyzw)[0] == pytest.approx([math.sin(0.1), math.cos(0.1), 0.0], abs=1e-12)
    assert from_local_position(position._replace(time_boot_ms=1_101), attitude) is None
    assert from_local_position(position, None) is None
    with pytest.raises(ProtocolError, match="values that are not finite"):
        from_local_position(
            position, AttitudeQuaternion(1_000, math.inf, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0)
        )


def test_a_failed_estimate_is_no_pose() -> None:
    assert from_odometry(odometry(NED)._replace(quality=mavlink.QUALITY_FAILED)) is None
    assert from_odometry(odometry(NED, p=(math.nan, 0.0, 0.0))) is None
    assert from_odometry(odometry(NED, q_wxyz=(math.nan, 0.0, 0.0, 0.0))) is None


@pytest.mark.parametrize(
    "message",
    [
        odometry(12),
        odometry(255),
        odometry(NED, p=(1e9, 0.0, 0.0)),
        odometry(NED, (0.0,) * 4),
        odometry(FRD, (math.inf, 0, 0, 0)),
    ],
    ids=["body frame", "unknown frame", "far away", "no attitude", "infinite"],
)
def test_impossible_poses_are_refused(message: Odometry) -> None:
    with pytest.raises(ProtocolError):
        from_odometry(message)


@pytest.mark.parametrize("bad", [(math.nan, 0.0, 0.0), (0.0, 1e9, 0.0), (math.inf, 0.0, 0.0)])
def test_impossible_positions_and_rates_are_refused(bad: tuple[float, float, float]) -> None:
    good = (0.0, 0.0, 0.0)
    for p, w in ((bad, good), (good, bad)):
        with pytest.raises(ProtocolError):
            from_local_position(LocalPositionNed(0, *p, *good), AttitudeQuaternion(0, *UPRIGHT, *w))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (0x1 | 0x8, True),
        (0x1 | 0x10, True),
        (0x83F, True),
        (0x1, False),
        (0x18, False),
        (0x1 | 0x8 | 0x80, False),
        (0, False),
    ],
)
def test_an_estimator_without_position_is_not_healthy(flags: int, expected: bool) -> None:
    assert healthy(EstimatorStatus(0, 0, 0, 0, 0, 0, 0, 0, 0, flags)) is expected
