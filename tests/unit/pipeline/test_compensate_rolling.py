"""Rows that are read one after the other: closed forms of a turning and of a sliding camera."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vil_bridge.config.camera import CameraConfig
from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import FloatArray, ImageArray, Modality
from vil_bridge.pipeline.warp.depth_reprojection import render_map
from vil_bridge.pipeline.warp.frame_warp import FrameWarp, Method
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.pipeline.warp.rolling_shutter import KNOTS, ShutterPoses, knot_offsets_ns
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry

MODEL = CameraModel("front", 320, 240, 1.2)
SIGHT = ViewGeometry(MODEL)
HERE = Transform.of((0.3, -0.2, 0.1), (0.1, -0.2, 0.3, 0.9))
YAW_RADPS = 1.5
SPEED_MPS = 2.0
READOUT_NS = 30_000_000
DEPTH_M = 4.0
METHODS: list[Method] = ["rotation", "homography", "reproject"]


def swept(
    w_radps: tuple[float, float, float], v_mps: tuple[float, float, float], readout_ns: int
) -> ShutterPoses:
    """The poses over the readout of a camera that turns and moves evenly, in its own axes."""
    steps = [1e-9 * offset_ns for offset_ns in knot_offsets_ns(readout_ns)]
    return ShutterPoses(
        tuple(HERE @ Transform(np.array(v_mps) * s, q_exp(np.array(w_radps) * s)) for s in steps)
    )


def row_times_s() -> FloatArray:
    """Row v of h is read at ((v + 0.5) / h - 0.5) times the readout: the top before the middle."""
    times: FloatArray = ((np.arange(240) + 0.5) / 240 - 0.5) * 1e-9 * READOUT_NS
    return times[:, None]


def test_the_top_row_comes_first_and_the_middle_is_the_instant() -> None:
    assert knot_offsets_ns(0) == (0,)
    offsets = knot_offsets_ns(READOUT_NS)
    assert len(offsets) == KNOTS and offsets[0] == -15_000_000 and offsets[-1] == 15_000_000
    assert offsets[len(offsets) // 2] == 0
    assert swept((0, YAW_RADPS, 0), (0, 0, 0), READOUT_NS).middle.q_xyzw == pytest.approx(
        HERE.q_xyzw
    )


def test_yaw_shears_the_picture() -> None:
    """Turning right: row by row what was at x_r is seen at the angle less by w t.

    X = f tan(atan(x_r) - w t).
    """
    exposure = swept((0, YAW_RADPS, 0), (0, 0, 0), READOUT_NS)
    motion = exposure.motion_from(HERE, SIGHT.nodes.rows, 240)
    found = render_map(SIGHT, motion, None)
    f, _, cx, cy = MODEL.intrinsics_px
    angle = YAW_RADPS * row_times_s()
    x = (np.arange(320)[None, :] - cx) / f
    y = (np.arange(240)[:, None] - cy) / f
    source_x = f * np.tan(np.arctan(x) + angle) + cx
    source_y = f * y * np.cos(np.arctan(x)) / np.cos(np.arctan(x) + angle) + cy
    inside = (found.x_px > 0) & (found.x_px < 319)
    assert inside.mean() > 0.9
    assert np.abs(found.x_px - source_x)[inside].max() < 0.02
    assert np.abs(found.y_px - source_y)[inside].max() < 0.02
    shear_px = float(found.x_px[239, 160] - found.x_px[0, 160])
    assert shear_px == pytest.approx(f * YAW_RADPS * 1e-9 * READOUT_NS * 239 / 240, rel=0.02)


@pytest.mark.parametrize("scene", ["plane", "depth"])
def test_sliding_shears_by_depth(scene: str) -> None:
    exposure = swept((0, 0, 0), (SPEED_MPS, 0, 0), READOUT_NS)
    motion = exposure.motion_from(HERE, SIGHT.nodes.rows, 240)
    depth = np.full((240, 320), DEPTH_M, np.float32)
    found = render_map(SIGHT, motion, FittedPlane(DEPTH_M) if scene == "plane" else depth)
    expected = np.arange(320)[None, :] + MODEL.f_px * SPEED_MPS * row_times_s() / DEPTH_M
    inside = (expected > 0) & (expected < 319)
    assert np.abs(found.x_px - expected)[inside].max() < 0.01
    assert np.abs(found.y_px - np.arange(240)[:, None])[inside].max() < 0.01


def scenery() -> tuple[ImageArray, ImageArray]:
    """A smooth picture and its depth, a slope from 3 to 5 m."""
    v, u = np.mgrid[0:240, 0:320]
    picture = np.rint(127 + 60 * np.sin(u / 11.0) + 60 * np.cos(v / 13.0)).astype(np.uint8)
    return picture, np.rint((3.0 + u / 160.0) * 655.35).astype(np.uint16)


@pytest.mark.parametrize("method", METHODS)
def test_a_readout_of_no_time_is_a_global_shutter(method: Method) -> None:
    picture, depth = scenery()
    now = HERE @ Transform(np.array([0.1, -0.03, 0.05]), q_exp(np.array([0.02, -0.03, 0.04])))
    shown = []
    for exposure in (ShutterPoses((now,)), ShutterPoses((now,) * KNOTS)):
        frame = FrameWarp(SIGHT, HERE, exposure, method, FittedPlane(4.0), depth)
        shown.append(
            [
                frame.show(m, p)[0].astype(int)
                for m, p in ((Modality.GRAY, picture), (Modality.DEPTH, depth))
            ]
        )
    for at_once, by_rows in zip(*shown, strict=True):
        close = np.abs(at_once - by_rows) <= 2
        assert close.mean() > 0.999


@pytest.mark.parametrize("row", [0, 60, 120, 239])
def test_each_row_is_the_picture_of_its_own_pose(row: int) -> None:
    """Colour, depth and normals of one row of a rolling picture, against the whole picture at
    that row's pose.
    """
    picture, depth = scenery()
    normals = np.broadcast_to(np.array([0.6, 0.0, -0.8], np.float16), (240, 320, 3)).copy()
    w, v = (0.4, 1.2, 0.6), (1.5, -0.5, 1.0)
    rolling = FrameWarp(SIGHT, HERE, swept(w, v, READOUT_NS), "reproject", None, depth)
    t_s = float(row_times_s()[row, 0])
    pose = HERE @ Transform(np.array(v) * t_s, q_exp(np.array(w) * t_s))
    at_once = FrameWarp(SIGHT, HERE, ShutterPoses((pose,)), "reproject", None, depth)
    for modality, pixels, most in (
        (Modality.GRAY, picture, 2.0),
        (Modality.DEPTH, depth, 12.0),
        (Modality.NORMALS, normals, 1e-3),
    ):
        got, expected = (
            warp.show(modality, pixels)[0][row].astype(float) for warp in (rolling, at_once)
        )
        inner = slice(40, -40)
        assert np.abs(got - expected)[inner].max() <= most, modality


def test_a_beacon_is_where_its_row_sees_it() -> None:
    exposure = swept((0, YAW_RADPS, 0), (SPEED_MPS, 0, 0), READOUT_NS)
    frame = FrameWarp(SIGHT, HERE, exposure, "homography", FittedPlane(DEPTH_M))
    u, v, z_m = frame.place(200.0, 20.0, DEPTH_M) or (math.nan,) * 3
    t_s = ((v + 0.5) / 240 - 0.5) * 1e-9 * READOUT_NS
    f, _, cx, cy = MODEL.intrinsics_px
    moved = Transform(np.array([SPEED_MPS * t_s, 0, 0]), q_exp(np.array([0, YAW_RADPS * t_s, 0])))
    X = moved.inverse().apply(np.array([(200.0 - cx) / f, (20.0 - cy) / f, 1.0]) * DEPTH_M)
    assert (u, v, z_m) == pytest.approx(
        (f * X[0] / X[2] + cx, f * X[1] / X[2] + cy, X[2]), abs=1e-3
    )
    assert frame.place(0.0, 20.0, DEPTH_M) is not None
    assert frame.place(-60.0, 20.0, DEPTH_M) is None


@pytest.mark.parametrize("preset", ["d435", "oak_d"])
@pytest.mark.parametrize("yaw_radps", [0.5, -1.5])
def test_an_upright_edge_is_skewed_by_the_turn_between_the_rows_of_a_preset(
    preset: str, yaw_radps: float
) -> None:
    """Edges at atan(x) are seen at x - (1 + x^2) w t: row for row by a line time more."""
    config = CameraConfig.model_validate({"renderer": "drawn", "preset": preset})
    model = config.camera_model(preset)
    sight = ViewGeometry(model)
    h, w, readout_ns = model.height_px, model.width_px, round(1e6 * config.rolling_shutter_ms)
    picture = np.zeros((h, w), np.uint8)
    picture[:, w // 2 :] = 200
    steps = [1e-9 * offset_ns for offset_ns in knot_offsets_ns(readout_ns)]
    turn = np.array((0.0, yaw_radps, 0.0))
    turning = ShutterPoses(tuple(HERE @ Transform(np.zeros(3), q_exp(turn * s)) for s in steps))
    seen = (
        FrameWarp(sight, HERE, turning, "rotation", None, None)
        .show(Modality.GRAY, picture)[0]
        .astype(float)
    )
    rows = np.arange(10, h - 10)  # the first and last ones show what was not rendered
    inner = slice(w // 4, -w // 4)
    edge = np.array([np.interp(100.0, seen[v, inner], np.arange(w)[inner]) for v in rows])
    middle = len(rows) // 2
    x = (edge - model.intrinsics_px[2]) / model.f_px
    turned = yaw_radps * 1e-9 * readout_ns / h * (rows - rows[middle])
    assert np.abs(edge - edge[middle] + model.f_px * (1.0 + x * x) * turned).max() < 0.5
    assert np.ptp(edge) == pytest.approx(model.f_px * abs(yaw_radps) * 1e-9 * readout_ns, rel=0.03)
