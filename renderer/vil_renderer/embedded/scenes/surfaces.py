"""Surfaces by name as materials; painted when first asked for, the same at every start."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.model import Material, Texture, TextureUse
from vil_renderer.embedded.scenes.paint import SIZE_PX, Canvas, Surface
from vil_renderer.embedded.scenes.paint_boards import BOARDS
from vil_renderer.embedded.scenes.paint_building import BUILDING
from vil_renderer.embedded.scenes.paint_goods import GOODS
from vil_renderer.embedded.scenes.paint_lab import LAB
from vil_renderer.embedded.scenes.paint_race import RACE
from vil_renderer.embedded.scenes.paint_yard import YARD

_GRAIN: Final = 0.035
_PLAIN: Final[dict[str, Surface]] = {
    "plain": Surface(None, 0.7),
    "steel": Surface(None, 0.45, 0.8),
    "lamp_light": Surface(None, light=(1.0, 0.97, 0.9)),
    "beacon": Surface(None, light=(0.9, 0.06, 0.09)),
}

SURFACES: Final[Mapping[str, Surface]] = {**_PLAIN, **BUILDING, **GOODS, **BOARDS, **LAB, **YARD, **RACE}


@cache
def material(name: str) -> Material:
    """Return the material of a surface; one value in the whole process, so that textures are shared.

    Raises:
        KeyError: no surface has that name.
    """
    surface = SURFACES[name]
    shining = any(surface.light)
    return Material(
        name,
        (0.0, 0.0, 0.0, 1.0) if shining else (1.0, 1.0, 1.0, 1.0),
        base=None if surface.paint is None else TextureUse(_texture(name)),
        metallic=surface.metallic,
        roughness=surface.roughness,
        normal=None if surface.bump_px is None else TextureUse(_Relief(name)),
        emissive_light=surface.light,
        alpha="mask" if surface.cut_out else "opaque",
        double_sided=surface.cut_out,
    )


class _Relief(Texture):
    """A surface's normal map, painted on first use: most profiles never need it."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        for field, value in (("wrap", ("repeat", "repeat")), ("name", name)):
            object.__setattr__(self, field, value)

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        return _canvas(self.name).normals(SURFACES[self.name].bump_px or 0.0)


def _canvas(name: str) -> Canvas:
    paint = SURFACES[name].paint
    assert paint is not None, name
    return paint(np.random.default_rng(_seed(name)))


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


def _texture(name: str) -> Texture:
    seed = _seed(name)
    return Texture(_canvas(name).finish(np.roll(_grain(), seed % SIZE_PX, axis=seed % 2)), name=name)


@cache
def _grain() -> npt.NDArray[np.float32]:
    return np.random.default_rng(999).normal(0.0, _GRAIN, (SIZE_PX, SIZE_PX)).astype(np.float32)
