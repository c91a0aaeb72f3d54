"""COLLADA, by hand as the format describes it: units, axes, textures, and what is broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support.mesh import RED_TOP, only, placed
from vil_bridge.core.errors import AssetError
from vil_renderer.embedded.assets.importers import load_asset

DAE = """<?xml version="1.0" encoding="utf-8"?>{doctype}
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset>{unit}{up}</asset>
<library_images><image id="i"><init_from>../materials/textures/red.png</init_from></image>
  </library_images>
<library_effects><effect id="e"><profile_COMMON>
<newparam sid="sf"><surface type="2D"><init_from>i</init_from></surface></newparam>
<newparam sid="sp"><sampler2D><source>sf</source></sampler2D></newparam>
<technique sid="c"><lambert><diffuse><texture texture="sp" texcoord="UV"/></diffuse></lambert>
  </technique>
</profile_COMMON></effect></library_effects>
<library_materials><material id="m" name="m"><instance_effect url="#e"/></material>
  </library_materials>
<library_geometries><geometry id="g" name="g"><mesh>
<source id="p"><float_array id="pa" count="9">0 0 0 100 0 0 0 100 0</float_array><technique_common>
<accessor source="#pa" count="3" stride="3"><param name="X" type="float"/>
  <param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<source id="t"><float_array id="ta" count="6">0 0 1 0 0 1</float_array><technique_common>
<accessor source="#ta" count="3" stride="2"><param name="S" type="float"/>
  <param name="T" type="float"/>
</accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="1" material="mat"><input semantic="VERTEX" source="#v" offset="0"/>
<input semantic="TEXCOORD" source="#t" offset="1" set="0"/><p>0 0 1 1 2 2</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node id="n">
<matrix>{matrix}</matrix>
<instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="mat" target="#m"/></technique_common></bind_material></instance_geometry>
</node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""
UP_Z = "<up_axis>Z_UP</up_axis>"
CENTIMETRES = '<unit name="centimeter" meter="0.01"/>'
PLACE = "1 0 0 1000  0 1 0 0  0 0 1 0  0 0 0 1"


def collada(folder: Path, **more: str) -> Path:
    (folder / "meshes").mkdir()
    textures = folder / "materials" / "textures"
    textures.mkdir(parents=True)
    Image.fromarray(RED_TOP).save(textures / "red.png")
    path = folder / "meshes" / "shelf.dae"
    path.write_text(
        DAE.format(**{"doctype": "", "unit": CENTIMETRES, "up": UP_Z, "matrix": PLACE} | more)
    )
    return path


def test_collada_in_centimetres_with_a_texture(tmp_path: Path) -> None:
    asset = load_asset(collada(tmp_path))
    points, _ = placed(asset)
    np.testing.assert_allclose(
        sorted(points.tolist()), [[10, 0, 0], [10, 1, 0], [11, 0, 0]], atol=1e-6
    )
    part = only(asset)
    np.testing.assert_allclose(part.normal, np.tile([0, 0, 1], (3, 1)), atol=1e-6)
    assert part.material.base is not None
    np.testing.assert_array_equal(part.material.base.texture.pixels, RED_TOP)
    # T counts from the bottom, v from the top.
    np.testing.assert_allclose(
        part.uv, np.column_stack((part.p_m[:, 0] / 100, 1 - part.p_m[:, 1] / 100))
    )


@pytest.mark.parametrize(
    ("unit", "up", "unit_m", "expected"),
    [
        ("", UP_Z, None, [1100, 0, 0]),
        (CENTIMETRES, "", None, [0, 11, 0]),
        (CENTIMETRES, "<up_axis>Y_UP</up_axis>", None, [0, 11, 0]),
        (CENTIMETRES, "<up_axis>X_UP</up_axis>", None, [0, 0, 11]),
        (CENTIMETRES, UP_Z, 1.0, [1100, 0, 0]),
    ],
)
def test_collada_units_and_axes(
    tmp_path: Path, unit: str, up: str, unit_m: float | None, expected: list[int]
) -> None:
    points, _ = placed(load_asset(collada(tmp_path, unit=unit, up=up), unit_m=unit_m))
    assert np.abs(points - expected).sum(axis=1).min() < 1e-4


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"doctype": BOMB}, "document types are not read"),
        ({"unit": '<unit meter="0"/>'}, "asset/unit: meter='0' is not a length"),
        ({"unit": '<unit meter="wide"/>'}, "meter='wide' is not a length"),
        ({"up": "<up_axis>W_UP</up_axis>"}, "up_axis: 'W_UP'"),
        ({"unit": "<unit"}, "XML: "),
        ({"matrix": PLACE.replace("1 0 0 1000", "1 1 0 1000")}, "shears"),
    ],
)
def test_broken_collada(tmp_path: Path, more: dict[str, str], reason: str) -> None:
    with pytest.raises(AssetError, match=r"shelf\.dae: .*" + reason):
        load_asset(collada(tmp_path, **more))


def test_collada_with_a_missing_texture(tmp_path: Path) -> None:
    path = collada(tmp_path)
    (tmp_path / "materials" / "textures" / "red.png").unlink()
    with pytest.raises(AssetError, match=r"shelf\.dae: refers to .*red\.png"):
        load_asset(path)


WEDGE = """<?xml version="1.0" encoding="utf-8"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="1"/><up_axis>Z_UP</up_axis></asset>
<library_geometries><geometry id="g" name="g"><mesh>
<source id="p"><float_array id="pa" count="12">0 0 0 1 0 0 0 2 0 0 0 3</float_array>
  <technique_common>
<accessor source="#pa" count="4" stride="3"><param name="X" type="float"/>
  <param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="4"><input semantic="VERTEX" source="#v" offset="0"/><p>0 2 1 0 1 3 0 3 2 1 2 3</p>
  </triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s">
<node id="a"><instance_geometry url="#g"/></node>
<node id="b"><matrix>{matrix}</matrix><instance_geometry url="#g"/></node>
</visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""
"""A corner of a box with edges of 1, 2 and 3 m, as it is and once more under a matrix.

Its volume is 1 m3.
"""


@pytest.mark.parametrize(
    ("matrix", "volume_m3"),
    [
        ("-1 0 0 5  0 1 0 0  0 0 1 0  0 0 0 1", 1.0),
        ("1 0 0 5  0 -1 0 0  0 0 1 0  0 0 0 1", 1.0),
        ("1 0 0 5  0 1 0 0  0 0 -1 0  0 0 0 1", 1.0),
        ("-1 0 0 5  0 -1 0 0  0 0 -1 0  0 0 0 1", 1.0),
        ("0 1 0 5  1 0 0 0  0 0 1 0  0 0 0 1", 1.0),  # x and y exchanged
        ("0 3 0 5  0.5 0 0 7  0 0 2 0  0 0 0 1", 3.0),
        ("-1 0 0 5  0 -1 0 0  0 0 1 0  0 0 0 1", 1.0),  # half a turn, no mirror
        ("0 -2 0 5  2 0 0 0  0 0 2 0  0 0 0 1", 8.0),
    ],
)
def test_the_outside_of_a_mirrored_mesh_stays_outside(
    tmp_path: Path, matrix: str, volume_m3: float
) -> None:
    """A volume is positive where all triangles are counter-clockwise from outside, a mirrored
    one negative.
    """
    path = tmp_path / "wedge.dae"
    path.write_text(WEDGE.format(matrix=matrix))
    asset = load_asset(path)
    numbers = np.array(matrix.split(), float).reshape(4, 4)
    expected = (numbers @ [(0, 1, 0, 0), (0, 0, 2, 0), (0, 0, 0, 3), (1, 1, 1, 1)])[:3].T
    np.testing.assert_allclose(
        np.unique(placed(asset)[0][12:], axis=0), np.unique(expected, axis=0), atol=1e-6
    )
    for node, to_asset, expected_m3 in zip(
        asset.nodes, asset.asset_from_node(), (1.0, volume_m3), strict=True
    ):
        (part,) = node.primitives
        corners = (part.p_m @ to_asset[:3, :3].T + to_asset[:3, 3])[part.triangles]
        assert np.linalg.det(
            corners - corners.reshape(-1, 3).mean(axis=0)
        ).sum() / 6.0 == pytest.approx(expected_m3)
        outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals = (part.normal @ np.linalg.inv(to_asset[:3, :3]))[part.triangles]
        assert (np.einsum("tcx,tx->tc", normals, outward) > 0.0).all(), (
            "normals point to where triangles face"
        )
