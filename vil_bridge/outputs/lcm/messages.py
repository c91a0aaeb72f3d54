"""The types in ``types/*.lcm`` as bytes; pure functions.

LCM's form: eight bytes of fingerprint, then the fields in their order, big-endian; strings have
their length with the final zero before them. The fingerprints are those that lcm-gen computes of
the files.
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
    return b"".join((_POSE, integer(t_utc_ns), string(actor), doubles(numbers)))


def encode_imu(t_utc_ns: int, actor: str, w_radps: FloatArray, f_mps2: FloatArray) -> bytes:
    """vil.imu_t."""
    return b"".join((_IMU, integer(t_utc_ns), string(actor), doubles((*w_radps, *f_mps2))))


def encode_image(
    t_utc_ns: int, header: FrameHeader, camera: CameraModel, form: str, payload: bytes | memoryview
) -> bytes:
    """Return vil.image_t.

    Args:
        t_utc_ns: instant that it shows.
        header: the frame's (docs/reference/stream.md).
        camera: that took it.
        form: ``jpeg``, ``rgb8``, ``mono8`` or ``32FC1``.
        payload: the pixels in that form.
    """
    pose = header.pose_display or _NOWHERE
    lens = camera.distortion
    coefficients = () if lens is None else lens.coefficients
    return b"".join(
        (
            *(_IMAGE, integer(t_utc_ns), string(camera.name), integer(header.frame_id)),
            *(struct.pack(">b", header.compensated), string(header.tracking)),
            doubles((*pose.p_m, *pose.q_xyzw, *camera.intrinsics_px)),
            *(
                string("" if lens is None else str(lens.model)),
                count(len(coefficients)),
                doubles(coefficients),
            ),
            *(
                count(camera.width_px),
                count(camera.height_px),
                string(form),
                count(len(payload)),
                payload,
            ),
        )
    )


def integer(value: int) -> bytes:
    """Return an int64_t."""
    return struct.pack(">q", value)


def count(value: int) -> bytes:
    """Return an int32_t."""
    return struct.pack(">i", value)


def doubles(values: Sequence[float] | FloatArray) -> bytes:
    """Return doubles, one after the other."""
    return struct.pack(f">{len(values)}d", *values)


def string(text: str) -> bytes:
    """Return a string with its length."""
    data = text.encode()
    return struct.pack(">I", len(data) + 1) + data + b"\0"
