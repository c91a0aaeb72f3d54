"""Models, scenes and point clouds, read from files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target, scratch
from tests.property.test_gltf_bytes import check_usable
from tests.support import splat_formats as formats
from tests.support.gltf import textured_square
from tests.support.scenefile import BASES, write_obj, write_png, write_stl
from tests.support.splat import Splat
from tests.support.splat import ply as splats_file
from tests.unit.renderer.test_scenefile_build import SHAPES
from vil_bridge.core.errors import AssetError, RendererError
from vil_renderer.embedded.assets.gltf import load_gltf
from vil_renderer.embedded.assets.importers import load_asset
from vil_renderer.embedded.scenefile import load_scene
from vil_renderer.embedded.scenefile.perturbation import read_moves
from vil_renderer.embedded.splats.read import read_splats

__all__ = ["TARGETS"]

_FOLDER: Final = scratch()
write_obj(_FOLDER / "thing.obj")
write_png(_FOLDER / "paint.png")


def _file(read: Callable[[Path], object], name: str) -> Callable[[bytes], None]:
    """A reader of files as one of bytes."""

    def written(data: bytes) -> None:
        path = _FOLDER / name
        path.write_bytes(data)
        read(path)

    return written


def _gltf_text(data: bytes) -> None:
    """The JSON of a model whose arrays are right."""
    length = struct.pack("<II", len(data), 0x4E4F534A)
    whole = length + data + _BINARY
    path = _FOLDER / "text.glb"
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(whole)) + whole)
    check_usable(load_gltf(path))


_GOOD: Final = textured_square().glb()
_TEXT: Final = _GOOD[20 : 20 + struct.unpack_from("<I", _GOOD, 12)[0]]
_BINARY: Final = _GOOD[20 + len(_TEXT) :]


def _glb(path: Path) -> None:
    check_usable(load_gltf(path))


_SCENES: Final = (
    SHAPES,
    """scene: mine
base: bare
objects:
  - {name: thing, mesh: thing.obj, ypr_deg: [10, 20, 30], scale: 2}
  - {name: mobile, box: {size_m: [1, 1, 1]}, movable: true, collider: box, layer: net}
lights:
  - {name: l, p_m: [0, 0, 1]}
beacons:
  - {name: c, p_m: [1, 0, 0], carrier: mobile}
gates:
  - {name: g, p_m: [4, 0, 2], yaw_deg: 90, width_m: 2, height_m: 1,
        frame: {bar_m: 0.2, legs: false}}
""",
)
_MOVES: Final = "# moves\nGate0: 0.5,-0.25,12\nGate1: 1,2,-30\n"
_COLLADA: Final = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="0.01"/><up_axis>Z_UP</up_axis></asset>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a" count="9">0 0 0 1 0 0 0 1 0</float_array>
<technique_common><accessor source="#a" count="3" stride="3">
<param name="X" type="float"/><param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><instance_geometry url="#g"/></node>
  </visual_scene>
</library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>
"""
_PLY: Final = (
    b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\n"
    b"property float z\n"
    b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 "
    b"1 0\n3 0 1 2\n"
)
_OBJ: Final = (
    b"o a\nv 0 0 0\nv 1 0 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 0 1\nvn 0 0 1\nf 1/1/1 2/2/1 3/3/1\n"
)


def _plys() -> Iterator[bytes]:
    yield _PLY
    head = _PLY[: _PLY.index(b"end_header\n") + 11].replace(b"ascii", b"binary_little_endian")
    yield head + struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0) + struct.pack("<B3i", 3, 0, 1, 2)


def _stls() -> Iterator[bytes]:
    path = _FOLDER / "seed.stl"
    write_stl(path)
    yield path.read_bytes()
    yield (
        bytes(80)
        + struct.pack("<I", 1)
        + struct.pack("<12fH", 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0)
    )


def _splats() -> Iterator[bytes]:
    yield splats_file([Splat((0, 0, 1)), Splat((1, 0, 2))])
    yield splats_file([Splat((0, 0, 1), rest=[0.1] * 9)])
    yield formats.compressed_ply(formats.golden())


def _spz() -> Iterator[bytes]:
    yield from (formats.spz(formats.golden(), version) for version in (1, 2, 3, 4))


_ROWS: Final = formats.splat_rows(formats.golden())


TARGETS: Final = (
    Target("gltf-text", _gltf_text, (AssetError,), lambda: [_TEXT], 8192, is_json=True),
    Target("glb", _file(_glb, "model.glb"), (AssetError,), lambda: [_GOOD], 8192),
    Target(
        "scene-file",
        _file(partial(load_scene, bases=BASES), "scene.yaml"),
        (RendererError,),
        lambda: map(str.encode, _SCENES),
        limit_ms=500,
    ),
    Target("perturbation", _file(read_moves, "moves.txt"), (), lambda: [_MOVES.encode()], 1024),
    Target("splats", _file(read_splats, "splats.ply"), (AssetError,), _splats, 2048),
    Target("splats-spz", _file(read_splats, "a.spz"), (AssetError,), _spz, 2048),
    Target(
        "splats-sog",
        _file(read_splats, "a.sog"),
        (AssetError,),
        lambda: [formats.sog(formats.golden())],
        4096,
    ),
    Target(
        "splats-glb",
        _file(read_splats, "a.glb"),
        (AssetError,),
        lambda: [formats.glb(formats.golden())],
        8192,
    ),
    Target("splats-rows", _file(read_splats, "a.splat"), (AssetError,), lambda: [_ROWS], 2048),
    Target("obj", _file(load_asset, "model.obj"), (AssetError,), lambda: [_OBJ], 1024),
    Target("ply", _file(load_asset, "model.ply"), (AssetError,), _plys, 1024),
    Target("stl", _file(load_asset, "model.stl"), (AssetError,), _stls, 1024),
    Target(
        "collada", _file(load_asset, "model.dae"), (AssetError,), lambda: [_COLLADA.encode()], 4096
    ),
)
