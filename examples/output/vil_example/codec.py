"""Datagrams of the system; pure functions from values to bytes."""

from __future__ import annotations

import msgspec

from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform

__all__ = ["encode_picture", "encode_pose"]

# TODO: the bytes of the system, with its units, axes and clock.


def encode_pose(actor: str, t_utc_ns: int, T_world_body: Transform) -> bytes:
    """Return the datagram of a pose: metres, z up, quaternion x y z w, Unix nanoseconds."""
    return msgspec.json.encode(
        {
            "actor": actor,
            "t_utc_ns": t_utc_ns,
            "p_world_m": T_world_body.p_m.tolist(),
            "q_world_body": T_world_body.q_xyzw.tolist(),
        }
    )


def encode_picture(header: FrameHeader, t_utc_ns: int, jpeg: bytes) -> bytes:
    """Return the datagram of a picture: a line of JSON, then the JPEG."""
    head = {"camera": header.camera, "frame_id": header.frame_id, "t_utc_ns": t_utc_ns}
    return msgspec.json.encode(head) + b"\n" + jpeg
