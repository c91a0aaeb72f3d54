"""ROS messages as bytes: CDR for ROS 2, ROS 1's own form for ``noetic``.

Definitions and type hashes come from rosbags' store of the distribution. Angles are radians,
lengths metres; poses are REP-103's (body x forward, y left, z up; optical x right, y down, z
forward).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import Transform
from vil_bridge.core.motion import BodyMotion, pose_covariance
from vil_bridge.core.types import FloatArray, ImageArray

Distro = Literal["noetic", "humble", "jazzy", "kilted", "lyrical"]

_STORES: Final = {
    "noetic": Stores.ROS1_NOETIC,
    "humble": Stores.ROS2_HUMBLE,
    "jazzy": Stores.ROS2_JAZZY,
    "kilted": Stores.ROS2_KILTED,
    "lyrical": Stores.ROS2_LYRICAL,
}
_TF_DEFINITION: Final = "geometry_msgs/TransformStamped[] transforms"
_OCTOMAP: Final = "octomap_msgs/msg/Octomap"
_OCTOMAP_DEFINITION: Final = """std_msgs/Header header
bool binary
string id
float64 resolution
int8[] data"""
_UNKNOWN: Final = np.zeros(36)
"""A covariance of which nothing is known (geometry_msgs and sensor_msgs both say: all zeros)."""
_UNKNOWN_3: Final = np.zeros(9)
_NO_ESTIMATE: Final = np.array([-1.0, *[0.0] * 8])
"""sensor_msgs/Imu: -1 first says that the message holds no orientation at all."""
_NO_DISTORTION: Final = (0.0,) * 5


class TransformLink(NamedTuple):
    """One transform of the tree: the pose of ``child`` in ``parent``."""

    parent: str
    child: str
    T_parent_child: Transform


class Messages:
    """Factory of serialised messages of one distribution.

    Methods return the serialised message; the memory under it is a bytearray of its own.
    """

    def __init__(self, distro: Distro) -> None:
        self.ros1: Final = distro == "noetic"
        self.store: Final[Typestore] = get_typestore(_STORES[distro])
        self.store.register(get_types_from_msg(_OCTOMAP_DEFINITION, _OCTOMAP))
        if self.ros1:
            self.store.register(get_types_from_msg(_TF_DEFINITION, "tf2_msgs/msg/TFMessage"))

    def odometry(self, stamp_ns: int, world: str, body: str, motion: BodyMotion) -> memoryview:
        """Serialise a nav_msgs/Odometry: the pose in the world, the twist in the body's axes."""
        pose = motion.T_world_body
        R_world_body = pose.rotation()
        v_body_mps = R_world_body.T @ motion.v_world_mps
        covariance = _UNKNOWN
        if motion.covariance is not None:  # ROS turns attitudes about the fixed frame's axes
            to_world = np.eye(6)
            to_world[3:, 3:] = R_world_body
            covariance = (to_world @ pose_covariance(motion.covariance) @ to_world.T).ravel()
        return self._bytes(
            "nav_msgs/msg/Odometry",
            header=self._header(stamp_ns, world),
            child_frame_id=body,
            pose=self._make("geometry_msgs/msg/PoseWithCovariance")(
                pose=self._pose(pose.p_m, pose.q_xyzw),
                covariance=covariance,
            ),
            twist=self._make("geometry_msgs/msg/TwistWithCovariance")(
                twist=self._make("geometry_msgs/msg/Twist")(
                    linear=self._vector(v_body_mps), angular=self._vector(motion.w_body_radps)
                ),
                covariance=_UNKNOWN,
            ),
        )

    def imu(self, stamp_ns: int, frame: str, w_radps: FloatArray, f_mps2: FloatArray) -> memoryview:
        """Serialise a sensor_msgs/Imu without orientation.

        Specific force +g on z at rest (REP-145), IMU axes.
        """
        return self._bytes(
            "sensor_msgs/msg/Imu",
            header=self._header(stamp_ns, frame),
            orientation=self._make("geometry_msgs/msg/Quaternion")(0.0, 0.0, 0.0, 1.0),
            orientation_covariance=_NO_ESTIMATE,
            angular_velocity=self._vector(w_radps),
            angular_velocity_covariance=_UNKNOWN_3,
            linear_acceleration=self._vector(f_mps2),
            linear_acceleration_covariance=_UNKNOWN_3,
        )

    def transforms(self, stamp_ns: int, links: Sequence[TransformLink]) -> memoryview:
        """Serialise a tf2_msgs/TFMessage."""
        stamped = self._make("geometry_msgs/msg/TransformStamped")
        transform = self._make("geometry_msgs/msg/Transform")
        return self._bytes(
            "tf2_msgs/msg/TFMessage",
            transforms=[
                stamped(
                    header=self._header(stamp_ns, link.parent),
                    child_frame_id=link.child,
                    transform=transform(
                        translation=self._vector(link.T_parent_child.p_m),
                        rotation=self._quaternion(link.T_parent_child.q_xyzw),
                    ),
                )
                for link in links
            ],
        )

    def image(self, stamp_ns: int, frame: str, pixels: ImageArray) -> memoryview:
        """Serialise a sensor_msgs/Image, contiguous, top row first.

        Args:
            stamp_ns: Unix time of the instant that it shows.
            frame: of the camera's optical axes.
            pixels: RGB (h, w, 3) or gray (h, w), uint8; depth (h, w), float32, metres.
        """
        height_px, width_px = pixels.shape[:2]
        encoding = "mono8"
        if pixels.dtype == np.float32:
            encoding = "32FC1"
        elif pixels.ndim == 3:
            encoding = "rgb8"
        return self._bytes(
            "sensor_msgs/msg/Image",
            header=self._header(stamp_ns, frame),
            height=height_px,
            width=width_px,
            encoding=encoding,
            is_bigendian=0,
            step=pixels.strides[0],
            data=pixels.reshape(-1).view(np.uint8),
        )

    def poses(self, stamp_ns: int, frame: str, p_m: FloatArray, q_xyzw: FloatArray) -> memoryview:
        """Serialise a geometry_msgs/PoseArray of positions (n, 3) and attitudes (n, 4)."""
        rows = zip(p_m, q_xyzw, strict=True)
        poses = [self._pose(p_m_i, q_xyzw_i) for p_m_i, q_xyzw_i in rows]
        return self._bytes(
            "geometry_msgs/msg/PoseArray", header=self._header(stamp_ns, frame), poses=poses
        )

    def octomap(self, stamp_ns: int, frame: str, tree: bytes) -> memoryview:
        """Serialise an octomap_msgs/Octomap of a binary tree file: its data without the header."""
        head, _, data = tree.partition(b"\ndata\n")
        return self._bytes(
            _OCTOMAP,
            header=self._header(stamp_ns, frame),
            binary=True,
            id="OcTree",
            resolution=float(head.rpartition(b"res ")[2]),
            data=np.frombuffer(data, np.int8),
        )

    def path(
        self, stamp_ns: int, frame: str, t_ns: Sequence[int], p_m: FloatArray, q_xyzw: FloatArray
    ) -> memoryview:
        """Serialise a nav_msgs/Path of positions (n, 3) and attitudes (n, 4), each with its time.

        Unix.
        """
        stamped = self._make("geometry_msgs/msg/PoseStamped")
        rows = zip(t_ns, p_m, q_xyzw, strict=True)
        poses = [stamped(header=self._header(t, frame), pose=self._pose(p, q)) for t, p, q in rows]
        return self._bytes("nav_msgs/msg/Path", header=self._header(stamp_ns, frame), poses=poses)

    def clock(self, stamp_ns: int) -> memoryview:
        """Serialise a rosgraph_msgs/Clock."""
        return self._bytes("rosgraph_msgs/msg/Clock", clock=self._time(stamp_ns))

    def jpeg(self, stamp_ns: int, frame: str, payload: bytes) -> memoryview:
        """Serialise a sensor_msgs/CompressedImage."""
        return self._bytes(
            "sensor_msgs/msg/CompressedImage",
            header=self._header(stamp_ns, frame),
            format="jpeg",
            data=np.frombuffer(payload, np.uint8),
        )

    def camera_info(
        self, stamp_ns: int, frame: str, camera: CameraModel, baseline_m: float = 0.0
    ) -> memoryview:
        """Serialise a sensor_msgs/CameraInfo; pixel centres at integers, as ROS has them.

        The projection matrix of a stereo pair's right camera holds -fx times its distance to the
        left one.
        """
        lens = camera.distortion
        lens_name = "plumb_bob"
        coefficients: tuple[float, ...] = _NO_DISTORTION
        if lens is not None:
            lens_name = str(lens.model)
            coefficients = lens.coefficients
        K = camera.K
        offset_px_m = np.array([[-K[0, 0] * baseline_m], [0.0], [0.0]])
        matrices = {
            "d": np.array(coefficients),
            "k": K.reshape(-1),
            "r": np.eye(3).reshape(-1),
            "p": np.hstack((K, offset_px_m)).reshape(-1),
        }
        roi = self._make("sensor_msgs/msg/RegionOfInterest")
        return self._bytes(
            "sensor_msgs/msg/CameraInfo",
            header=self._header(stamp_ns, frame),
            height=camera.height_px,
            width=camera.width_px,
            distortion_model=lens_name,
            binning_x=0,
            binning_y=0,
            roi=roi(x_offset=0, y_offset=0, height=0, width=0, do_rectify=False),
            **({name.upper(): m for name, m in matrices.items()} if self.ros1 else matrices),
        )

    def _bytes(self, type_name: str, **fields: Any) -> memoryview:
        message = self._make(type_name)(**fields)
        store = self.store
        if self.ros1:
            return store.serialize_ros1(message, type_name)
        return store.serialize_cdr(message, type_name)

    def _make(self, type_name: str) -> Any:
        return self.store.types[type_name]

    def _header(self, stamp_ns: int, frame: str) -> Any:
        sequence = {"seq": 0} if self.ros1 else {}
        return self._make("std_msgs/msg/Header")(
            stamp=self._time(stamp_ns), frame_id=frame, **sequence
        )

    def _time(self, stamp_ns: int) -> Any:
        return self._make("builtin_interfaces/msg/Time")(*divmod(stamp_ns, NS_PER_S))

    def _pose(self, p_m: FloatArray, q_xyzw: FloatArray) -> Any:
        position = self._make("geometry_msgs/msg/Point")(*p_m.tolist())
        return self._make("geometry_msgs/msg/Pose")(
            position=position, orientation=self._quaternion(q_xyzw)
        )

    def _vector(self, v: FloatArray) -> Any:
        return self._make("geometry_msgs/msg/Vector3")(*v.tolist())

    def _quaternion(self, q_xyzw: FloatArray) -> Any:
        return self._make("geometry_msgs/msg/Quaternion")(*q_xyzw.tolist())
