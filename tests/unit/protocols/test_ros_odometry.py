"""The covariance of a ROS odometry, read by rosbags."""

from __future__ import annotations

from typing import Any

import numpy as np

from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.motion import BodyMotion
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.ros_messages import Messages

T: Transform = Transform.of((1.0, 2.0, 3.0), q_from_euler_zyx(2.0, -0.4, 0.7))


def read(covariance: FloatArray | None) -> Any:
    messages = Messages("jazzy")
    motion = BodyMotion(0, T, np.zeros(3), np.zeros(3), "inertial", 0, covariance=covariance)
    return messages.store.deserialize_cdr(
        messages.odometry(0, "world", "drone", motion), "nav_msgs/msg/Odometry"
    )


def test_attitude_is_uncertain_about_the_worlds_axes() -> None:
    """The estimate has a turn in the body's axes.

    Seen from the world it is turned with the body.
    """
    errors = np.random.default_rng(2).normal(0, 1e-2, (20_000, 9)) @ np.random.default_rng(
        3
    ).normal(0, 1, (9, 9))
    seen = np.concatenate((errors[:, 6:], errors[:, :3] @ T.rotation().T), axis=1)
    told = read(np.cov(errors.T)).pose.covariance.reshape(6, 6)
    np.testing.assert_allclose(told, np.cov(seen.T), atol=1e-12)


def test_what_is_not_known_is_zero() -> None:
    told = read(None)
    assert not told.pose.covariance.any() and not told.twist.covariance.any()
