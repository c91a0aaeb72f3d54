"""A saved session as a ROS 2 bag, for estimators that read bags (OpenVINS, VINS-Fusion, Kimera).

    python examples/vio/bag.py out/session out/session_bag

Topics are those of EuRoC's own bags, ``/cam0/image_raw`` (mono8) and ``/imu0``; the ground truth is
``/odometry``. Needs the extra ``ros``; ``rosbags-convert --src BAG --dst FILE.bag`` makes a ROS 1
bag of it.
"""

import argparse
import heapq
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from offline import rows
from rosbags.interfaces import Connection
from rosbags.rosbag2 import StoragePlugin, Writer

from vil_bridge.core.geometry import Transform
from vil_bridge.core.motion import BodyMotion
from vil_bridge.protocols.euroc import (
    IMU_VALUES,
    ROOT,
    STATE_VALUES,
    find_mocap,
    read_rows,
    require_imu,
)
from vil_bridge.protocols.ros_messages import Messages

Message = tuple[int, str, str, memoryview]
"""Time, topic, type, bytes."""


def pictures(table: Path, messages: Messages) -> Iterator[Message]:
    """Yield the pictures of a camera."""
    camera = table.parent.name
    for time, name in rows(table):
        gray = cv2.imread(str(table.parent / "data" / name), cv2.IMREAD_GRAYSCALE)
        image = messages.image(int(time), camera, np.asarray(gray, np.uint8))
        yield int(time), f"/{camera}/image_raw", "sensor_msgs/msg/Image", image


def samples(session: Path, messages: Messages) -> Iterator[Message]:
    """Yield the inertial samples."""
    for t_ns, values in zip(*read_rows(require_imu(session), IMU_VALUES), strict=True):
        yield (
            int(t_ns),
            "/imu0",
            "sensor_msgs/msg/Imu",
            messages.imu(int(t_ns), "imu0", values[:3], values[3:]),
        )


def states(session: Path, messages: Messages) -> Iterator[Message]:
    """Yield the ground truth, with the velocity and without the angular rate, which the layout
    does not have.
    """
    for t_ns, values in zip(*read_rows(find_mocap(session), STATE_VALUES), strict=True):
        T_world_imu = Transform(values[:3], values[[4, 5, 6, 3]])
        motion = BodyMotion(
            int(t_ns), T_world_imu, values[7:10], np.full(3, np.nan), "interpolated"
        )
        yield (
            int(t_ns),
            "/odometry",
            "nav_msgs/msg/Odometry",
            messages.odometry(int(t_ns), "world", "imu0", motion),
        )


def main() -> None:
    """Write the bag, in order of time."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("session", type=Path, help="folder that holds the mav0")
    parser.add_argument("out", type=Path, help="folder of the bag; must not exist")
    o = parser.parse_args()
    messages = Messages("humble")
    cameras = sorted((o.session / ROOT).glob("cam*/data.csv"))
    streams = [pictures(table, messages) for table in cameras]
    streams += [samples(o.session, messages), states(o.session, messages)]
    connections: dict[str, Connection] = {}
    with Writer(o.out, version=9, storage_plugin=StoragePlugin.MCAP) as bag:
        for t_ns, topic, kind, message in heapq.merge(*streams, key=lambda m: m[0]):
            if topic not in connections:
                connections[topic] = bag.add_connection(topic, kind, typestore=messages.store)
            bag.write(connections[topic], t_ns, message)
    print(", ".join(sorted(connections)))  # noqa: T201


if __name__ == "__main__":
    main()
