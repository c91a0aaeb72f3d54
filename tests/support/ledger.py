"""Ledgers made by hand."""

from __future__ import annotations

import numpy as np

from tests.support.frame_headers import frame_header
from vil_bridge.core.frame_header import FrameHeader, FrameStamps
from vil_bridge.core.types import Stamps
from vil_bridge.monitoring.frame_records import CameraHead, CameraLedger, FrameRow

NAMES = ("capture", "arrival", "request", "image", "warp", "encode", "send", "received")


def offered_header(frame_id: int, variant: str = "compensated", **stamps: int) -> FrameHeader:
    """What the ledger reads of a frame's header."""
    compensation = (
        {"method": "homography", "angle_rad": 0.01}
        if variant == "compensated"
        else {"method": "none"}
    )
    return frame_header(
        frame_id,
        variant=variant,
        t_display_ns=10 * frame_id + 5,
        compensation=compensation,
        stamps_ns=FrameStamps(**({"request": 10 * frame_id} | stamps)),
    )


def flown_ledger(frames: int = 600, rate_hz: float = 60.0, seed: int = 1) -> CameraLedger:
    """Frames of a flight with one gap of nine frames in the middle.

    Every tenth one is never reported back.
    """
    rng = np.random.default_rng(seed)
    scale_ms = np.array([4.0, 6.0, 9.0, 0.5, 1.5, 0.2, 3.0])
    rows = []
    for i in range(frames):
        slot = i if i < frames // 2 else i + 9
        request_ns = 10**12 + round(slot * 1e9 / rate_hz)
        parts = np.round(1e6 * scale_ms * rng.gamma(12.0, 1 / 12.0, 7)).astype(int)
        capture_ns = request_ns - int(parts[:2].sum())
        times = [capture_ns, *(capture_ns + np.cumsum(parts)).tolist()]
        stamps = Stamps(**dict(zip(NAMES, times, strict=True)), output=(times[4] + times[5]) // 2)
        if i % 10 == 9:
            stamps.received = None
        told = {
            "method": "homography",
            "pose_method": "inertial",
            "d_m": 8.0,
            "angle_rad": float(abs(rng.normal(0.0, 0.01))),
            "valid_fraction": float(1 - abs(rng.normal(0.0, 0.01))),
            "imu_age_ns": int(rng.integers(0, 5_000_000)),
            "horizon_ns": int(rng.normal(0.0, 1_500_000)),
        }
        rows.append(
            FrameRow(request_ns, "compensated", request_ns + 25_000_000, "tracked", told, stamps)
        )
    head = CameraHead(
        bridge="lab",
        version="1.0",
        camera="front",
        t_ns=10**12 + 10**10,
        utc_offset_ns=1_700_000_000 * 10**9,
        rate_hz=rate_hz,
        dropped={"too_old": 3, "renderer_busy": 40, "superseded": 0},
        unsent={"superseded": 12},
    )
    return CameraLedger(head, rows)
