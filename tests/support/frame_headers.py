"""Frame headers in tests."""

from __future__ import annotations

from typing import Any

from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader, FrameStamps, HeaderPose

__all__ = ["POSE", "frame_header"]

POSE = HeaderPose([1.0, 2.0, 3.0], [0.0, 0.0, 0.0, 1.0])


def frame_header(frame_id: int, **changes: Any) -> FrameHeader:
    """A header of a compensated colour picture of 8 x 6 pixels, made now."""
    t_ns = now_ns()
    fields: dict[str, Any] = {
        "camera": "front",
        "width": 8,
        "height": 6,
        "K": (4.0, 4.0, 3.5, 2.5),
        "frame_id": frame_id,
        "t_display_ns": t_ns,
        "t_render_ns": t_ns,
        "tracking": "tracked",
        "compensation": {"method": "homography", "d_m": 8.0},
        "modality": "rgb",
        "variant": "compensated",
        "pose_rendered": POSE,
        "pose_display": POSE,
        "stamps_ns": FrameStamps(t_ns, t_ns, t_ns, t_ns),
    }
    return FrameHeader(**(fields | changes))
