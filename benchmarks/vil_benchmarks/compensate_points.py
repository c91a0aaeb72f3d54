"""Positions of a rendered picture's points after the late warp, shown and true.

Points are pixels (n, 2) of the rendered picture with z-depths (n,), so that no picture is needed:
what is measured is the poses and the mapping, not the sampling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from vil_bridge.core.geometry import (
    T_FLU_OPTICAL,
    Transform,
    q_conj,
    q_exp,
    q_from_euler_zyx,
    q_mul,
    q_rotate,
)
from vil_bridge.core.types import FloatArray
from vil_bridge.pipeline.warp.homography import (
    homography,
    rotation_homography,
    rotation_translation,
)
from vil_bridge.world.inertial.body_estimate import body_of, carried
from vil_bridge.world.inertial.body_filter import BodyFilter
from vil_bridge.world.inertial.error_state import FilterState

METHODS: Final = ("none", "rotation", "homography", "depth")
T_BODY_OPTICAL: Final = (
    Transform.of((0.12, 0.0, 0.03), q_from_euler_zyx(0.0, math.radians(-15.0), 0.0)) @ T_FLU_OPTICAL
)
"""The camera of all figures: a hand's breadth before the IMU, pitched up by 15 degrees."""


def without_filter(state: FilterState, T_world_body: Transform) -> FilterState:
    """Return a state whose pose is replaced by a measured one of a body whose axes are its
    IMU's.
    """
    q_xyzw = q_mul(T_world_body.q_xyzw, q_conj(q_exp(state.mount_rad)))
    p_m = T_world_body.p_m - q_rotate(T_world_body.q_xyzw, state.p_imu_body_m)
    return replace(state, q_world_imu_xyzw=q_xyzw, p_world_m=p_m)


def seen_by(body: BodyFilter, state: FilterState, t_ns: int) -> Transform:
    """Return the optical camera at an instant, carried there from a state of its carrier."""
    there = carried(body, state, t_ns)
    assert there is not None, "the samples cover it"
    return body_of(there, Transform.identity().q_xyzw).T_world_body @ T_BODY_OPTICAL


def reprojected(
    K: FloatArray, R_rn: FloatArray, dp_render_m: FloatArray, px: FloatArray, z_m: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the pixels (n, 2) and z-depths (n,) in the now camera of points seen at ``px`` in the
    render camera.

    X_n = R_rn^T (X_r - dp): the pointwise form of what
    :func:`~vil_bridge.pipeline.warp.depth_reprojection.render_map` solves for whole pictures.
    """
    rays = _homogeneous(px) @ np.linalg.inv(K).T
    X_now_m = (rays * z_m[:, None] - dp_render_m) @ R_rn
    pixels: FloatArray = (X_now_m @ K.T)[:, :2] / _apart_from_zero(X_now_m[:, 2:])
    return pixels, X_now_m[:, 2]


def shown_px(
    method: str,
    K: FloatArray,
    T_world_render: Transform,
    T_world_known: Transform,
    px: FloatArray,
    z_m: FloatArray,
    d_m: float | None = None,
) -> FloatArray:
    """Return the pixels (n, 2) at which a method of :data:`METHODS` shows the points.

    Args:
        method: which.
        K: intrinsic matrix.
        T_world_render: optical camera that the picture was rendered for.
        T_world_known: where the bridge believes the camera to be when the picture is shown.
        px: shape (n, 2).
        z_m: shape (n,).
        d_m: distance of the homography's plane; None = the median of ``z_m``.
    """
    if method == "none":
        return px
    R_rn, dp_render_m = rotation_translation(T_world_render, T_world_known)
    if method == "rotation":
        return _mapped(rotation_homography(K, R_rn), px)
    if method == "homography":
        plane_m = float(np.median(z_m)) if d_m is None else d_m
        return _mapped(homography(K, R_rn, dp_render_m, plane_m), px)
    return reprojected(K, R_rn, dp_render_m, px, z_m)[0]


def errors_px(
    K: FloatArray,
    size_px: tuple[int, int],
    T_world_render: Transform,
    T_world_known: Transform,
    T_world_true: Transform,
    px: FloatArray,
    z_m: FloatArray,
    d_m: float | None = None,
    methods: Sequence[str] = METHODS,
) -> dict[str, FloatArray]:
    """Return the distance from the true place in the picture, by method, of the points that are
    truly in view.

    Args:
        K: intrinsic matrix.
        size_px: width and height of the picture.
        T_world_render: as in :func:`shown_px`.
        T_world_known: as in :func:`shown_px`.
        T_world_true: where the camera is when the picture is shown.
        px: shape (n, 2).
        z_m: shape (n,).
        d_m: as in :func:`shown_px`.
        methods: of :data:`METHODS`.
    """
    true_px, true_z_m = reprojected(K, *rotation_translation(T_world_render, T_world_true), px, z_m)
    inside = (true_px > -0.5) & (true_px < np.array(size_px) - 0.5)
    seen = inside.all(axis=1) & (true_z_m > 0.0)
    shown = {m: shown_px(m, K, T_world_render, T_world_known, px, z_m, d_m)[seen] for m in methods}
    return {m: np.linalg.norm(where - true_px[seen], axis=1) for m, where in shown.items()}


def _mapped(H: FloatArray, px: FloatArray) -> FloatArray:
    mapped = _homogeneous(px) @ H.T
    pixels: FloatArray = mapped[:, :2] / _apart_from_zero(mapped[:, 2:])
    return pixels


def _homogeneous(px: FloatArray) -> FloatArray:
    return np.column_stack((px, np.ones(len(px))))


def _apart_from_zero(z: FloatArray) -> FloatArray:
    return np.where(np.abs(z) < 1e-9, 1e-9, z)
