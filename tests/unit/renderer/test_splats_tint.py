"""Light on actors between splats.

Tinted by the splats' colours, from below and from above, as bright as without.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.support.embedded import looking, prop
from tests.support.opengl import drawing
from tests.support.splat import Splat, write
from vil_bridge.core.types import CameraModel, FloatArray, Modality, View, WorldSnapshot
from vil_renderer.embedded.scene import Environment, Scene, SplatSet
from vil_renderer.embedded.splats import arranged, read_splats
from vil_renderer.embedded.splats.surroundings import CELLS, Surroundings, surroundings

GREY, RED, BLUE = (0.6, 0.6, 0.6), (0.9, 0.4, 0.4), (0.4, 0.4, 0.9)
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
GRID = np.arange(-3.0, 3.01, 0.25)

Colour = tuple[float, float, float]


def room(west: Colour, east: Colour, roof: Colour) -> list[Splat]:
    """A floor in two colours at z = 0, and a roof at z = 3."""
    flat = (0.2, 0.2, 0.005)
    floor = [Splat((x, y, 0.0), flat, west if x < 0.0 else east, 0.98) for x in GRID for y in GRID]
    return [*floor, *(Splat((x, y, 3.0), flat, roof, 0.98) for x in GRID for y in GRID)]


def found(folder: Path, splats: list[Splat], T: FloatArray | None = None) -> Surroundings:
    field = arranged(read_splats(write(folder / "a.ply", splats)))
    return surroundings(field, np.eye(4) if T is None else T)


def test_tints_are_those_of_the_nearest_splats_on_that_side(tmp_path: Path) -> None:
    tints = found(tmp_path, room(RED, BLUE, GREY))
    middle = CELLS[2] // 2
    west, east = tints.below[[1, -2], CELLS[1] // 2, middle]
    assert west[0] > 1.25 * west[2]
    assert east[2] > 1.25 * east[0]
    np.testing.assert_allclose(tints.above[:, :, :-1], 1.0, atol=1e-6)
    np.testing.assert_allclose(tints.below @ LUMINANCE, 1.0, atol=1e-6)


def test_no_tint_is_stronger_than_its_bound(tmp_path: Path) -> None:
    tints = found(tmp_path, room((1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0)))
    assert np.isfinite(tints.below).all()
    assert tints.below.min() > 0.2
    assert tints.below.max() < 4.0
    np.testing.assert_array_equal(tints.above, 1.0)  # what is black has no colour


def test_the_grid_lies_where_the_scan_does(tmp_path: Path) -> None:
    T = np.diag((2.0, 2.0, 2.0, 1.0))
    T[:3, 3] = (10.0, 20.0, -1.0)
    tints = found(tmp_path, room(RED, BLUE, GREY), T)
    np.testing.assert_allclose(tints.low_m, (4.0, 14.0, -1.0), atol=0.5)
    np.testing.assert_allclose(tints.size_m, (12.0, 12.0, 6.0), atol=1.0)


@pytest.mark.gl
@pytest.mark.parametrize("profile", ["low", "high"])
def test_a_crate_takes_the_colour_of_the_floor(tmp_path: Path, profile: str) -> None:
    """Its sides are lit from below by half; a grey room leaves it as it is without splats."""
    pytest.importorskip("numba", reason="numba (extra splat) is not installed")
    light = Environment(np.full(3, 0.6), np.full(3, 0.6))
    crates = [prop(f"c{x:+.0f}", (x, 0.0, 1.0), (0.5, 0.5, 0.5)) for x in (-2.0, 2.0)]
    camera = CameraModel("c", 64, 64, math.radians(20.0))
    means = {}
    for name, splats in {
        "tinted": room(RED, BLUE, GREY),
        "grey": room(GREY, GREY, GREY),
        "none": [],
    }.items():
        path = write(tmp_path / f"{name}.ply", splats or room(GREY, GREY, GREY))
        scene = Scene("s", (), light, splats=SplatSet(path, np.eye(4), ()) if splats else None)
        views = [
            View(camera, m, looking((x, -1.5, 1.0), 90.0), 0)
            for x in (-2.0, 2.0)
            for m in (Modality.RGB, Modality.INSTANCE)
        ]
        with drawing(scene, profile) as drawer:
            west, west_ids, east, east_ids = (
                i.pixels for i in drawer.render(views, WorldSnapshot(0, tuple(crates)))
            )
        means[name] = np.array([west[west_ids > 0].mean(axis=0), east[east_ids > 0].mean(axis=0)])
    np.testing.assert_allclose(means["grey"], means["none"], atol=1.0)
    west, east = means["tinted"] / means["none"]
    assert west[0] > 1.05 * west[2]
    assert east[2] > 1.05 * east[0]
    assert (means["tinted"] @ LUMINANCE) / (means["none"] @ LUMINANCE) == pytest.approx(
        [1.0, 1.0], abs=0.05
    )
