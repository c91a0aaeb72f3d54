"""Shapes against closed forms: volume, area, where their textures lie."""

from __future__ import annotations

import math

import numpy as np
import pytest
import trimesh

from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing
from vil_renderer.embedded.scenes.shapes import (
    STANDING,
    MeshBuilder,
    box,
    extrude,
    join,
    lathe,
    panel,
    terrain,
    tube,
)


def closed(mesh: MeshBuilder) -> trimesh.Trimesh:
    """The same surface with its vertices merged, as a solid."""
    return trimesh.Trimesh(mesh.p_m.round(9), mesh.triangles, process=False).process(
        merge_norm=True, merge_tex=True
    )


def test_a_box_is_a_solid_of_its_size_that_stands_on_its_base() -> None:
    solid = closed(box((1.3, 0.7, 2.1), cell_m=0.5))
    assert solid.is_watertight and solid.volume == pytest.approx(1.3 * 0.7 * 2.1)
    assert np.allclose(solid.bounds, [[-0.65, -0.35, 0.0], [0.65, 0.35, 2.1]])
    assert closed(box((1.0, 1.0, 1.0), faces=STANDING)).area == pytest.approx(5.0)


def test_a_panel_shows_the_texture_upright_and_is_cut_into_cells() -> None:
    sheet = panel((1.0, 2.0, 0.0), (2.0, 0.0, 0.0), (0.0, 0.0, 1.2), cell_m=0.5)
    assert len(sheet.triangles) == 2 * 4 * 3
    assert np.allclose(sheet.normal, (0.0, -1.0, 0.0))
    uv = {
        tuple(p): tuple(uv)
        for p, uv in zip(sheet.p_m.round(6).tolist(), sheet.uv.round(6).tolist(), strict=True)
    }
    assert uv[(1.0, 2.0, 1.2)] == (0.0, 0.0), "the picture's first row is on top"
    assert uv[(3.0, 2.0, 0.0)] == (1.0, 1.0)
    metres = panel((0.0, 0.0, 0.0), (2.0, 0.0, 0.0), (0.0, 0.0, 1.0), uv=4.0)
    assert np.ptp(metres.uv, axis=0) == pytest.approx((0.5, 0.25))


def test_a_turned_profile_is_a_cylinder_or_a_cone() -> None:
    sides, area = 16, 0.5 * 16 * math.sin(2 * math.pi / 16)  # of the polygon of radius 1
    drum = closed(lathe([(0.0, 0.0), (0.5, 0.0), (0.5, 2.0), (0.0, 2.0)], sides))
    assert drum.is_watertight and drum.volume == pytest.approx(0.25 * area * 2.0)
    tip = lathe([(0.0, 0.0), (0.3, 0.0), (0.0, 0.9)], sides)
    assert closed(tip).is_watertight and closed(tip).volume == pytest.approx(
        0.09 * area * 0.9 / 3.0
    )
    ball = [(math.cos(a), math.sin(a)) for a in np.linspace(-0.5 * math.pi, 0.5 * math.pi, 13)]
    smooth = lathe([(abs(r) if abs(r) > 1e-9 else 0.0, z) for r, z in ball], 24, smooth=True)
    inner = np.abs(smooth.p_m[:, 2]) < 0.9
    assert np.abs(smooth.normal - smooth.p_m)[inner].max() < 1e-9


def test_an_extruded_profile_is_a_prism() -> None:
    wedge = closed(extrude([(0.5, 0.0), (0.0, 0.8), (-0.5, 0.0)], 3.0))
    assert wedge.is_watertight and wedge.volume == pytest.approx(0.5 * 1.0 * 0.8 * 3.0)


@pytest.mark.parametrize("end", [(2.0, 0.0, 0.0), (0.0, 0.0, 2.0), (0.5, 1.0, -0.7)])
def test_a_tube_keeps_its_radius_around_its_path(end: tuple[float, float, float]) -> None:
    bar = tube([(0.0, 0.0, 0.0), end], 0.1, 8)
    along = np.array(end) / np.linalg.norm(end)
    away = bar.p_m - (bar.p_m @ along)[:, None] * along
    assert np.allclose(np.linalg.norm(away, axis=1), 0.1)
    assert np.allclose(bar.normal, away / 0.1)


def test_ground_has_the_normals_of_its_slope() -> None:
    x, y = np.linspace(0.0, 4.0, 9), np.linspace(-1.0, 1.0, 5)
    hill = terrain(x, y, np.tile(0.5 * x, (5, 1)), 4.0)
    assert np.allclose(hill.normal, np.array([-0.5, 0.0, 1.0]) / math.hypot(0.5, 1.0))
    assert np.ptp(hill.uv, axis=0) == pytest.approx((1.0, 0.5))


def test_join_and_turn_keep_shapes_whole() -> None:
    pair = join([box((1.0, 1.0, 1.0)), box((1.0, 1.0, 1.0)).at(5.0, 0.0, 0.0, 0.3)])
    assert closed(pair).volume == pytest.approx(2.0)
    assert closed(box((1.0, 2.0, 3.0)).at(1.0, 1.0, 1.0, 1.1)).volume == pytest.approx(6.0)


def test_the_builder_numbers_things_and_keeps_one_primitive_for_each_surface() -> None:
    builder = SceneBuilder("toy")
    thing = (
        Thing()
        .add(box((1.0, 1.0, 1.0)), "crate", (0.5, 1.0, 0.0))
        .add(box((1.0, 1.0, 1.0)).at(2, 0, 0), "crate")
    )
    thing.add(box((0.1, 0.1, 0.1)).at(0, 0, 3), "beacon")
    names = [builder.put("Crate", "box", thing, (k, 0.0, 0.0)).name for k in range(2)]
    assert names == ["Crate1", "Crate2"] and [o.instance for o in builder.objects] == [1, 2]
    crate, beacon = builder.objects[0].asset.nodes[0].primitives
    assert crate.colour is not None and len(crate.triangles) == 2 * 6 * 2 * 4
    linear = round(255 * 0.5**2.2)
    assert sorted({tuple(c) for c in crate.colour.tolist()}) == [
        (linear, 255, 0, 255),
        (255, 255, 255, 255),
    ]
    assert beacon.material.base is None and beacon.material.emissive_light[0] > 0.5
