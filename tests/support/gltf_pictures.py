"""Pictures of glTF files.

A camera before or behind a square of 1 m around the origin that faces along our x.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.embedded import looking
from tests.support.gltf import SQUARE, SQUARE_INDICES, SQUARE_UV, GltfFile
from tests.support.opengl import drawing
from vil_bridge.core.types import CameraModel, ImageArray, Modality, View, WorldSnapshot

CAMERA = CameraModel("cam", 64, 64, math.radians(40.0))
AWAY_M = 1.0 / (2.0 * math.tan(math.radians(20.0)))
"""From here a square of 1 m fills the picture."""
PROFILES = ("low", "medium", "high")
WAYS = pytest.mark.parametrize(
    ("profile", "movable"), [("low", False), ("medium", True), ("high", False)]
)
"""Each profile, and both kinds of objects."""
TWO_WAYS = pytest.mark.parametrize(("profile", "movable"), [("low", True), ("high", False)])
CORNERS = SQUARE - np.array([0.5, 0.5, 0.0])
EVEN = {"sky": [0.5, 0.5, 0.5], "ground": [0.5, 0.5, 0.5], "sun": None}
"""The same light on every surface, half of what makes white."""
_DIM = {"sky": [0.1, 0.1, 0.1], "ground": [0.1, 0.1, 0.1]}
SUNNY, AWAY = (
    {**_DIM, "sun": {"azimuth_deg": azimuth, "elevation_deg": 10, "light": [0.6, 0.6, 0.6]}}
    for azimuth in (90, 270)
)


def drawn(
    folder: Path,
    file: GltfFile,
    light: dict[str, Any],
    profile: str,
    *,
    back: bool = False,
    t_s: float = 0.0,
    baked: bool = False,
    modality: Modality = Modality.RGB,
    **thing: Any,
) -> ImageArray:
    """The file as an object of a scene, seen from in front or from behind, at a time."""
    file.write(folder, "square.glb")
    scene = folder / "scene.yaml"
    objects = [{"name": "square", "file": "square.glb", **thing}]
    scene.write_text(yaml.safe_dump({"scene": "square", "environment": light, "objects": objects}))
    place, yaw_deg = ((-AWAY_M, 0.0, 0.0), 0.0) if back else ((AWAY_M, 0.0, 0.0), 180.0)
    view = View(CAMERA, modality, looking(place, yaw_deg), 0)
    with drawing(scene, profile, baked=baked) as renderer:
        return renderer.render((view,), WorldSnapshot(round(1e9 * t_s), ()))[0].pixels


def add_square(
    file: GltfFile,
    material: dict[str, Any],
    *,
    z: float = 0.0,
    size: float = 1.0,
    **attributes: int,
) -> int:
    """A node with a square of a material; ``z`` = how much nearer to the camera."""
    if "TEXCOORD_0" not in attributes:
        attributes["TEXCOORD_0"] = file.accessor(SQUARE_UV)
    look = file.add("materials", material)
    mesh = file.mesh(size * CORNERS, SQUARE_INDICES, material=look, **attributes)
    return file.node(mesh=mesh, translation=[0, 0, z])


def paint(*rgba: float, **more: Any) -> dict[str, Any]:
    """A matt material of a linear colour."""
    colour = [*rgba, 1.0][:4]
    return {"pbrMetallicRoughness": {"baseColorFactor": colour, "metallicFactor": 0.0}, **more}


def picture_use(
    file: GltfFile, pixels: Any, sampler: dict[str, int] | None = None, **more: Any
) -> dict[str, Any]:
    """The use of a new texture."""
    source = {"source": file.image(pixels)}
    texture = file.add(
        "textures",
        source if sampler is None else source | {"sampler": file.add("samplers", sampler)},
    )
    return {"index": texture, **more}


def to_display(linear: Any) -> Any:
    """sRGB levels of linear light."""
    linear = np.clip(np.asarray(linear, float), 0.0, 1.0)
    return 255.0 * np.where(linear < 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def to_linear(display: Any) -> Any:
    """Linear light of sRGB levels."""
    level = np.asarray(display, float) / 255.0
    return np.where(level < 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)


def middle(pixels: ImageArray) -> Any:
    """The mean colour around the middle."""
    return pixels[28:36, 28:36].reshape(-1, pixels.shape[2]).mean(axis=0)
