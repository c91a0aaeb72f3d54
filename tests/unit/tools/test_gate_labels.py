"""Labels of race gates in pictures.

Corners, boxes, visibility, and the pose that they give back.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Final

import cv2
import numpy as np
import pytest

from tests.support.render import NOBODY, Renderers, shot
from tests.support.scenefile import read
from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform, q_from_euler_zyx
from vil_bridge.core.types import BoolArray, FloatArray, Modality
from vil_renderer.embedded import RayWorld
from vil_renderer.embedded.scene import Scene
from vil_simulation.dataset.gate_labels import GateLabel, gate_labels

SIZE_PX: Final = (640, 480)
PINHOLE: Final = (320.0, 320.0, 319.5, 239.5)
LENSES: Final = [
    None,
    Distortion(LensModel.PLUMB_BOB, (-0.256203, 0.072409, -0.000143, -0.000188, -0.009309)),
    Distortion(LensModel.EQUIDISTANT, (0.02, -0.01, 0.003, -0.001)),
]
GOLDEN: Final = (
    "0 0.431569 0.464383 0.184969 0.267131 0.339085 0.330817 2 0.524054 0.351208 2 "
    "0.524054 0.586142 2 "
    "0.339085 0.597948 2"
)
EYE: Final = Transform.of((0.0, 0.0, 1.5), (0.0, 0.0, 0.0, 1.0)) @ T_FLU_OPTICAL
COURSE: Final = """
course: one
start: {p_m: [0, 0, 1.5], yaw_deg: 0}
gates: [{name: Gate1, p_m: [4, 0.5, 1.7], yaw_deg: 20, width_m: 1.5, height_m: 1.5}]
"""


def camera(lens: Distortion | None = None) -> CameraModel:
    return CameraModel("front", *SIZE_PX, 1.0, PINHOLE, lens)


def course_scene(folder: Path, objects: str = "[]") -> Scene:
    """The golden gate, with its frame and beacons."""
    (folder / "one.yaml").write_text(COURSE)
    return read(folder, f"scene: one\ncourse: one.yaml\nobjects: {objects}\n")


def labels(scene: Scene, eye: Transform = EYE, lens: Distortion | None = None) -> list[GateLabel]:
    return gate_labels(scene.gates, camera(lens), eye, RayWorld(scene))


def at_gate(
    scene: Scene, x_m: float, y_m: float = 0.0, z_m: float = 0.0, yaw_deg: float = 0.0
) -> Transform:
    """Optical axes of a camera placed in the gate's axes."""
    own = Transform.of((x_m, y_m, z_m), q_from_euler_zyx(math.radians(yaw_deg), 0.0, 0.0))
    return scene.gates[0].T_world_gate @ own @ T_FLU_OPTICAL


def numbers(line: str) -> list[float]:
    return [float(word) for word in line.split()]


def test_the_line_of_the_golden_gate(tmp_path: Path) -> None:
    (label,) = labels(course_scene(tmp_path))
    assert numbers(label.line(*SIZE_PX)) == pytest.approx(numbers(GOLDEN), abs=1e-6)
    corners = [
        [217.0141, 158.7922],
        [335.3943, 168.5801],
        [335.3943, 281.3484],
        [217.0141, 287.0150],
    ]
    assert label.corners_px == pytest.approx(np.array(corners), abs=1e-4)


def test_from_behind_the_corners_swap_sides(tmp_path: Path) -> None:
    """The gate's own frame and beacons, which stand before its corners there, hide nothing."""
    scene = course_scene(tmp_path)
    (front,), (back,) = (
        labels(scene, at_gate(scene, -4.0)),
        labels(scene, at_gate(scene, 4.0, yaw_deg=180.0)),
    )
    assert back.corners_px == pytest.approx(front.corners_px[[1, 0, 3, 2]], abs=1e-9)
    assert (
        back.corners_px[0, 0] > back.corners_px[1, 0]
        and back.corners_px[0, 1] < back.corners_px[3, 1]
    )
    assert front.visibility == back.visibility == (2, 2, 2, 2)


@pytest.mark.parametrize(
    ("angle_deg", "count"), [(80.0, 1), (84.0, 1), (86.0, 0), (90.0, 0), (94.0, 0), (96.0, 1)]
)
def test_a_gate_seen_edge_on_is_left_out(tmp_path: Path, angle_deg: float, count: int) -> None:
    scene = course_scene(tmp_path)
    angle = math.radians(angle_deg)
    place = -1.8 * math.cos(angle), -1.8 * math.sin(angle)
    assert len(labels(scene, at_gate(scene, *place, yaw_deg=angle_deg))) == count


def test_half_outside_the_box_ends_at_the_border_and_the_corners_outside_are_zero(
    tmp_path: Path,
) -> None:
    scene = course_scene(tmp_path)
    (label,) = labels(scene, at_gate(scene, -3.0, yaw_deg=-45.0))
    assert label.visibility == (0, 2, 2, 0)
    assert label.box_px[0] == 0.0 and label.corners_px[[0, 3]].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert label.box_px[0] + label.box_px[2] == pytest.approx(label.corners_px[1, 0])
    assert label.line(*SIZE_PX).split()[5:8] == ["0", "0", "0"]


def test_a_gate_partly_behind_the_camera_is_cut_at_the_picture(tmp_path: Path) -> None:
    scene = course_scene(tmp_path)
    (label,) = labels(scene, at_gate(scene, -0.3, yaw_deg=-75.0))
    left, top, width, height = label.box_px
    edge_px = 320.0 - 320.0 * math.tan(math.radians(75.0) - math.atan2(0.75, 0.3))
    assert (left, top, height) == (0.0, 0.0, 480.0) and width == pytest.approx(edge_px)
    assert label.visibility == (0, 0, 0, 0)


def test_an_opening_around_the_picture_small_gates_and_those_behind_have_no_label(
    tmp_path: Path,
) -> None:
    scene = course_scene(tmp_path)
    assert labels(scene, at_gate(scene, -0.2)) == [], "no edge is in the picture"
    assert labels(scene, at_gate(scene, -4.0, yaw_deg=180.0)) == []
    # 1.5 m at d covers (320 * 1.5 / d)^2 of 640 * 480 pixels: 0.2 % at 19.36 m.
    assert (
        len(labels(scene, at_gate(scene, -19.3))) == 1
        and labels(scene, at_gate(scene, -19.4)) == []
    )


@pytest.mark.parametrize(
    ("y_m", "width_m", "expected"),
    [(0.4, 0.3, (1, 2, 2, 1)), (-0.4, 0.3, (2, 1, 1, 2)), (0.0, 5.0, None)],
)
def test_what_stands_before_a_corner_occludes_it(
    tmp_path: Path, y_m: float, width_m: float, expected: tuple[int, ...] | None
) -> None:
    """A post half way; a wall leaves no label."""
    scene = course_scene(tmp_path)
    place = (scene.gates[0].T_world_gate.apply(np.array([-2.0, y_m, -1.7]))).tolist()
    post = f"[{{name: post, box: {{size_m: [0.1, {width_m}, 4]}}, p_m: {place}, yaw_deg: 20}}]"
    whole, found = (
        labels(scene, at_gate(scene, -4.0)),
        labels(course_scene(tmp_path, post), at_gate(scene, -4.0)),
    )
    assert [label.visibility for label in found] == ([] if expected is None else [expected])
    for label in found:
        assert label.box_px == whole[0].box_px and np.array_equal(
            label.corners_px, whole[0].corners_px
        )


def undistorted(points_px: FloatArray, lens: Distortion | None) -> FloatArray:
    """Normalised coordinates by OpenCV; pixel centres are whole numbers."""
    points = points_px.reshape(-1, 1, 2)
    K = camera().K
    if lens is not None and lens.model is LensModel.EQUIDISTANT:
        return np.asarray(
            cv2.fisheye.undistortPoints(points, K, np.array(lens.coefficients)), np.float64
        ).reshape(-1, 2)
    coefficients = np.zeros(5) if lens is None else np.array(lens.coefficients)
    return np.asarray(cv2.undistortPoints(points, K, coefficients), np.float64).reshape(-1, 2)


@pytest.mark.parametrize("lens", LENSES, ids=["ideal", "plumb_bob", "equidistant"])
@pytest.mark.parametrize("place", [(-5.0, 0.6, 0.3), (-4.5, -1.8, -0.4)])
def test_the_pose_of_a_gate_comes_back_from_its_line(
    tmp_path: Path, lens: Distortion | None, place: tuple[float, float, float]
) -> None:
    """IPPE, from the text alone: within 1 cm and 0.5 degrees at 5 m."""
    scene = course_scene(tmp_path)
    eye = at_gate(scene, *place, yaw_deg=12.0)
    (label,) = labels(scene, eye, lens)
    words = np.array(numbers(label.line(*SIZE_PX)))[5:].reshape(4, 3)
    assert (words[:, 2] == 2).all()
    xy = undistorted(words[:, :2] * SIZE_PX - 0.5, lens)
    right_down = np.array(
        [[-0.75, -0.75, 0.0], [0.75, -0.75, 0.0], [0.75, 0.75, 0.0], [-0.75, 0.75, 0.0]]
    )
    found, turn, p_m = cv2.solvePnP(right_down, xy, np.eye(3), np.zeros(4), flags=cv2.SOLVEPNP_IPPE)
    expected = eye.inverse() @ scene.gates[0].T_world_gate
    assert found and np.linalg.norm(p_m[:, 0] - expected.p_m) < 0.01
    # Right, down, ahead in the gate's axes.
    axes = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    between = cv2.Rodrigues(turn)[0].T @ expected.rotation() @ axes
    assert math.degrees(np.linalg.norm(cv2.Rodrigues(between)[0])) < 0.5


def shown_px(xy: FloatArray, lens: Distortion | None) -> FloatArray:
    """Pixels of normalised coordinates by OpenCV."""
    points, still = np.column_stack((xy, np.ones(len(xy)))).reshape(-1, 1, 3), np.zeros(3)
    if lens is not None and lens.model is LensModel.EQUIDISTANT:
        seen = cv2.fisheye.projectPoints(
            points, still, still, camera().K, np.array(lens.coefficients)
        )[0]
    else:
        coefficients = np.zeros(5) if lens is None else np.array(lens.coefficients)
        seen = cv2.projectPoints(points, still, still, camera().K, coefficients)[0]
    return np.asarray(seen, np.float64).reshape(-1, 2)


def drawn_corners(
    front: BoolArray, inner_px: tuple[int, int], lens: Distortion | None
) -> FloatArray:
    """Corners of the inner edge of a front face, in the labels' order.

    They are where straight lines meet, through the middle of each side: beacons stand in the
    corners.
    """
    u0, v0 = inner_px
    half = 30
    across, along = range(v0 - half, v0 + half), range(u0 - half, u0 + half)
    left = [(np.flatnonzero(front[v, :u0])[-1] + 0.5, v) for v in across]
    right = [(u0 + np.flatnonzero(front[v, u0:])[0] - 0.5, v) for v in across]
    top = [(u, np.flatnonzero(front[:v0, u])[-1] + 0.5) for u in along]
    bottom = [(u, v0 + np.flatnonzero(front[v0:, u])[0] - 0.5) for u in along]
    lines = []
    for points in (left, top, right, bottom):
        xy = undistorted(np.array(points, np.float64), lens)
        middle = xy.mean(axis=0)
        normal = np.linalg.svd(xy - middle)[2][1]
        lines.append((*normal, -normal @ middle))
    met = [np.cross(lines[k], lines[(k + 1) % 4]) for k in range(4)]
    return shown_px(np.array([m[:2] / m[2] for m in met]), lens) + 0.5


def flush_bars() -> str:
    """Four bars whose front is in the plane of the golden gate."""
    place = Transform.of((4.0, 0.5, 1.7), q_from_euler_zyx(math.radians(20.0), 0.0, 0.0))
    bars = []
    for side in (1.0, -1.0):
        bars += [
            ((0.005, side * 0.9, -1.05), (0.01, 0.3, 2.1)),
            ((0.005, 0.0, side * 0.9 - 0.15), (0.01, 1.5, 0.3)),
        ]
    written = [
        f"{{name: bar{k}, box: {{size_m: {list(size_m)}}}, p_m: "
        f"{place.apply(np.array(base_m)).tolist()}, yaw_deg: 20}}"
        for k, (base_m, size_m) in enumerate(bars)
    ]
    return f"[{', '.join(written)}]"


@pytest.mark.gl
@pytest.mark.parametrize("lens", LENSES, ids=["ideal", "plumb_bob", "equidistant"])
@pytest.mark.parametrize(("flush", "distance_m"), [(True, 4.0), (False, 5.0)])
def test_corners_are_where_the_picture_shows_them(
    tmp_path: Path, lens: Distortion | None, flush: bool, distance_m: float
) -> None:
    """The front of the frame of a course's gate stands 6.5 cm behind its plane."""
    if flush:
        gate = "{name: Gate1, p_m: [4, 0.5, 1.7], yaw_deg: 20, width_m: 1.5, height_m: 1.5}"
        scene = read(tmp_path, f"scene: flush\ngates: [{gate}]\nobjects: {flush_bars()}\n")
    else:
        scene = course_scene(tmp_path)
    # Edges cross pixel rows.
    roll = Transform.of((0.0, 0.0, 0.0), q_from_euler_zyx(math.radians(7.0), 0.0, 0.0))
    eye = at_gate(scene, -distance_m, 0.1, 0.1, yaw_deg=9.0) @ roll
    behind = Transform.of((0.0 if flush else 0.065, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    front = replace(scene.gates[0], T_world_gate=scene.gates[0].T_world_gate @ behind)
    (label,) = labels(replace(scene, gates=(front,)), eye, lens)
    renderers = Renderers()
    try:
        normals = shot(renderers.of(scene), camera(lens), Modality.NORMALS, eye, NOBODY)
    finally:
        renderers.close()
    forward = (eye.inverse() @ scene.gates[0].T_world_gate).rotation()[:, 0]
    middle_px = np.rint(label.corners_px.mean(axis=0)).astype(int).tolist()
    drawn = drawn_corners(normals @ -forward > 0.9, (middle_px[0], middle_px[1]), lens)
    off_px = np.linalg.norm(label.corners_px - drawn, axis=1)
    assert off_px.max() <= 1.0, off_px
