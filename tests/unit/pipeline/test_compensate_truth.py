"""Late warp against scenes that are cast by hand.

Sky, holes next to a post, and what lies behind a camera.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
import pytest

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_exp
from vil_bridge.core.types import BoolArray, FloatArray, ImageArray, Modality
from vil_bridge.pipeline.warp.compensator import Compensator
from vil_bridge.pipeline.warp.depth_reprojection import RenderMap, render_map
from vil_bridge.pipeline.warp.frame_warp import FrameWarp, Method
from vil_bridge.pipeline.warp.modality_remap import FlowHistory
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.pipeline.warp.rolling_shutter import ShutterPoses
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry

WIDTH_PX, HEIGHT_PX = 320, 240
SIZE = (HEIGHT_PX, WIDTH_PX)
FX, FY, CX, CY = 450.0, 405.0, 150.3, 125.8
MODEL = CameraModel("front", WIDTH_PX, HEIGHT_PX, 1.0, (FX, FY, CX, CY))
SIGHT = ViewGeometry(MODEL)
HERE = Transform.identity()
NO_HIT = 65535
SKY, WALL, POST = 0, 1, 2


class Rectangle(NamedTuple):
    """Part of the plane z = z_m of the render camera."""

    number: int
    z_m: float
    x_m: tuple[float, float]
    y_m: tuple[float, float]


class Cast(NamedTuple):
    """One camera's view.

    Number of the rectangle and z-depth (h, w), points (h, w, 3) in the render camera's axes.
    """

    number: ImageArray
    z_m: FloatArray
    X_render_m: FloatArray

    def depth(self, kind: type = np.uint16) -> ImageArray:
        if kind is np.uint16:
            return np.rint(np.minimum(self.z_m, 100.0) * 655.35).astype(np.uint16)
        return np.minimum(self.z_m, 100.0).astype(np.float32)


def rays(model: CameraModel = MODEL) -> FloatArray:
    """Rays (h, w, 3) with z = 1."""
    fx, fy, cx, cy = model.intrinsics_px
    v, u = np.mgrid[0 : model.height_px, 0 : model.width_px].astype(float)
    return np.stack(((u - cx) / fx, (v - cy) / fy, np.ones_like(u)), axis=-1)


def pixels_of(X: FloatArray) -> FloatArray:
    """Pixels (..., 2) of points (..., 3) ahead of the camera; far outside for the others."""
    z = np.where(X[..., 2] > 0.0, X[..., 2], np.nan)
    seen = np.stack((FX * X[..., 0] / z + CX, FY * X[..., 1] / z + CY), axis=-1)
    return np.nan_to_num(seen, nan=-1e9)


def in_picture(px: FloatArray) -> BoolArray:
    return np.asarray(np.all((px > -0.5) & (px < (WIDTH_PX - 0.5, HEIGHT_PX - 0.5)), axis=-1))


def cast(scene: tuple[Rectangle, ...], T_render_camera: Transform = HERE) -> Cast:
    R, p_m = T_render_camera.rotation(), T_render_camera.p_m
    direction = rays() @ R.T
    z_m, number = np.full(direction.shape[:2], np.inf), np.zeros(direction.shape[:2], np.uint8)
    for rectangle in scene:
        z = (rectangle.z_m - p_m[2]) / direction[..., 2]
        x, y = p_m[0] + z * direction[..., 0], p_m[1] + z * direction[..., 1]
        on = (z > 0.0) & (z < z_m)
        on &= (
            (rectangle.x_m[0] < x)
            & (x < rectangle.x_m[1])
            & (rectangle.y_m[0] < y)
            & (y < rectangle.y_m[1])
        )
        z_m[on], number[on] = z[on], rectangle.number
    return Cast(number, z_m, p_m + direction * np.where(np.isinf(z_m), 1.0, z_m)[..., None])


def moved(
    p_m: tuple[float, float, float], rotvec: tuple[float, float, float] = (0.0, 0.0, 0.0)
) -> Transform:
    return Transform(np.array(p_m), q_exp(np.array(rotvec)))


def found_by(
    scene: FittedPlane | ImageArray | None, now: Transform, geometry: ViewGeometry = SIGHT
) -> RenderMap:
    motion = ShutterPoses((now,)).motion_from(HERE, geometry.nodes.rows, geometry.size_px[1])
    return render_map(geometry, motion, scene)


def at_found(pixels: ImageArray, found: RenderMap) -> ImageArray:
    return np.asarray(
        cv2.remap(
            pixels, found.x_px, found.y_px, cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE
        )
    )


def eroded(where: BoolArray, side: int = 11) -> BoolArray:
    """Without what lies within half a side of an edge: the map is solved at every fourth pixel."""
    return np.asarray(
        cv2.erode(where.astype(np.uint8), np.ones((side, side), np.uint8), borderValue=0).astype(
            bool
        )
    )


FRONT = Rectangle(WALL, 6.0, (-90.0, 90.0), (-1.0, 90.0))
"""A wall that ends 1 m above the axis: sky above it."""
PILLAR = Rectangle(POST, 2.0, (-0.25, 0.25), (-90.0, 90.0))
TURNED = moved((0.08, -0.03, -0.06), (0.02, -0.03, 0.04))


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
@pytest.mark.parametrize("now", [TURNED, moved((-0.06, 0.04, 0.08))], ids=["turned", "ahead"])
def test_each_pixel_is_found_where_the_rendered_camera_saw_its_point(
    kind: type, now: Transform
) -> None:
    here, there = cast((FRONT, PILLAR)), cast((FRONT, PILLAR), now)
    found = found_by(here.depth(kind), now)
    assert len(np.unique(there.number)) == 3
    sky_px = pixels_of(rays() @ now.rotation().T)
    expected = np.where((there.number == SKY)[..., None], sky_px, pixels_of(there.X_render_m))
    column, row = (
        np.clip(np.rint(expected), 0, (WIDTH_PX - 1, HEIGHT_PX - 1)).astype(int)[..., 0:2].T
    )
    visible = in_picture(expected) & (here.number[row.T, column.T] == there.number)
    for number, most_px in (
        (SKY, 1.3 * FX * float(np.linalg.norm(now.p_m)) / 100.0),
        (WALL, 0.05),
        (POST, 0.05),
    ):
        on = eroded(visible & (there.number == number))
        assert on.sum() > 1500
        apart = np.hypot(found.x_px - expected[..., 0], found.y_px - expected[..., 1])
        assert np.mean(apart[on] < most_px) > 0.995, number


def test_a_steep_slope_after_a_wide_step_aside_has_no_holes() -> None:
    """A wall at 53 degrees to the picture, and a step of a fifth of its distance.

    Every round of the search counts.
    """
    normal, now = np.array([0.8, 0.0, 0.6]), moved((0.4, 0.0, 0.0), (0.02, -0.03, 0.04))
    ray = rays() @ now.rotation().T
    was = pixels_of(now.p_m + ray * ((2.0 - now.p_m @ normal) / (ray @ normal))[..., None])
    found = found_by((2.0 / (rays() @ normal)).astype(np.float32), now)
    visible = eroded(in_picture(was))
    assert visible.mean() > 0.6 and found.filled is None
    assert np.hypot(found.x_px - was[..., 0], found.y_px - was[..., 1])[visible].max() < 0.2


@pytest.mark.parametrize("kind", [np.uint16, np.float32])
@pytest.mark.parametrize("method", ["rotation", "homography", "reproject"])
def test_sky_stays_sky_and_surfaces_get_the_depth_of_the_camera_shown(
    kind: type, method: Method
) -> None:
    """No pixel of the sky gets a distance that depends on the motion, nor does a wall at 97 m
    become sky.
    """
    far = (Rectangle(WALL, 97.0, (-900.0, 900.0), (0.0, 900.0)),)
    now = moved((0.3, 0.1, -1.4), (0.03, 0.02, 0.05))
    here, there = cast(far), cast(far, now)
    frame = Compensator(97.0).frame(SIGHT, HERE, ShutterPoses((now,)), method, here.depth(kind))
    shown, _ = frame.show(
        Modality.DEPTH if kind is np.uint16 else Modality.DEPTH32, here.depth(kind)
    )
    assert shown.dtype == kind
    z_m = shown.astype(float) / (655.35 if kind is np.uint16 else 1.0)
    sky, wall = eroded(there.number == SKY), eroded(there.number == WALL)
    assert sky.sum() > 2000 and wall.sum() > 2000
    assert (shown[sky] == (NO_HIT if kind is np.uint16 else np.float32(100.0))).all()
    # Rotation alone takes the camera to be where it was.
    expected = there.z_m[wall] if method != "rotation" else there.z_m[wall] * 97.0 / 98.4
    seen = z_m[wall] < 99.99
    np.testing.assert_allclose(z_m[wall][seen], expected[seen], rtol=6e-3)
    assert seen.mean() > 0.75, "the rest was outside of the rendered picture"


SIDES = {
    "right": (0.09, 0.0, 0.0),
    "left": (-0.09, 0.0, 0.0),
    "down": (0.0, 0.09, 0.0),
    "up": (0.0, -0.09, 0.0),
}
BLOCK = Rectangle(POST, 2.0, (-0.1, 0.5), (-0.25, 0.25))
BLOCK_CX = CX + FX * 0.2 / 2.0


@pytest.mark.parametrize("behind", ["wall", "sky"])
@pytest.mark.parametrize("side", SIDES)
def test_what_comes_into_view_shows_the_background(side: str, behind: str) -> None:
    """The camera moves aside.

    The strip that the block hid is background, and next to the block's edge.
    """
    back = (Rectangle(WALL, 20.0, (-90.0, 90.0), (-90.0, 90.0)),) if behind == "wall" else ()
    now = moved(SIDES[side])
    here, there = cast((*back, BLOCK)), cast((*back, BLOCK), now)
    found = found_by(here.depth(), now)
    z_m = 20.0 if behind == "wall" else 100.0
    was = pixels_of(rays() * z_m + now.p_m)
    column, row = np.clip(np.rint(was), 0, (WIDTH_PX - 1, HEIGHT_PX - 1)).astype(int)[..., 0:2].T
    hidden = in_picture(was) & (here.number[row.T, column.T] == POST) & (there.number != POST)
    strip_px = (FX if now.p_m[0] else FY) * 0.09 * (1 / 2.0 - 1 / z_m)
    length_px = FY * 0.25 if now.p_m[0] else FX * 0.3
    assert hidden.sum() == pytest.approx(strip_px * length_px, rel=0.15)
    # Away from the strip's ends, where the map passes between two sides of the block.
    v, u = np.mgrid[0:HEIGHT_PX, 0:WIDTH_PX]
    middle = (
        np.abs(v - CY) < 0.5 * length_px - 24
        if now.p_m[0]
        else np.abs(u - BLOCK_CX) < 0.5 * length_px - 24
    )
    core = eroded(hidden, 9) & middle
    assert core.sum() > 0.1 * hidden.sum()
    assert (at_found(here.number, found)[core] != POST).all(), "background, not foreground"
    filled = (
        SIGHT.enlarged(
            (found.filled if found.filled is not None else np.zeros(1)).astype(np.float32)
        )
        > 0.5
    )
    assert filled[core].all()
    assert (filled & ~hidden).sum() < 0.35 * hidden.sum()
    # What is shown is the background next to the block, not some from far away.
    edge_px = np.maximum(
        np.abs(found.x_px - BLOCK_CX) - FX * 0.15, np.abs(found.y_px - CY) - FY * 0.125
    )
    assert edge_px[core].min() > -1.0 and edge_px[core].max() < 0.5 * strip_px
    lost = 1.0 - float(in_picture(was)[there.number != POST].mean())
    assert 1.0 - found.valid_fraction == pytest.approx(hidden.mean() + lost, abs=0.02), (
        "holes are not valid"
    )
    frame = FrameWarp(SIGHT, HERE, ShutterPoses((now,)), "reproject", None, here.depth())
    still, all_known = np.zeros((*SIZE, 2), np.float32), np.ones(SIZE, np.bool_)
    _, known = frame.show(Modality.FLOW, still, all_known, FlowHistory(HERE, ShutterPoses((now,))))
    assert known is not None and known.any() and not known[core].any(), (
        "nor has the flow of another place"
    )
    for mask, before in ((all_known, None), (None, FlowHistory(HERE, ShutterPoses((now,))))):
        _, known = frame.show(Modality.FLOW, still, mask, before)
        assert known is not None and not known.any()


# --- behind a camera ------------------------------------------------------------------------------

WIDE = CameraModel("wide", 160, 120, math.radians(110.0))
FLOOR = FittedPlane(1.5, np.array([0.0, 1.0, 0.0]))


@pytest.mark.parametrize(
    "turn_deg", [(0.0, 50.0, 0.0), (0.0, 70.0, 0.0), (0.0, 95.0, 0.0), (70.0, 10.0, 0.0)]
)
@pytest.mark.parametrize("method", ["rotation", "homography", "reproject"])
def test_a_wide_camera_that_turned_shows_nothing_from_behind(
    method: Method, turn_deg: tuple[float, float, float]
) -> None:
    """A fast flip.

    Pixels that look more than 90 degrees away from the rendered axis are black, not mirrored.
    """
    turned = Transform(np.array([0.01, 0.0, -0.02]), q_exp(np.radians(turn_deg)))
    geometry = ViewGeometry(WIDE)
    depth = np.full((120, 160), 40.0, np.float32)
    frame = Compensator(40.0).frame(geometry, HERE, ShutterPoses((turned,)), method, depth)
    shown, _ = frame.show(Modality.RGB, np.full((120, 160, 3), 255, np.uint8))
    direction = rays(WIDE) @ turned.rotation().T
    ahead = direction[..., 2] > 0.02
    px = direction[..., :2] / np.where(ahead, direction[..., 2], 1.0)[..., None] * WIDE.f_px + (
        79.5,
        59.5,
    )
    visible = ahead & np.all((px > -0.5) & (px < (159.5, 119.5)), axis=-1)
    assert 0.2 < visible.mean() < 0.7 and (direction[..., 2] < -0.02).any()
    assert (shown[eroded(visible, 5)] == 255).all()
    assert not shown[eroded(~visible, 13)].any()
    assert frame.valid_fraction == pytest.approx(visible.mean(), abs=0.02)
    z_m, _ = frame.show(Modality.DEPTH32, depth)
    assert (z_m[eroded(visible, 13)] < 99.0).all() and (z_m[eroded(~visible, 13)] == 100.0).all(), (
        "as the picture"
    )


@pytest.mark.parametrize("back_m", [0.0, 2.5, 6.0, 14.0])
def test_a_floor_is_seen_below_its_horizon_and_ahead_of_the_rendered_camera(back_m: float) -> None:
    """After the camera moved back, the nearest floor in its picture lies behind the rendered
    camera.
    """
    now = moved((0.1, 0.2, -back_m))
    ray = rays()
    below = ray[..., 1] > 0.01
    X = ray * ((1.5 - 0.2) / np.where(below, ray[..., 1], 1.0))[..., None] + now.p_m
    was = np.where(below[..., None], pixels_of(X), -1e9)
    visible = in_picture(was)
    found = found_by(FLOOR, now)
    shown = in_picture(np.stack((found.x_px, found.y_px), axis=-1))
    on, off = eroded(visible, 9), eroded(~visible, 9)
    assert on.sum() > 300 and off.sum() > 3000
    assert shown[on].all() and not shown[off].any()
    apart = np.hypot(found.x_px - was[..., 0], found.y_px - was[..., 1])
    assert np.percentile(apart[eroded(visible, 11)], 75) < 1.0, (
        "the floor bends between two nodes near its horizon"
    )
    frame = FrameWarp(SIGHT, HERE, ShutterPoses((now,)), "homography", FLOOR)
    white = frame.show(Modality.GRAY, np.full(SIZE, 255, np.uint8))[0] == 255
    assert white[on].all() and not white[off & below].any(), "as the map, without one"
    assert found.valid_fraction == pytest.approx(visible.mean(), abs=0.02)


def test_a_low_floor_behind_the_rendered_camera_is_not_shown_mirrored() -> None:
    """The camera moved back by 1.5 m, 15 cm above the floor.

    A mirrored point would lie in the rendered picture.
    """
    now = moved((0.0, 0.0, -1.5))
    found = found_by(FittedPlane(0.15, np.array([0.0, 1.0, 0.0])), now)
    shown = in_picture(np.stack((found.x_px, found.y_px), axis=-1))
    X = now.p_m + rays() * (0.15 / np.maximum(rays()[..., 1], 1e-3))[..., None]
    behind, ahead = (
        eroded(X[..., 2] < 0.0),
        eroded(in_picture(pixels_of(X)) & (rays()[..., 1] > 0.01)),
    )
    assert behind.sum() > 10_000 and not shown[behind].any()
    assert ahead.sum() > 1000 and shown[ahead].all()


@pytest.mark.parametrize("ahead_m", [2.0, 2.5])
def test_a_camera_in_or_behind_the_wall_sees_nothing_of_it(ahead_m: float) -> None:
    now = moved((0.0, 0.0, ahead_m))
    frame = FrameWarp(SIGHT, HERE, ShutterPoses((now,)), "homography", FittedPlane(2.0))
    assert frame.valid_fraction == 0.0
    assert not frame.show(Modality.GRAY, np.full(SIZE, 255, np.uint8))[0].any()
    assert found_by(FittedPlane(2.0), now).valid_fraction == 0.0
    assert frame.place(CX, CY, 2.0) is None
    assert frame.place(CX, CY, ahead_m + 0.1) == pytest.approx((CX, CY, 0.1))


@pytest.mark.parametrize("row_px", [-0.4, 60.0, HEIGHT_PX - 0.6])
@pytest.mark.parametrize("column_px", [-0.4, 80.0, WIDTH_PX - 0.6])
def test_a_beacon_is_in_the_picture_up_to_half_a_pixel_beyond_its_centres(
    column_px: float, row_px: float
) -> None:
    frame = FrameWarp(SIGHT, HERE, ShutterPoses((HERE,)), "rotation")
    assert frame.place(column_px, row_px, 3.0) == pytest.approx((column_px, row_px, 3.0))
    for outside in (
        (-0.6, row_px),
        (WIDTH_PX - 0.4, row_px),
        (column_px, -0.6),
        (column_px, HEIGHT_PX - 0.4),
    ):
        assert frame.place(*outside, 3.0) is None


@pytest.mark.parametrize(
    ("rendered_z_m", "delivered_z_m", "known"),
    [
        *((0.0, 0.0, True), (1.9, 0.0, True), (0.0, 1.9, True)),
        *((2.1, 0.0, False), (0.0, 2.1, False), (3.0, 0.0, False), (0.0, 3.0, False)),
    ],
)
@pytest.mark.parametrize("by", ["plane", "depth"])
def test_flow_of_a_point_behind_an_earlier_camera_is_unknown(
    by: str, rendered_z_m: float, delivered_z_m: float, known: bool
) -> None:
    """A wall at 2 m; the pictures before were drawn, or delivered, at those places on the axis."""
    # From r' at z the point on the ray x is at x 2 / (2 - z).
    offset = rays()[..., :2] * (FX, FY)
    flow = (offset - offset * 2.0 / (2.0 - rendered_z_m)).astype(np.float32)
    wall = np.full(SIZE, 2.0, np.float32)
    here = ShutterPoses((HERE,))
    frame = FrameWarp(
        SIGHT, HERE, here, "homography" if by == "plane" else "reproject", FittedPlane(2.0), wall
    )
    before = FlowHistory(
        moved((0.0, 0.0, rendered_z_m)), ShutterPoses((moved((0.0, 0.0, delivered_z_m)),))
    )
    mask = np.ones(SIZE, np.bool_)
    mask[:, :20] = False
    got, valid = frame.show(Modality.FLOW, flow, mask, before)
    assert valid is not None
    assert valid[:, 20:].all() if known else not valid.any()
    assert not valid[:, :20].any() and not got[~valid].any()
    expected = offset - offset * 2.0 / (2.0 - delivered_z_m)
    np.testing.assert_allclose(
        got[valid], expected[valid], atol=0.02 + 1e-5 * np.abs(expected).max()
    )


@pytest.mark.parametrize("scene", ["plane", "sky"])
def test_flow_without_a_depth_picture(scene: str) -> None:
    """On a slope, and of a sky so far away that only the cameras' turns count.

    The flow is known exactly.
    """
    normal = np.array([0.2, 0.3, 1.0]) / math.sqrt(1.13)
    drawn, now = moved((0.1, 0.05, 0.1), (0.0, 0.02, -0.01)), moved((0.05, 0.0, 0.1))
    delivered = moved((-0.1, 0.1, 0.05), (0.02, 0.01, 0.03))
    ray, here_px = rays(), pixels_of(rays())
    if scene == "plane":
        X_rendered = ray * (4.0 / (ray @ normal))[..., None]
        X_shown = now.p_m + ray * ((4.0 - now.p_m @ normal) / (ray @ normal))[..., None]
    else:
        X_rendered = X_shown = ray * 1e9
    flow = (here_px - pixels_of((X_rendered - drawn.p_m) @ drawn.rotation())).astype(np.float32)
    expected = here_px - pixels_of((X_shown - delivered.p_m) @ delivered.rotation())
    method: Method = "homography" if scene == "plane" else "rotation"
    frame = FrameWarp(
        SIGHT, HERE, ShutterPoses((now,)), method, FittedPlane(4.0, normal, fitted=True)
    )
    before = FlowHistory(drawn, ShutterPoses((delivered,)))
    got, valid = frame.show(Modality.FLOW, flow, np.ones(SIZE, np.bool_), before)
    assert valid is not None
    inner = np.s_[16:-16, 16:-16]
    assert valid[inner].all()
    np.testing.assert_allclose(got[inner], expected[inner], atol=0.1)
