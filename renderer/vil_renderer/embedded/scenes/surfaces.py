"""Surfaces by name as materials; painted when first asked for, the same at every start."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import cache, cached_property
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
from vil_renderer.embedded.scenes.paint_street import STREET
from vil_renderer.embedded.scenes.paint_yard import YARD

_GRAIN: Final = 0.035
_PLAIN: Final[dict[str, Surface]] = {
    "plain": Surface(None, 0.7),
    "steel": Surface(None, 0.45, 0.8),
    "lamp_light": Surface(None, light=(1.0, 0.97, 0.9)),
    "beacon": Surface(None, light=(0.9, 0.06, 0.09)),
}

SURFACES: Final[Mapping[str, Surface]] = {
    **_PLAIN,
    **BUILDING,
    **GOODS,
    **BOARDS,
    **LAB,
    **YARD,
    **RACE,
    **STREET,
}


@cache
def material(name: str) -> Material:
    """Return the material of a surface.

    One value in the whole process, so that textures are shared.

    Raises:
        KeyError: no surface has that name.
    """
    surface = SURFACES[name]
    base_colour = (1.0, 1.0, 1.0, 1.0)
    if any(surface.light):
        base_colour = (0.0, 0.0, 0.0, 1.0)
    base: TextureUse | None = None
    if surface.paint is not None:
        base = TextureUse(_Painted(name, _colours))
    normal: TextureUse | None = None
    if surface.bump_px is not None:
        normal = TextureUse(_Painted(name, _normals))
    return Material(
        name,
        base_colour,
        base=base,
        metallic=surface.metallic,
        roughness=surface.roughness,
        normal=normal,
        emissive_light=surface.light,
        alpha="mask" if surface.cut_out else "opaque",
        double_sided=surface.cut_out,
        windows=surface.windows,
    )


class _Painted(Texture):
    """A surface's colour or normal map, painted on first use.

    A program that only wants shapes paints nothing.
    """

    _paint: Callable[[str], npt.NDArray[np.uint8]]

    def __init__(self, name: str, paint: Callable[[str], npt.NDArray[np.uint8]]) -> None:
        for field, value in (
            ("wrap", ("repeat", "repeat")),
            ("name", name),
            ("nearest", False),
            ("_paint", paint),
        ):
            object.__setattr__(self, field, value)

    @cached_property
    def pixels(self) -> npt.NDArray[np.uint8]:
        return self._paint(self.name)


def _canvas(name: str) -> Canvas:
    paint = SURFACES[name].paint
    assert paint is not None, name
    return paint(np.random.default_rng(_seed(name)))


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


def _colours(name: str) -> npt.NDArray[np.uint8]:
    seed = _seed(name)
    return _canvas(name).finish(np.roll(_grain(), seed % SIZE_PX, axis=seed % 2))


def _normals(name: str) -> npt.NDArray[np.uint8]:
    return _canvas(name).normals(SURFACES[name].bump_px or 0.0)


@cache
def _grain() -> npt.NDArray[np.float32]:
    return np.random.default_rng(999).normal(0.0, _GRAIN, (SIZE_PX, SIZE_PX)).astype(np.float32)
