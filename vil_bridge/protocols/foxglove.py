"""Foxglove's messages in protobuf, so that Foxglove, PlotJuggler and everything that reads MCAP
shows a recording.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from foxglove_schemas_protobuf.CameraCalibration_pb2 import CameraCalibration
from foxglove_schemas_protobuf.CompressedImage_pb2 import CompressedImage
from foxglove_schemas_protobuf.FrameTransform_pb2 import FrameTransform
from foxglove_schemas_protobuf.FrameTransforms_pb2 import FrameTransforms
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.PackedElementField_pb2 import PackedElementField
from foxglove_schemas_protobuf.PointCloud_pb2 import PointCloud
from foxglove_schemas_protobuf.Pose_pb2 import Pose
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.PosesInFrame_pb2 import PosesInFrame
from foxglove_schemas_protobuf.Quaternion_pb2 import Quaternion
from foxglove_schemas_protobuf.Vector3_pb2 import Vector3
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.timestamp_pb2 import Timestamp

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.sensor_readings import LidarReading
from vil_bridge.core.types import FloatArray

WORLD = "world"
_LENS = {None: "", "plumb_bob": "plumb_bob", "equidistant": "kannala_brandt"}


@functools.cache
def schema_of(kind: Descriptor) -> tuple[str, str, bytes]:
    """Return the name, encoding and description of a message with all that it is made of, as
    MCAP wants it.
    """
    files = FileDescriptorSet()
    seen: set[str] = set()

    def add(file: FileDescriptor) -> None:
        if file.name not in seen:
            seen.add(file.name)
            for needed in file.dependencies:
                add(needed)
            file.CopyToProto(files.file.add())

    add(kind.file)
    return kind.full_name, "protobuf", files.SerializeToString()


def pose(t_utc_ns: int, frame: str, p_m: FloatArray, q_xyzw: FloatArray) -> PoseInFrame:
    """Return one pose in a frame."""
    return PoseInFrame(timestamp=_time(t_utc_ns), frame_id=frame, pose=_pose(p_m, q_xyzw))


def poses(t_utc_ns: int, frame: str, p_m: FloatArray, q_xyzw: FloatArray) -> PosesInFrame:
    """Return several poses, shapes (n, 3) and (n, 4): the bones of a skeleton."""
    listed = [_pose(p, q) for p, q in zip(p_m, q_xyzw, strict=True)]
    return PosesInFrame(timestamp=_time(t_utc_ns), frame_id=frame, poses=listed)


def transform(
    t_utc_ns: int, parent: str, child: str, p_m: FloatArray, q_xyzw: FloatArray
) -> FrameTransform:
    """Return the pose of a frame in another one."""
    return FrameTransform(
        timestamp=_time(t_utc_ns),
        parent_frame_id=parent,
        child_frame_id=child,
        translation=_vector(p_m),
        rotation=_quaternion(q_xyzw),
    )


def transforms(several: list[FrameTransform]) -> FrameTransforms:
    """Return several transforms as one message."""
    return FrameTransforms(transforms=several)


def points(t_utc_ns: int, body: str, reading: LidarReading) -> PointCloud:
    """Return a lidar's points with the instances that were hit.

    ``body`` is the frame of its vehicle.
    """
    rows = np.empty(len(reading.points_m), dtype=[("p", "<f4", 3), ("instance", "<u4")])
    rows["p"] = reading.points_m
    rows["instance"] = reading.instances
    fields = [
        PackedElementField(name=name, offset=4 * i, type=PackedElementField.FLOAT32)
        for i, name in enumerate("xyz")
    ]
    fields.append(PackedElementField(name="instance", offset=12, type=PackedElementField.UINT32))
    return PointCloud(
        timestamp=_time(t_utc_ns),
        frame_id=body,
        pose=_pose(np.array(reading.p_body_m), np.array(reading.q_body_sensor)),
        point_stride=rows.itemsize,
        fields=fields,
        data=rows.tobytes(),
    )


def image(t_utc_ns: int, frame: str, data: bytes) -> CompressedImage:
    """Return a JPEG picture, seen from a frame."""
    return CompressedImage(timestamp=_time(t_utc_ns), frame_id=frame, data=data, format="jpeg")


def calibration(t_utc_ns: int, frame: str, model: CameraModel) -> CameraCalibration:
    """Return the size, intrinsics and lens of a camera."""
    lens = model.distortion
    lens_name: str | None = None
    coefficients: list[float] = []
    if lens is not None:
        lens_name = str(lens.model)
        coefficients = list(lens.coefficients)
    K = model.K
    P = np.hstack((K, np.zeros((3, 1))))
    return CameraCalibration(
        timestamp=_time(t_utc_ns),
        frame_id=frame,
        width=model.width_px,
        height=model.height_px,
        distortion_model=_LENS[lens_name],
        D=coefficients,
        K=K.ravel().tolist(),
        R=np.eye(3).ravel().tolist(),
        P=P.ravel().tolist(),
    )


def log_entry(t_utc_ns: int, level: int, component: str, text: str) -> Log:
    """Return a line of the log; the level as Python counts (10 = debug, 20 = info...)."""
    # Names of files may hold bytes that are not text.
    message = text.encode(errors="backslashreplace").decode()
    return Log(timestamp=_time(t_utc_ns), level=_level(level), name=component, message=message)


def _level(level: int) -> Any:
    # Foxglove counts debug 1, info 2, warning 3, error 4, fatal 5.
    return min(max(level // 10, 0), 5)


def _time(t_utc_ns: int) -> Timestamp:
    seconds, nanos = divmod(t_utc_ns, NS_PER_S)
    return Timestamp(seconds=seconds, nanos=nanos)


def _vector(p_m: FloatArray) -> Vector3:
    x, y, z = p_m.tolist()
    return Vector3(x=x, y=y, z=z)


def _quaternion(q_xyzw: FloatArray) -> Quaternion:
    x, y, z, w = q_xyzw.tolist()
    return Quaternion(x=x, y=y, z=z, w=w)


def _pose(p_m: FloatArray, q_xyzw: FloatArray) -> Pose:
    return Pose(position=_vector(p_m), orientation=_quaternion(q_xyzw))
