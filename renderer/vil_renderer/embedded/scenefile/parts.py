"""Models of a scene file: files, shapes, and the frames of gates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.assets.gltf.container import read_file
from vil_renderer.embedded.assets.gltf.images import PictureBudget, decode_image
from vil_renderer.embedded.assets.importers import load_asset
from vil_renderer.embedded.assets.model import Asset, Material, Texture, TextureUse
from vil_renderer.embedded.assets.refine import refined
from vil_renderer.embedded.assets.skins import resting
from vil_renderer.embedded.scene import Beacon
from vil_renderer.embedded.scenefile.models import (
    FrameConfig,
    GateConfig,
    MaterialConfig,
    ShapeConfig,
)
from vil_renderer.embedded.scenes import shapes, surfaces
from vil_renderer.embedded.scenes.builder import SceneBuilder
from vil_renderer.embedded.scenes.gates import add_gate

_CELL_M: Final = 0.5
_LONGEST_EDGE_M: Final = 1.0
_CELLS: Final = 64
_SIDES: Final = 32
_LEVEL: Final = 1e-6
_TEXTURED: Final = (1.0, 1.0, 1.0)
_PLAIN: Final = (0.6, 0.6, 0.6)


@dataclass(slots=True)
class PartFactory:
    """Factory of models; files that several objects use are read once.

    Attributes:
        folder: where relative paths start.
    """

    folder: Path
    _files: dict[tuple[Path, float | None, str], Asset] = field(default_factory=dict)
    _textures: dict[Path, Texture] = field(default_factory=dict)
    _budget: PictureBudget = field(default_factory=PictureBudget)
    _cut: dict[tuple[int, tuple[float, ...]], tuple[Asset, Asset]] = field(default_factory=dict)

    def model(self, config: ShapeConfig, name: str) -> Asset:
        """Return the requested model.

        Shapes are cut into cells, since light may be computed per vertex.

        Raises:
            RendererError: a file cannot be read.
        """
        if config.file is not None:
            return self.file(config.file, config.unit_m, config.up)
        material = config.material or MaterialConfig()
        primitive = _mesh(config, material.tile_m).primitive(self._material(material))
        return Asset.of(name, [primitive], origin="scene file")

    def file(self, path: Path, unit_m: float | None, up: Literal["y", "z", "-y"]) -> Asset:
        """Return a model of a file.

        Raises:
            RendererError: it cannot be read, here or at all.
        """
        key = (self.folder / path).resolve(), unit_m, up
        if key not in self._files:
            self._files[key] = load_asset(*key, budget=self._budget)
        return self._files[key]

    def cut(self, asset: Asset, scale: float | tuple[float, float, float]) -> Asset:
        """Return a file's model for an object that never moves.

        At rest, with short edges at this scale.

        Its light is computed at vertices.
        """
        key = id(asset), tuple(np.broadcast_to(scale, 3).tolist())
        if key not in self._cut:
            self._cut[key] = (
                asset,
                refined(resting(asset), _LONGEST_EDGE_M, np.diag((*key[1], 1.0))),
            )
        return self._cut[key][1]

    def _material(self, config: MaterialConfig) -> Material:
        """Return a shape's surface: the file's values, over the shipped surface if one is named.

        Raises:
            AssetError: the texture is broken.
        """
        made = Material("scene file", roughness=config.roughness, metallic=config.metallic)
        if config.surface is not None:
            made = surfaces.material(config.surface)
        elif config.texture is not None:
            made = replace(
                made, base=TextureUse(self._texture((self.folder / config.texture).resolve()))
            )
        red, green, blue = config.base_colour or (_TEXTURED if made.base else _PLAIN)
        said = config.model_fields_set
        made = replace(made, base_colour=(red, green, blue, 1.0))
        if "roughness" in said:
            made = replace(made, roughness=config.roughness)
        if "metallic" in said:
            made = replace(made, metallic=config.metallic)
        if "emissive" in said:
            made = replace(made, emissive_light=config.emissive)
        return made

    def _texture(self, path: Path) -> Texture:
        if path not in self._textures:
            pixels = decode_image(read_file(path, str(path)), str(path), budget=self._budget)
            self._textures[path] = Texture(pixels, name=path.name)
        return self._textures[path]


def _mesh(config: ShapeConfig, tile_m: float) -> shapes.MeshBuilder:
    if config.box is not None:
        size = config.box.size_m
        return shapes.box(size, uv=tile_m, cell_m=_cell_m(max(size)))
    if config.plane is not None:
        width, height = config.plane.size_m
        corner = (-0.5 * width, -0.5 * height, 0.0)
        cell = _cell_m(max(width, height))
        return shapes.panel(corner, (width, 0.0, 0.0), (0.0, height, 0.0), uv=tile_m, cell_m=cell)
    if config.cylinder is not None:
        return _cylinder(config.cylinder.radius_m, config.cylinder.height_m, tile_m)
    assert config.sphere is not None
    r = config.sphere.radius_m
    angles = np.linspace(0.0, math.pi, _SIDES // 2 + 1)
    # Exactly on the axis at the poles, where the surface closes.
    profile = [
        (0.0, 0.0),
        *((r * math.sin(a), r - r * math.cos(a)) for a in angles[1:-1]),
        (0.0, 2.0 * r),
    ]
    uv = (0.0, 0.0, 2.0 * math.pi * r / tile_m, math.pi * r / tile_m)
    return shapes.lathe(profile, _SIDES, smooth=True, uv=uv)


def _cylinder(radius: float, height: float, tile_m: float) -> shapes.MeshBuilder:
    rings = max(1, math.ceil(height / _cell_m(height)))
    side = [(radius, height * k / rings) for k in range(rings + 1)]
    around = 2.0 * math.pi * radius / tile_m
    return shapes.join(
        [
            shapes.lathe([(0.0, 0.0), side[0]], _SIDES, uv=(0.0, 0.0, around, radius / tile_m)),
            shapes.lathe(side, _SIDES, uv=(0.0, 0.0, around, height / tile_m)),
            shapes.lathe([side[-1], (0.0, height)], _SIDES, uv=(0.0, 0.0, around, radius / tile_m)),
        ]
    )


def _cell_m(length_m: float) -> float:
    """Return cells of half a metre, larger ones if there were too many."""
    return max(_CELL_M, length_m / _CELLS)


def gate_frame(gate: GateConfig, frame: FrameConfig) -> tuple[Asset, tuple[Beacon, ...]]:
    """Return a gate's frame and its beacons in the gate's axes; only an upright gate has legs."""
    upright = abs(gate.transform().rotation()[2, 2] - 1.0) < _LEVEL
    height = float(gate.p_m[2]) if frame.legs and upright else 0.0
    builder = SceneBuilder(gate.name)
    opening = (gate.width_m, gate.height_m)
    bar = (frame.bar_m, frame.bar_m)
    add_gate(builder, (0.0, 0.0, height), 0.0, opening_m=opening, bar_m=bar)
    centre: FloatArray = np.array([0.0, 0.0, height])
    beacons = tuple(
        Beacon(f"{gate.name}_{number}", beacon.p_m - centre)
        for number, beacon in enumerate(builder.beacons, start=1)
    )
    asset = replace(builder.objects[0].asset, name=gate.name)
    if not frame.beacons:
        return asset, ()
    return asset, beacons
