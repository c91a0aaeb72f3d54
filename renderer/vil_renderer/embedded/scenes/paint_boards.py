"""Calibration boards that detectors find: AprilTag 36h11, ArUco, chessboard, Kalibr's Aprilgrid.

Every board fills a square picture of 1024 pixels; on a board of side S metres a pixel is S / 1024.
Sizes, ids and places in the shipped scenes are in docs/guides/scenes.md.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.scenes.paint import SIZE_PX, Canvas, Colour, Surface

_PAPER: Final[Colour] = (236, 234, 228)
_INK: Final[Colour] = (22, 22, 24)
_ROWS: Final = 4
_GAP: Final = 2
"""Cells between two markers."""
_MARKER_PX: Final = 24
"""Side of a cell: a marker has 8 cells, 192 px."""
_GRID_BORDER: Final = 2
"""Black cells around the code of Kalibr's tags; other AprilTags have one."""
_GRID_GAP: Final = 3
"""Kalibr's tagSpacing 0.3 of 10 cells."""
_GRID_PX: Final = 16
_SQUARES: Final = (6, 7)
_SQUARE_PX: Final = 128
_APRILTAG: Final = cv2.aruco.DICT_APRILTAG_36H11
_ARUCO: Final = cv2.aruco.DICT_6X6_250
_FIRST_TAG: Final = 100
"""Tags of the Aprilgrid begin with 0."""

_Cells = npt.NDArray[np.bool_]


def _marker(family: int, number: int, border: int = 1) -> _Cells:
    """Return the black cells of a marker, shape (n, n), top row first, upright as its inventors
    print it.
    """
    dictionary = cv2.aruco.getPredefinedDictionary(family)
    side = dictionary.markerSize + 2 * border
    cells = cv2.aruco.generateImageMarker(dictionary, number, side, borderBits=border) == 0
    # OpenCV prints AprilTags upside down.
    return np.rot90(cells, 2) if family == _APRILTAG else cells


def _markers(rng: np.random.Generator, family: int, first: int) -> Canvas:
    """Paint 4 x 4 markers, numbered row by row from the top left."""
    side = 8 + _GAP
    cells = np.zeros((_ROWS * side - _GAP,) * 2, np.bool_)
    for k in range(_ROWS**2):
        y, x = (side * i for i in divmod(k, _ROWS))
        cells[y : y + 8, x : x + 8] = _marker(family, first + k)
    return _printed(rng, cells, _MARKER_PX)


def _aprilgrid(rng: np.random.Generator) -> Canvas:
    """Paint Kalibr's grid of 4 x 4 tags, numbered row by row from the bottom left, a square at
    every corner.
    """
    side = 10 + _GRID_GAP
    cells = np.zeros((_ROWS * side + _GRID_GAP,) * 2, np.bool_)
    for y in range(0, len(cells), side):
        for x in range(0, len(cells), side):
            cells[y : y + _GRID_GAP, x : x + _GRID_GAP] = True
    for k in range(_ROWS**2):
        row, column = divmod(k, _ROWS)
        y = _GRID_GAP + side * (_ROWS - 1 - row)
        x = _GRID_GAP + side * column
        cells[y : y + 10, x : x + 10] = _marker(_APRILTAG, k, _GRID_BORDER)
    return _printed(rng, cells, _GRID_PX)


def _chessboard(rng: np.random.Generator) -> Canvas:
    """Paint 7 x 6 squares: 6 x 5 corners inside, so that a turned board does not look the same."""
    return _printed(rng, np.indices(_SQUARES).sum(axis=0) % 2 == 0, _SQUARE_PX)


def _printed(rng: np.random.Generator, cells: _Cells, cell_px: int) -> Canvas:
    """Paint cells in the middle of a sheet of paper."""
    canvas = Canvas(rng, _PAPER, 0.02)
    ink = np.kron(cells, np.ones((cell_px, cell_px), np.bool_))
    y, x = ((SIZE_PX - n) // 2 for n in ink.shape)
    canvas.colour[y : y + ink.shape[0], x : x + ink.shape[1]][ink] = _INK
    return canvas


BOARDS: Final[dict[str, Surface]] = {
    "aprilgrid": Surface(_aprilgrid),
    "aruco": Surface(partial(_markers, family=_ARUCO, first=0)),
    "checkers": Surface(_chessboard),
    "tags": Surface(partial(_markers, family=_APRILTAG, first=_FIRST_TAG)),
    **{
        f"tags_{first}": Surface(partial(_markers, family=_APRILTAG, first=first))
        for first in range(_FIRST_TAG + _ROWS**2, _FIRST_TAG + 4 * _ROWS**2, _ROWS**2)
    },
}
