"""A level vehicle that turns on the spot, its IMU and its camera, which looks down."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from tests.support.stream_rig import StreamRig, header, photo
from vil_bridge.client_warp import ImuRing
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.core.frame_header import HeaderPose
from vil_bridge.core.types import FloatArray

RATE_RADPS: Final = 0.5
GRAVITY_MPS2: Final = 9.80665
PICTURE: Final = photo()
DOWN: Final = HeaderPose([0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0])
"""Optical axes of a camera that looks down, the vehicle level."""
MOUNT: Final = {"p_m": [0.0, 0.0, 0.0], "ypr_deg": [0.0, 90.0, 0.0]}
COVARIANCE: Final = [float(i) for i in range(21)]


class Turning:
    """A level vehicle that turns on the spot since ``t0_ns``, and the thread that reads its IMU."""

    def __init__(self) -> None:
        self.t0_ns = now_ns()
        self.ring = ImuRing()
        self.silent = threading.Event()

    @contextmanager
    def reading(self) -> Iterator[None]:
        over = threading.Event()

        def read() -> None:
            while not over.wait(0.002):
                if not self.silent.is_set():
                    self.ring.append(now_ns(), (0.01, 0.0, RATE_RADPS), (0.0, 0.2, GRAVITY_MPS2))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def q_xyzw(self, t_ns: int) -> list[float]:
        half_rad = 0.5 * RATE_RADPS * (t_ns - self.t0_ns) * 1e-9
        return [0.0, 0.0, math.sin(half_rad), math.cos(half_rad)]

    def camera_x(self, t_ns: int) -> FloatArray:
        """Direction of the right side of its camera."""
        turned_rad = RATE_RADPS * (t_ns - self.t0_ns) * 1e-9
        return np.array([math.sin(turned_rad), -math.cos(turned_rad), 0.0])

    def motion(self, t_ns: int) -> dict[str, Any]:
        """Return what the bridge knows: the pose 20 ms before, and no good forecast from there."""
        at_ns = t_ns - 20 * NS_PER_MS
        measured = {"t_ns": at_ns, "p_m": [0.0, 0.0, 1.0], "q_xyzw": self.q_xyzw(at_ns)}
        measured |= {"v_world_mps": [0.0, 0.0, 0.0], "w_body_radps": [0.0, 0.0, RATE_RADPS]}
        return {
            "v_world_mps": [0.0, 0.0, 0.0],
            "w_body_radps": [0.0, 0.0, 0.0],
            "gyro_bias_radps": [0.01, 0.0, 0.0],
            "accel_bias_mps2": [0.0, 0.2, 0.0],
            "imu_late_ns": 0,
            "pose_covariance": COVARIANCE,
            "measured": measured,
        }

    def offer(self, rig: StreamRig, frame_id: int) -> None:
        """Show the picture of a camera that the bridge believes at rest."""
        made = header(frame_id, width=640, height=480, pose_display=DOWN, T_body_camera=MOUNT)
        made.motion = self.motion(made.t_display_ns)
        rig.offer(PICTURE, made)


def camera_x(q_xyzw: FloatArray) -> FloatArray:
    """Direction of a picture's right side in the world."""
    x, y, z, w = q_xyzw
    return np.array([w * w + x * x - y * y - z * z, 2 * (x * y + z * w), 2 * (x * z - y * w)])
