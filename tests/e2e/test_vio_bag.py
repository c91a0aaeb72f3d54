"""A saved session as a bag.

Every picture, sample and state, with EuRoC's topics and exact times.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.common import ROOT
from tests.support.programs import output
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import CameraModel
from vil_bridge.protocols.euroc import EurocCamera, EurocImu, EurocWriter

pytestmark = pytest.mark.process
pytest.importorskip("rosbags", reason="bags: install the extra ros")

MS = 1_000_000
BEGIN_NS = 1000 * 10**9 + 123
PICTURE = np.arange(12 * 16, dtype=np.uint8).reshape(12, 16)


def test_a_session_becomes_a_bag(tmp_path: Path) -> None:
    from rosbags.highlevel import AnyReader

    T = Transform(np.array([1.0, 2.0, 3.0]), q_exp(np.array([0.0, 0.0, 0.5])))
    camera = EurocCamera(
        CameraModel("front", 16, 12, math.radians(70.0)), Transform.identity(), 10.0
    )
    with EurocWriter(
        tmp_path / "session", {"cam0": camera, "cam1": camera}, EurocImu(250.0)
    ) as writer:
        for n in range(10):
            writer.add_imu(
                BEGIN_NS + 4 * n * MS, np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.0, 9.8])
            )
            writer.add_truth(BEGIN_NS + 8 * n * MS, T, np.array([1.0, 0.0, 0.0]))
        for name in ("cam0", "cam1"):
            writer.add_image(name, BEGIN_NS + 5 * MS, PICTURE)
            writer.add_image(name, BEGIN_NS + 25 * MS, PICTURE)
    printed = output(
        sys.executable, ROOT / "examples" / "vio" / "bag.py", tmp_path / "session", tmp_path / "bag"
    )
    assert printed.split() == ["/cam0/image_raw,", "/cam1/image_raw,", "/imu0,", "/odometry"]
    with AnyReader([tmp_path / "bag"]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
        assert counts == {"/cam0/image_raw": 2, "/cam1/image_raw": 2, "/imu0": 10, "/odometry": 10}
        found: dict[str, Any] = {}
        times = []
        for connection, t_ns, raw in reader.messages():
            times.append(t_ns)
            found.setdefault(connection.topic, reader.deserialize(raw, connection.msgtype))
    assert times == sorted(times) and times[0] == BEGIN_NS
    image, imu, state = found["/cam0/image_raw"], found["/imu0"], found["/odometry"]
    assert (image.encoding, image.height, image.width) == ("mono8", 12, 16)
    np.testing.assert_array_equal(image.data.reshape(12, 16), PICTURE)
    assert image.header.stamp.sec * 10**9 + image.header.stamp.nanosec == BEGIN_NS + 5 * MS
    assert (imu.angular_velocity.y, imu.linear_acceleration.z) == (0.2, 9.8)
    assert state.pose.pose.position.z == 3.0 and state.pose.pose.orientation.w == pytest.approx(
        T.q_xyzw[3]
    )
