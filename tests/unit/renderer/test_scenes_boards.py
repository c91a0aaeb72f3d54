"""The boards of the shipped scenes, found by detectors at the places and sizes that
docs/guides/scenes.md gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import yaml

from tests.support.apriltag_room import detect
from tests.support.common import ROOT
from tests.support.embedded import NOBODY, looking, renderer
from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.types import CameraModel, FloatArray, ImageArray, Modality, View

pytestmark = pytest.mark.gl

NEAR_PX = 0.5
WIDE = CameraModel("wide", 1280, 960, math.radians(50.0))
TARGETS = ROOT / "configs" / "targets"


@dataclass(frozen=True)
class Board:
    """A board's printed face: its centre, the way it looks, its side.

    As the documentation has it.
    """

    p_m: tuple[float, float, float]
    yaw_rad: float
    side_m: float

    def view(self, away_m: float, turned_deg: float = 12.0) -> View:
        """Look at the centre from in front of it and a little from one side."""
        yaw = self.yaw_rad + math.radians(turned_deg)
        x, y, z = np.array(self.p_m) + away_m * np.array([math.cos(yaw), math.sin(yaw), 0.15])
        return View(
            WIDE,
            Modality.GRAY,
            looking((x, y, z), math.degrees(yaw) + 180.0, math.degrees(0.15)),
            0,
        )

    def world_m(self, right_up: npt.ArrayLike) -> FloatArray:
        """Points of the face, metres from its centre to the reader's right and up, shape (n, 2),
        in the world.
        """
        across = yaw_matrix(self.yaw_rad) @ np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        return np.asarray(np.array(self.p_m) + np.asarray(right_up) @ across.T, np.float64)


_NORTH = 0.5 * math.pi
_TARGET_AT = np.array([2.8, -1.3, 0.83]) + 0.015 * np.array([math.cos(2.7), math.sin(2.7), 0.0])
APRILGRID = Board((_TARGET_AT[0], _TARGET_AT[1], _TARGET_AT[2]), 2.7, 0.96)
TAGS = Board((3.0, -2.95, 1.6), _NORTH, 0.8)
ARUCO = Board((-2.7, 2.95, 1.9), -_NORTH, 0.8)
SIGN = Board((-2.0, 16.95, 2.2), -_NORTH, 1.6)
CHECKERS = Board((1.2, 2.95, 1.9), -_NORTH, 0.8)


def drawn(scene: str, view: View) -> ImageArray:
    return renderer(scene).render((view,), NOBODY)[0].pixels


def projected(view: View, world_m: FloatArray) -> FloatArray:
    """Pixels of points of the world, centres of pixels at integers."""
    p = (world_m - view.T_world_camera.p_m) @ view.T_world_camera.rotation()
    camera = view.camera
    focal_px = 0.5 * camera.height_px / math.tan(0.5 * camera.fov_y_rad)
    middle = 0.5 * np.array([camera.width_px - 1, camera.height_px - 1])
    return np.asarray(focal_px * p[:, :2] / p[:, 2:] + middle, np.float64)


def found(picture: ImageArray, family: int, border: int = 1) -> dict[int, FloatArray]:
    """Corners (4, 2) by id, OpenCV's order."""
    how = cv2.aruco.DetectorParameters()
    how.markerBorderBits = border
    detector = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(family), how)
    corners, ids, _ = detector.detectMarkers(np.ascontiguousarray(picture))
    numbers = [] if ids is None else [int(n) for n in ids.ravel()]
    return {
        number: refined(picture, each[0]) for number, each in zip(numbers, corners, strict=True)
    }


def refined(picture: ImageArray, corners: Any) -> FloatArray:
    """The saddle or corner nearest to each, pixels, shape (n, 2)."""
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 100, 1e-3)
    seen = cv2.cornerSubPix(
        np.ascontiguousarray(picture),
        np.array(corners, np.float32).reshape(-1, 1, 2),
        (4, 4),
        (-1, -1),
        stop,
    )
    return np.asarray(seen, np.float64).reshape(-1, 2)


def square(left: float, top: float, side: float) -> FloatArray:
    """Corners of an upright square from its top left clockwise, to the right and up."""
    return np.array(
        [(left, top), (left + side, top), (left + side, top - side), (left, top - side)]
    )


def rows_of(board: Board, first: int) -> dict[int, FloatArray]:
    """World corners of 4 x 4 markers of 0.1875 S, 0.234375 S apart, row by row from the top
    left.
    """
    marker, pitch = 0.1875 * board.side_m, 0.234375 * board.side_m
    edge = -0.5 * (3 * pitch + marker)
    return {
        first + k: board.world_m(square(edge + (k % 4) * pitch, -edge - (k // 4) * pitch, marker))
        for k in range(16)
    }


def errors_px(
    view: View, seen: dict[int, FloatArray], corners_m: dict[int, FloatArray], first: int
) -> FloatArray:
    """Distances of all corners; ``first``: which corner of a marker the detector names first."""
    return np.concatenate(
        [
            np.linalg.norm(
                np.roll(seen[number], first, axis=0) - projected(view, corners_m[number]), axis=1
            )
            for number in corners_m
        ]
    )


def test_opencv_finds_the_aruco_board() -> None:
    view = ARUCO.view(1.6)
    seen, expected = found(drawn("lab", view), cv2.aruco.DICT_6X6_250), rows_of(ARUCO, 0)
    assert seen.keys() == expected.keys()
    assert errors_px(view, seen, expected, 0).max() < NEAR_PX


@pytest.mark.process
@pytest.mark.parametrize("turned_deg", [-12.0, 0.0, 12.0])
@pytest.mark.parametrize(("scene", "board"), [("lab", TAGS), ("yard", SIGN)])
def test_two_detectors_find_the_apriltags(
    scene: str, board: Board, turned_deg: float, tmp_path: Path
) -> None:
    pytest.importorskip("pupil_apriltags")
    view, expected = board.view(2.0 * board.side_m, turned_deg), rows_of(board, 100)
    picture = drawn(scene, view)
    seen = found(picture, cv2.aruco.DICT_APRILTAG_36H11)
    assert seen.keys() == expected.keys()
    # OpenCV's picture of an AprilTag is upside down: it names the bottom right corner first.
    assert errors_px(view, seen, expected, 2).max() < NEAR_PX
    (by_reference,) = detect([picture], tmp_path)
    assert by_reference.keys() == expected.keys()
    # Bottom left first, counter-clockwise.
    turned = {number: corners[::-1] for number, corners in by_reference.items()}
    assert errors_px(view, turned, expected, 0).max() < NEAR_PX


def test_the_aprilgrid_is_kalibrs() -> None:
    target = yaml.safe_load((TARGETS / "lab_aprilgrid.yaml").read_text())
    assert target["target_type"] == "aprilgrid"
    side, pitch = target["tagSize"], target["tagSize"] * (1 + target["tagSpacing"])
    columns, rows = target["tagCols"], target["tagRows"]
    edge = -0.5 * (3 * pitch + side)
    expected = {
        k: APRILGRID.world_m(
            square(edge + (k % columns) * pitch, edge + (k // columns) * pitch + side, side)
        )
        for k in range(columns * rows)
    }
    view = APRILGRID.view(1.6)
    picture = drawn("lab", view)
    seen = found(picture, cv2.aruco.DICT_APRILTAG_36H11, border=2)
    assert seen.keys() == expected.keys()
    assert errors_px(view, seen, expected, 2).max() < NEAR_PX
    gap = pitch - side
    corners = [
        (edge - gap / 2 + x * pitch, edge - gap / 2 + y * pitch) for x in range(5) for y in range(5)
    ]
    middles = np.rint(projected(view, APRILGRID.world_m(corners))).astype(int)
    between = [
        (edge + side + gap / 2 + x * pitch, edge + side / 2 + y * pitch)
        for x in range(3)
        for y in range(4)
    ]
    paper = np.rint(projected(view, APRILGRID.world_m(between))).astype(int)
    ink = picture[middles[:, 1], middles[:, 0]]
    assert ink.max() < 0.5 * picture[paper[:, 1], paper[:, 0]].min(), (
        "a black square at every corner of the tags"
    )


def test_opencv_finds_the_chessboard() -> None:
    target = yaml.safe_load((TARGETS / "lab_chessboard.yaml").read_text())
    assert (
        target["target_type"] == "checkerboard"
        and target["rowSpacingMeters"] == target["colSpacingMeters"]
    )
    size, step = (target["targetCols"], target["targetRows"]), target["colSpacingMeters"]
    view = CHECKERS.view(1.6)
    picture = np.ascontiguousarray(drawn("lab", view))
    ok, corners = cv2.findChessboardCorners(picture, size)
    assert ok
    seen = refined(picture, corners)
    grid = np.array(
        [
            (x - (size[0] - 1) / 2, (size[1] - 1) / 2 - y)
            for y in range(size[1])
            for x in range(size[0])
        ]
    )
    expected = projected(view, CHECKERS.world_m(step * grid))
    distance = min(np.linalg.norm(seen[::way] - expected, axis=1).max() for way in (1, -1))
    assert distance < NEAR_PX


def test_no_two_boards_of_the_course_have_a_tag_in_common() -> None:
    posters = [o for o in renderer("course").scene.objects if o.name.startswith("Poster")]
    shown = [
        part.material.name for o in posters for node in o.asset.nodes for part in node.primitives
    ]
    tags = [name for name in shown if name.startswith("tags")]
    assert sorted(tags) == ["tags", "tags_116", "tags_132", "tags_148"]
