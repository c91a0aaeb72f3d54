"""Frames and inertial samples of a known motion, for the tests of the onboard warp."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from vil_bridge import client
from vil_bridge.client_warp import ImuRing
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx
from vil_bridge.core.types import FloatArray, ImageArray
from vil_bridge.world.inertial.preintegration import NavState, preintegrate, propagate

DEG = math.pi / 180
T0_NS, STEP_NS = 5_000_000_000, 2_000_000
F_PX = 548.408834588972
# The camera of the golden value G9, and an IMU mounted askew.
INFO: dict[str, Any] = {
    "width": 1024,
    "height": 768,
    "fx": F_PX,
    "fy": F_PX,
    "cx": 511.5,
    "cy": 383.5,
    "distortion": None,
    "T_body_camera": {"p_m": [0.10, 0.0, 0.05], "ypr_deg": [0.0, -20.0, 0.0]},
    "T_body_imu": {"p_m": [-0.05, 0.08, 0.02], "ypr_deg": [90.0, 10.0, 180.0]},
}
T_BODY_OPTICAL = (
    Transform.of((0.10, 0.0, 0.05), q_from_euler_zyx(0.0, -20 * DEG, 0.0)) @ T_FLU_OPTICAL
)
T_BODY_IMU = Transform.of((-0.05, 0.08, 0.02), q_from_euler_zyx(90 * DEG, 10 * DEG, 180 * DEG))
START = Transform.of((3.0, -2.0, 1.0), q_from_euler_zyx(40 * DEG, 10 * DEG, -5 * DEG))
V_MPS, W_RADPS, F_MPS2 = (
    np.array([2.0, -1.0, 0.5]),
    np.array([0.3, -0.5, 1.2]),
    np.array([0.2, -0.1, 9.9]),
)
BIAS_RADPS = np.array([0.02, -0.03, 0.05])
COLOUR, ALPHA = np.array([200, 60, 120]), 0.6  # of the sign that augments a picture


def truth(dt_ns: int) -> NavState:
    """The body that G9 describes, after a time."""
    start = NavState(T0_NS, START, V_MPS)
    if dt_ns == 0:
        return start
    held = np.tile(W_RADPS, (2, 1)), np.tile(F_MPS2, (2, 1))
    return propagate(start, preintegrate(np.array([T0_NS, T0_NS + dt_ns]), *held))


def sample() -> tuple[FloatArray, FloatArray]:
    """The IMU's sample at all times: constant rate, and force with the share of its lever arm.

    Biased.
    """
    R_imu_body = T_BODY_IMU.rotation().T
    f_mps2 = F_MPS2 + np.cross(W_RADPS, np.cross(W_RADPS, T_BODY_IMU.p_m))
    return R_imu_body @ W_RADPS + BIAS_RADPS, R_imu_body @ f_mps2


def ring(first_ns: int = T0_NS - 50_000_000, last_ns: int = T0_NS + 100_000_000) -> ImuRing:
    """Samples at 500 Hz."""
    imu = ImuRing()
    for t_ns in range(first_ns, last_ns + 1, STEP_NS):
        assert imu.append(t_ns, *sample())
    return imu


def frame(image: ImageArray, dt_ns: int = 0, modality: str = "rgb", **changes: Any) -> client.Frame:
    """A frame of that body's camera; ``changes`` are of its fields."""
    body = truth(dt_ns)
    optical = body.T_world_body @ T_BODY_OPTICAL
    pose = client.Pose(optical.p_m, optical.q_xyzw)
    t_ns = T0_NS + dt_ns
    made = client.Frame(
        image=image,
        t_ns=t_ns,
        t_bridge_ns=t_ns,
        frame_id=7,
        K=np.array([[INFO["fx"], 0, INFO["cx"]], [0, INFO["fy"], INFO["cy"]], [0, 0, 1]]),
        pose_rendered=pose,
        pose_display=pose,
        compensation={"method": "none"},
        stamps={},
        metadata={"modality": modality},
        motion=client.Motion(body.v_world_mps, W_RADPS, BIAS_RADPS),
        age_s=0.0,
        latency_s=None,
        tracking_state="tracked",
        clock_uncertainty_ns=0,
    )
    return replace(made, **changes)


def drawn(outline_px: FloatArray, size_px: tuple[int, int]) -> FloatArray:
    """Which part of each pixel the outline covers: eight times eight points each."""
    fine = np.zeros((size_px[1] * 8, size_px[0] * 8), np.uint8)
    cv2.fillPoly(fine, [np.rint((outline_px + 0.5) * 8 * 16 - 8).astype(np.int32)], 255, shift=4)
    covered: FloatArray = (
        np.asarray(cv2.resize(fine, size_px, interpolation=cv2.INTER_AREA), np.float64) / 255.0
    )
    return covered


def rgba(cover: FloatArray) -> ImageArray:
    """What a renderer makes of the sign: premultiplied."""
    alpha = cover[..., None] * ALPHA
    picture: ImageArray = np.rint(np.concatenate((COLOUR * alpha, 255 * alpha), axis=-1)).astype(
        np.uint8
    )
    return picture


def check_overlay(picture: ImageArray, real: ImageArray, cover: FloatArray) -> None:
    """Within two levels inside and outside, and edges within one pixel."""
    kernel = np.ones((3, 3), np.uint8)
    inside = cv2.erode((cover == 1.0).astype(np.uint8), kernel).astype(bool)
    outside = ~cv2.dilate((cover > 0.0).astype(np.uint8), kernel).astype(bool)
    assert 0.03 < inside.mean() < 0.5
    assert np.array_equal(picture[outside], real[outside])
    mixed = COLOUR * ALPHA + real[inside] * (1 - ALPHA)
    assert np.abs(picture[inside] - mixed).max() <= 2.0
