"""Poses as autopilots read them, against values worked out by hand; pymavlink reads the bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from pymavlink.dialects.v20 import common as reference

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp, q_from_euler_zyx, q_mul
from vil_bridge.core.types import ActorKind, FloatArray, SourceFrame
from vil_bridge.outputs.mavlink.config import MavlinkPoseConfig
from vil_bridge.outputs.mavlink.output import _Poses
from vil_bridge.protocols.mavlink import framing
from vil_bridge.protocols.mavlink import messages as mavlink
from vil_bridge.protocols.mavlink.frames import euler_rad, in_frame
from vil_bridge.protocols.mavlink.pose_messages import FRAME_IDS, Measured, Spread, message_of
from vil_bridge.runtime.supervisor import Status
from vil_bridge.world import world as world_module
from vil_bridge.world.actors import Actor, TrackingLimits
from vil_bridge.world.world import World

S = math.sqrt(0.5)
COS15, SIN15 = math.cos(math.radians(15)), math.sin(math.radians(15))
SPREAD = Spread(0.01, 0.02, 0.05)
DIAGONAL = (0, 6, 11, 15, 18, 20)

# Yaw, pitch, roll of the body (FLU, degrees) in the world; then position and attitude (w, x, y, z)
# told of (1, 2, 3). Nose up is a negative pitch in FLU and a positive one in FRD; a roll to the
# right is positive in both.
BY_HAND = [
    ("frd", (0, 0, 0), (1, -2, -3), (1, 0, 0, 0)),
    ("frd", (90, 0, 0), (1, -2, -3), (S, 0, 0, -S)),
    ("frd", (0, -30, 0), (1, -2, -3), (COS15, 0, SIN15, 0)),
    ("frd", (0, 0, 30), (1, -2, -3), (COS15, SIN15, 0, 0)),
    ("ned", (0, 0, 0), (2, 1, -3), (S, 0, 0, S)),  # x of the world is east
    ("ned", (90, 0, 0), (2, 1, -3), (1, 0, 0, 0)),
    ("ned", (90, -30, 0), (2, 1, -3), (COS15, 0, SIN15, 0)),
    ("ned", (90, 0, 30), (2, 1, -3), (COS15, SIN15, 0, 0)),
]


def read(body: mavlink.Body) -> Any:
    (message,) = reference.MAVLink(None).parse_buffer(
        framing.encode(body, 0, system=1, component=197)
    )
    return message


def pose(
    ypr_deg: tuple[float, ...], v_mps: Any = None, w_radps: Any = None, resets: int = 0
) -> Measured:
    T = Transform.of((1.0, 2.0, 3.0), q_from_euler_zyx(*np.radians(ypr_deg)))
    return Measured(7_654_321_987, T, v_mps, w_radps, resets)


def same_turn(q: Any, expected: Any) -> bool:
    return bool(abs(abs(np.dot(q, expected)) - 1.0) < 1e-7)


@pytest.mark.parametrize(("frame", "ypr_deg", "p", "q"), BY_HAND)
def test_pose_in_the_local_frame(frame: str, ypr_deg: Any, p: Any, q: Any) -> None:
    frame_id = FRAME_IDS[frame]
    told = read(message_of("odometry", frame_id, pose(ypr_deg), SPREAD))
    assert (told.frame_id, told.child_frame_id) == ({"frd": 20, "ned": 1}[frame], 12)
    assert told.time_usec == 7_654_321
    np.testing.assert_allclose((told.x, told.y, told.z), p, atol=1e-6)
    assert same_turn(told.q, q)
    mocap = read(message_of("att-pos-mocap", frame_id, pose(ypr_deg), SPREAD))
    np.testing.assert_allclose((mocap.x, mocap.y, mocap.z), p, atol=1e-6)
    assert same_turn(mocap.q, q)
    vision = read(message_of("vision-position", frame_id, pose(ypr_deg), SPREAD))
    np.testing.assert_allclose((vision.x, vision.y, vision.z), p, atol=1e-6)
    roll, pitch, yaw = 0.5 * vision.roll, 0.5 * vision.pitch, 0.5 * vision.yaw
    composed = (
        math.cos(yaw) * math.cos(pitch) * math.cos(roll)
        + math.sin(yaw) * math.sin(pitch) * math.sin(roll),
        math.cos(yaw) * math.cos(pitch) * math.sin(roll)
        - math.sin(yaw) * math.sin(pitch) * math.cos(roll),
        math.cos(yaw) * math.sin(pitch) * math.cos(roll)
        + math.sin(yaw) * math.cos(pitch) * math.sin(roll),
        math.sin(yaw) * math.cos(pitch) * math.cos(roll)
        - math.cos(yaw) * math.sin(pitch) * math.sin(roll),
    )
    assert same_turn(composed, q)


def test_twist_is_the_bodys_own_forward_right_down() -> None:
    told = read(
        message_of(
            "odometry",
            20,
            pose((40, 5, 6), np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.2, 0.3])),
            SPREAD,
        )
    )
    np.testing.assert_allclose((told.vx, told.vy, told.vz), (1, -2, -3))
    np.testing.assert_allclose(
        (told.rollspeed, told.pitchspeed, told.yawspeed), (0.1, -0.2, -0.3), rtol=1e-6
    )
    np.testing.assert_allclose(
        [told.velocity_covariance[i] for i in DIAGONAL[:3]], 0.0025, rtol=1e-6
    )


def test_what_is_not_known_is_not_a_number() -> None:
    told = read(message_of("odometry", 20, pose((0, 0, 0)), SPREAD))
    assert np.isnan(
        [told.vx, told.vy, told.vz, told.rollspeed, told.pitchspeed, told.yawspeed]
    ).all()
    assert math.isnan(told.velocity_covariance[0])
    vision = read(message_of("vision-position", 20, pose((0, 0, 0)), SPREAD))
    assert math.isnan(vision.covariance[0])
    assert not any(vision.covariance[1:])


def test_covariance_is_a_diagonal_and_estimator_is_what_px4_fuses() -> None:
    told = read(message_of("odometry", 20, pose((0, 0, 0), resets=259), SPREAD))
    np.testing.assert_allclose(
        [told.pose_covariance[i] for i in DIAGONAL], [1e-4] * 3 + [4e-4] * 3, rtol=1e-6
    )
    assert not any(v for i, v in enumerate(told.pose_covariance) if i not in DIAGONAL)
    assert (told.estimator_type, told.quality, told.reset_counter) == (2, 100, 3)


def seen(frame_id: int, T: Transform, v_world_mps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Position with roll, pitch and yaw as the autopilot has them; velocity in its body's axes."""
    p_m, q_wxyz = in_frame(frame_id, T)
    v_body_mps = T.rotation().T @ v_world_mps
    return np.array([*p_m, *euler_rad(q_wxyz)]), v_body_mps * (1.0, -1.0, -1.0)


@pytest.mark.parametrize("frame", FRAME_IDS)
@pytest.mark.parametrize("ypr_deg", [(0, 0, 0), (70, 0, 0), (130, -35, 50)])
def test_an_estimated_covariance_is_that_of_the_numbers_sent(frame: str, ypr_deg: Any) -> None:
    """By differences: each small error of attitude, velocity and position, as the estimate has
    them.
    """
    root = np.random.default_rng(1).normal(0, 1e-2, (9, 9))
    P, v, told = root @ root.T, np.array([1.0, 2.0, 3.0]), pose(ypr_deg, np.zeros(3), np.zeros(3))
    frame_id, T, h = FRAME_IDS[frame], told.T_world_body, 1e-6
    there, _ = seen(frame_id, T, v)
    of_pose, of_velocity = np.zeros((6, 9)), np.zeros((3, 9))
    for i, error in enumerate(h * np.eye(9)):
        wrong = Transform(T.p_m + error[6:], q_mul(T.q_xyzw, q_exp(error[:3])))
        of_pose[:, i] = (seen(frame_id, wrong, v)[0] - there) / h
        of_velocity[:, i] = (seen(frame_id, T, v + error[3:6])[1] - seen(frame_id, T, v)[1]) / h
    sent = read(message_of("odometry", frame_id, told._replace(covariance=P), SPREAD))
    upper = np.triu_indices(6)
    np.testing.assert_allclose(sent.pose_covariance, (of_pose @ P @ of_pose.T)[upper], atol=1e-8)
    twist = np.zeros((6, 6))
    twist[np.triu_indices(6)] = sent.velocity_covariance
    np.testing.assert_allclose(twist[:3, :3], np.triu(of_velocity @ P @ of_velocity.T), atol=1e-8)
    mocap = read(message_of("att-pos-mocap", frame_id, told._replace(covariance=P), SPREAD))
    assert list(mocap.covariance) == list(sent.pose_covariance)


@pytest.mark.parametrize(
    "wrong", [{}, {"actors": ("a", "b")}, {"actors": ("a",), "cameras": ("front",)}]
)
def test_one_autopilot_one_actor_no_camera(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="one actor"):
        MavlinkPoseConfig(**wrong)


def test_two_poses_of_one_microsecond_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wire counts microseconds.

    A second pose of the same one would have the time of the first.
    """
    t_ns = 10 * NS_PER_S
    monkeypatch.setattr(world_module, "now_ns", lambda: t_ns + 1000)
    world = World(
        {"mocap": Transform.identity()}, [Actor("drone", ActorKind.VEHICLE, "mocap", "cf1")]
    )
    status = Status("fc")
    poses = _Poses("drone", status)
    sent = []
    for after_ns in (100, 900, 1100):
        p_m, q_xyzw = (
            np.array([[1.0, 2.0, 3.0 + 1e-9 * after_ns]]),
            np.array([[0.0, 0.0, 0.0, 1.0]]),
        )
        world.ingest(
            SourceFrame("mocap", 0, None, t_ns + after_ns, ("cf1",), p_m, q_xyzw, np.array([True]))
        )
        found = poses.next(world)
        sent.append(None if found is None else found.t_ns - t_ns)
    assert sent == [100, None, 1100]
    assert status.counters["out_of_order"] == 1


def test_a_frozen_pose_is_not_sent_whatever_its_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    t_ns = 10 * NS_PER_S
    monkeypatch.setattr(world_module, "now_ns", lambda: t_ns)
    limits = TrackingLimits(frozen_after_ns=NS_PER_S // 5)
    world = World(
        {"mocap": Transform.identity()},
        [Actor("drone", ActorKind.VEHICLE, "mocap", "cf1", limits=limits)],
    )
    poses, sent = _Poses("drone", Status("fc")), []
    for step in range(100):
        t_ns += NS_PER_S // 100
        # From half a second on it repeats to the bit.
        p_m = np.array([[1.0, 2.0, 3.0 + 1e-4 * min(step, 50)]])
        q_xyzw, seen = np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([True])
        world.ingest(SourceFrame("mocap", step, None, t_ns, ("cf1",), p_m, q_xyzw, seen))
        sent.append(poses.next(world) is not None)
    assert all(sent[:60]) and not any(sent[80:])
