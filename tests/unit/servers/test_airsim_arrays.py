"""Large answers as arrays: runs of a voxel grid, boxes of what is seen, numbers on the wire."""

from __future__ import annotations

from itertools import groupby

import msgpack
import numpy as np
import pytest

from vil_simulation.airsim.detection_methods import _boxes
from vil_simulation.airsim.geometry_methods import _binvox
from vil_simulation.airsim.pictures import packed_floats, packed_ids, packed_indices
from vil_simulation.airsim.values import Box2D, Vector2r


@pytest.mark.parametrize("share", [0.0, 0.002, 0.5, 1.0])
def test_runs_of_a_grid_are_those_of_its_cells(share: float) -> None:
    grid = np.random.default_rng(3).random((9, 40, 11)) < share
    runs = []
    for value, run in groupby(grid.transpose(0, 2, 1).reshape(-1).tolist()):
        left = len(list(run))
        while left:
            runs += [value, min(left, 255)]
            left -= min(left, 255)
    header = "#binvox 1\ndim 40 11 9\ntranslate -20 -4.5 -5.5\nscale 20\ndata\n"
    assert _binvox(grid, 0.5) == header.encode() + bytes(runs)


def test_boxes_are_those_of_the_pixels() -> None:
    picture = np.zeros((6, 9), np.uint16)
    picture[1:4, 2:8] = 7
    picture[2, 3] = 900
    assert _boxes(picture) == {
        0: Box2D(Vector2r(0.0, 0.0), Vector2r(9.0, 6.0)),
        7: Box2D(Vector2r(2.0, 1.0), Vector2r(8.0, 4.0)),
        900: Box2D(Vector2r(3.0, 2.0), Vector2r(4.0, 3.0)),
    }


def test_numbers_are_arrays_on_the_wire() -> None:
    assert msgpack.unpackb(bytes(packed_floats(np.array([[1.5, -2.0], [0.0, 4.0]])))) == [
        1.5,
        -2.0,
        0.0,
        4.0,
    ]
    assert msgpack.unpackb(bytes(packed_indices(np.array([0, 1 << 31], np.uint32)))) == [0, 1 << 31]
    assert msgpack.unpackb(bytes(packed_ids(np.array([-1, 255], np.int16)))) == [-1, 255]
