"""Clothes of the shipped human: one texture with a place for each part of the body, rich in corners."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_renderer.embedded.assets.model import Material, Texture, TextureUse
from vil_renderer.embedded.scenes.paint import Canvas, Colour
from vil_renderer.embedded.scenes.shapes import UvRect

_SIZE_PX: Final = 1024
_GRAIN: Final = 0.04
_SEED: Final = 1759

_VEST: Final[Colour] = (205, 222, 40)
_SILVER: Final[Colour] = (225, 228, 226)
_ORANGE: Final[Colour] = (236, 104, 30)
_SHIRT: Final[Colour] = (62, 76, 104)
_TROUSERS: Final[Colour] = (58, 70, 98)
_SEAM: Final[Colour] = (150, 140, 104)
_SKIN: Final[Colour] = (222, 168, 138)
_GLOVE: Final[Colour] = (96, 88, 80)
_SHOE: Final[Colour] = (70, 58, 52)
_SOLE: Final[Colour] = (206, 200, 188)
_HELMET: Final[Colour] = (238, 236, 228)
_INK: Final[Colour] = (34, 32, 34)

_Box = tuple[int, int, int, int]
_BOXES: Final[dict[str, _Box]] = {
    "torso": (0, 0, 1024, 400),
    "head": (0, 400, 512, 256),
    "helmet": (512, 400, 512, 256),
    "arm": (0, 656, 340, 368),
    "leg": (340, 656, 428, 368),
    "hand": (768, 656, 256, 150),
    "shoe": (768, 806, 256, 218),
}

_MARGIN: Final = 3
PLACES: Final[dict[str, UvRect]] = {
    part: tuple(edge / _SIZE_PX for edge in (x + _MARGIN, y + _MARGIN, x + w - _MARGIN, y + h - _MARGIN))  # type: ignore[misc]
    for part, (x, y, w, h) in _BOXES.items()
}
"""Place of each part in the texture; u runs leftwards around the body from its back, v from its top."""


def clothes() -> Material:
    """Return the material of the shipped human."""
    rng = np.random.default_rng(_SEED)
    canvas = Canvas(rng, _SKIN, 0.06, _SIZE_PX)
    _torso(canvas)
    _head(canvas)
    _helmet(canvas)
    _arm(canvas)
    _leg(canvas)
    _hand_and_shoe(canvas)
    canvas.speckle(1500, (2, 6), (0.80, 1.12))
    grain = rng.normal(0.0, _GRAIN, (_SIZE_PX, _SIZE_PX)).astype(np.float32)
    texture = Texture(canvas.finish(grain), ("clamp", "clamp"), "clothes")
    return Material("clothes", base=TextureUse(texture), roughness=0.85)


def _torso(canvas: Canvas) -> None:
    """Paint from the crotch to the neck: trousers, belt, a vest with bands, pockets and letters."""
    x, y, w, h = _BOXES["torso"]
    canvas.rect(x, y, w, h, _VEST)
    for top in (150, 218):
        canvas.rect(x, y + top, w, 34, _ORANGE)
        canvas.rect(x, y + top + 6, w, 22, _SILVER)
        for k in range(0, w, 32):
            canvas.line((x + k, y + top + 6), (x + k + 14, y + top + 27), (186, 190, 188), 3)
    for middle in (w // 2 - 120, w // 2 + 120, 130, w - 130):
        canvas.rect(x + middle - 20, y, 40, 150, _SILVER)
        canvas.rect(x + middle - 20, y, 40, 150, _ORANGE, 4)
    canvas.line((x + w // 2, y), (x + w // 2, y + 290), _INK, 5)
    for k in range(8, 290, 16):
        canvas.rect(x + w // 2 - 5, y + k, 10, 6, (120, 120, 116))
    canvas.rect(x + w // 2 + 50, y + 92, 46, 44, (176, 190, 30))
    canvas.rect(x + w // 2 + 50, y + 92, 46, 44, _INK, 2)
    canvas.tag(x + w // 2 - 100, y + 90, 50, 4)
    # The back: letters across the seam at u = 0, hence in two halves.
    canvas.text("VIL", x + w - 100, y + 62, 84, 70, _INK)
    canvas.text("LAB", x + 16, y + 62, 84, 70, _INK)
    canvas.rect(x, y + 290, w, 22, (44, 36, 32))
    canvas.rect(x + w // 2 - 16, y + 288, 32, 26, (190, 180, 140))
    canvas.rect(x, y + 312, w, h - 312, _TROUSERS)
    for k in (w // 4, 3 * w // 4):
        canvas.line((x + k, y + 312), (x + k, y + h), _SEAM, 3)
        canvas.line((x + k - 46, y + 316), (x + k - 8, y + 352), _SEAM, 3)
    canvas.line((x + w // 2, y + 316), (x + w // 2, y + h), _SEAM, 3)


def _head(canvas: Canvas) -> None:
    """Paint neck and face in the middle, hair behind."""
    x, y, w, h = _BOXES["head"]
    hair: Colour = (66, 48, 36)
    canvas.rect(x, y, 120, 190, hair)
    canvas.rect(x + w - 120, y, 120, 190, hair)
    canvas.rect(x, y, w, 60, hair)
    middle = x + w // 2
    for side in (-1, 1):
        eye = middle + 36 * side
        canvas.rect(eye - 15, y + 93, 30, 13, (240, 238, 232))
        canvas.rect(eye - 6, y + 92, 13, 14, (52, 72, 84))
        canvas.rect(eye - 19, y + 80, 38, 7, hair)
        canvas.rect(middle + 124 * side - 12, y + 92, 24, 42, (204, 146, 120))
        canvas.rect(middle + 9 * side - 4, y + 124, 8, 6, (168, 112, 92))
    canvas.line((middle + 4, y + 96), (middle + 9, y + 124), (196, 138, 112), 4)
    canvas.rect(middle - 26, y + 144, 52, 9, (176, 92, 84))
    canvas.rect(x, y + h - 44, w, 44, _SHIRT)


def _helmet(canvas: Canvas) -> None:
    x, y, w, h = _BOXES["helmet"]
    canvas.rect(x, y, w, h, _HELMET)
    for k in range(0, w, 64):
        canvas.line((x + k, y + 40), (x + k, y + h), (190, 188, 182), 4)
    canvas.rect(x, y + h - 96, w, 22, (44, 96, 176))
    canvas.rect(x + w // 2 - 34, y + 84, 68, 68, _ORANGE)
    canvas.text("VB", x + w // 2 - 26, y + 96, 52, 44, _HELMET)
    canvas.tag(x + 40, y + 80, 64, 4)
    canvas.tag(x + w - 104, y + 80, 64, 4)


def _arm(canvas: Canvas) -> None:
    """Paint a sleeve from the shoulder to its cuff."""
    x, y, w, h = _BOXES["arm"]
    canvas.rect(x, y, w, h, _SHIRT)
    for top in (118, 300):
        canvas.rect(x, y + top, w, 26, _SILVER)
        canvas.rect(x, y + top, w, 26, _ORANGE, 4)
    for k in range(0, w, 42):
        canvas.line((x + k, y), (x + k, y + h), (52, 64, 90), 2)
    canvas.rect(x + w // 2 - 30, y + 40, 60, 52, (190, 40, 44))
    canvas.text("7", x + w // 2 - 14, y + 46, 28, 40, _HELMET)
    canvas.rect(x, y + h - 26, w, 26, (40, 48, 68))


def _leg(canvas: Canvas) -> None:
    """Paint a trouser leg: seams, a pocket, a knee patch, a band."""
    x, y, w, h = _BOXES["leg"]
    canvas.rect(x, y, w, h, _TROUSERS)
    for k in (w // 4, 3 * w // 4):
        canvas.line((x + k, y), (x + k, y + h), _SEAM, 3)
    for k in (w // 4 - 44, 3 * w // 4 - 20):
        canvas.rect(x + k, y + 70, 64, 74, (50, 60, 86))
        canvas.rect(x + k, y + 70, 64, 74, _SEAM, 2)
    canvas.rect(x + w // 2 - 52, y + 150, 104, 84, (40, 46, 62))
    for k in range(4):
        canvas.line((x + w // 2 - 50, y + 160 + 20 * k), (x + w // 2 + 50, y + 160 + 20 * k), (64, 72, 92), 3)
    canvas.rect(x, y + 268, w, 30, _SILVER)
    canvas.rect(x, y + 268, w, 30, _ORANGE, 4)
    canvas.rect(x, y + h - 14, w, 14, (44, 54, 78))


def _hand_and_shoe(canvas: Canvas) -> None:
    x, y, w, h = _BOXES["hand"]
    canvas.rect(x, y, w, h, _GLOVE)
    for k in range(0, w, 32):
        canvas.line((x + k, y), (x + k, y + 96), (70, 64, 58), 3)
    canvas.rect(x, y + 100, w, 12, _ORANGE)
    x, y, w, h = _BOXES["shoe"]
    canvas.rect(x, y, w, h, _SHOE)
    canvas.rect(x, y, 40, h, _SOLE)
    canvas.rect(x + w - 40, y, 40, h, _SOLE)
    for k in range(40, 150, 18):
        canvas.line((x + w // 2 - 30, y + k), (x + w // 2 + 30, y + k + 8), _SOLE, 4)
