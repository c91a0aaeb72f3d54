"""The types in ``types/*.lcm`` as bytes; pure functions.

LCM's form: eight bytes of fingerprint, then the fields in their order, big-endian; strings have their length with
the final zero before them. The fingerprints are those that lcm-gen computes of the files.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.frame_header import FrameHeader, HeaderPose
from vil_bridge.core.motion import BodyMotion
from vil_bridge.core.types import FloatArray

_POSE: Final = struct.pack(">Q", 0xB099ACAEB466B83B)
_IMU: Final = struct.pack(">Q", 0xD0E7E84D7ED38A4E)
_IMAGE: Final = struct.pack(">Q", 0x13AB526A95AB7368)
_NOWHERE: Final = HeaderPose([0.0] * 3, [0.0] * 4)


def encode_pose(t_utc_ns: int, actor: str, motion: BodyMotion) -> bytes:
    """vil.pose_t."""
    pose = motion.T_world_body
    numbers = (*pose.p_m, *pose.q_xyzw, *motion.v_world_mps, *motion.w_body_radps)
    return b"".join((_POSE, _integer(t_utc_ns), _string(actor), _doubles(numbers)))


def encode_imu(t_utc_ns: int, actor: str, w_radps: FloatArray, f_mps2: FloatArray) -> bytes:
    """vil.imu_t."""
    return b"".join((_IMU, _integer(t_utc_ns), _string(actor), _doubles((*w_radps, *f_mps2))))


def encode_image(
    t_utc_ns: int, header: FrameHeader, camera: CameraModel, form: str, payload: bytes | memoryview
) -> bytes:
    """vil.image_t; the header is the frame's (docs/reference/stream.md), the form ``jpeg``, ``rgb8`` or ``mono8``."""
    pose = header.pose_display or _NOWHERE
    lens = camera.distortion
    coefficients = () if lens is None else lens.coefficients
    return b"".join(
        (
            *(_IMAGE, _integer(t_utc_ns), _string(camera.name), _integer(header.frame_id)),
            *(struct.pack(">b", header.compensated), _string(header.tracking)),
            _doubles((*pose.p_m, *pose.q_xyzw, *camera.intrinsics_px)),
            *(_string("" if lens is None else str(lens.model)), _count(len(coefficients)), _doubles(coefficients)),
            *(_count(camera.width_px), _count(camera.height_px), _string(form), _count(len(payload)), payload),
        )
    )


def _integer(value: int) -> bytes:
    return struct.pack(">q", value)


def _count(value: int) -> bytes:
    return struct.pack(">i", value)


def _doubles(values: Sequence[float]) -> bytes:
    return struct.pack(f">{len(values)}d", *values)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">I", len(data) + 1) + data + b"\0"
