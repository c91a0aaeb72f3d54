"""Skin, hair and clothes of a human.

One texture with a place for each part, and its relief of folds.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from vil_renderer.embedded.actors.people.builds import HumanBuild
from vil_renderer.embedded.actors.people.faces import paint_face
from vil_renderer.embedded.actors.people.folds import Folds
from vil_renderer.embedded.assets.model import Material, Texture, TextureUse, UvRect
from vil_renderer.embedded.scenes.paint import Canvas, Colour

_SIZE_PX: Final = 1024
_GRAIN: Final = 0.035
_SEED: Final = 1759
_BUMP_PX: Final = 6.0

_SILVER: Final[Colour] = (225, 228, 226)
_ORANGE: Final[Colour] = (236, 104, 30)
_HELMET: Final[Colour] = (238, 236, 228)
_SOLE: Final[Colour] = (206, 200, 188)
_LEATHER: Final[Colour] = (44, 36, 32)
_INK: Final[Colour] = (34, 32, 34)

_Box = tuple[int, int, int, int]
_BOXES: Final[dict[str, _Box]] = {
    "top": (0, 0, 1024, 290),
    "hips": (0, 290, 1024, 110),
    "head": (0, 400, 512, 256),
    "hair": (512, 400, 256, 256),
    "helmet": (768, 400, 256, 256),
    "skirt": (768, 400, 256, 256),
    "arm": (0, 656, 340, 368),
    "leg": (340, 656, 428, 368),
    "palm": (768, 656, 100, 150),
    "finger": (868, 656, 76, 150),
    "neck": (944, 656, 80, 150),
    "shoe": (768, 806, 256, 218),
}

_MARGIN: Final = 3
PLACES: Final[dict[str, UvRect]] = {
    part: (
        (x + _MARGIN) / _SIZE_PX,
        (y + _MARGIN) / _SIZE_PX,
        (x + w - _MARGIN) / _SIZE_PX,
        (y + h - _MARGIN) / _SIZE_PX,
    )
    for part, (x, y, w, h) in _BOXES.items()
}
"""Place of each part in the texture.

U runs leftwards around the body from its back, v from its top.
"""

_LENGTHS_M: Final = {"top": 0.60, "arm": 0.60, "leg": 0.90, "short_sleeve": 0.60}
FOLDS: Final = {
    "top": Folds.scattered(
        3, {0.72: (16, 0.06), 0.90: (10, 0.04), 0.45: (8, 0.10)}, 0.005, 0.60, 0.35
    ),
    "arm": Folds.scattered(5, {0.50: (16, 0.06), 0.86: (8, 0.04), 0.22: (5, 0.05)}, 0.0045, 0.60),
    "short_sleeve": Folds.scattered(5, {0.25: (5, 0.04)}, 0.003, 0.60),
    "leg": Folds.scattered(7, {0.52: (12, 0.05), 0.90: (14, 0.04), 0.10: (8, 0.04)}, 0.006, 0.90),
}
_FINE: Final = {
    "top": Folds.scattered(13, {0.70: (30, 0.16), 0.35: (14, 0.12)}, 0.0022, 0.60, 0.5),
    "arm": Folds.scattered(15, {0.50: (24, 0.12), 0.85: (14, 0.06)}, 0.0022, 0.60, 0.4),
    "leg": Folds.scattered(
        17, {0.50: (26, 0.12), 0.88: (20, 0.06), 0.10: (12, 0.06)}, 0.0028, 0.90, 0.4
    ),
}


def outfit(build: HumanBuild) -> Material:
    """Return the material of a human."""
    rng = np.random.default_rng(_SEED)
    canvas = Canvas(rng, build.skin, 0.06, _SIZE_PX)
    _top(canvas, build)
    _hips(canvas, build)
    paint_face(canvas, build, _BOXES["head"], _BOXES["neck"])
    _hair(canvas, build)
    _arm(canvas, build)
    _leg(canvas, build)
    _hand_and_shoe(canvas, build)
    if build.hair == "helmet":
        _helmet(canvas)
    if build.legs == "skirt":
        _skirt(canvas, build)
    canvas.speckle(900, (1, 4), (0.88, 1.08))
    _crease(canvas, build)
    grain = rng.normal(0.0, _GRAIN, (_SIZE_PX, _SIZE_PX)).astype(np.float32)
    relief = Texture(canvas.normals(_BUMP_PX), ("clamp", "clamp"), "folds")
    texture = Texture(canvas.finish(grain), ("clamp", "clamp"), "clothes")
    return Material("clothes", base=TextureUse(texture), roughness=0.85, normal=TextureUse(relief))


def _crease(canvas: Canvas, build: HumanBuild) -> None:
    """Carve folds into the cloth; valleys are a little darker."""
    for part in ("top", "arm", "leg"):
        if (part == "leg" and build.legs == "skirt") or (part == "arm" and build.top == "tee"):
            continue
        x, y, w, h = _BOXES[part]
        u = np.linspace(0.0, 1.0, w)[None, :]
        v = np.linspace(0.0, 1.0, h)[:, None]
        height_m = (FOLDS[part].height(u, v) + _FINE[part].height(u, v)).astype(np.float32)
        canvas.relief[y : y + h, x : x + w] += height_m * np.float32(h / _LENGTHS_M[part])
        canvas.shade[y : y + h, x : x + w] *= np.clip(1.0 + 22.0 * height_m, 0.82, 1.10)


def _top(canvas: Canvas, build: HumanBuild) -> None:
    """Paint the top from its hem to the collar."""
    x, y, w, h = _BOXES["top"]
    middle = x + w // 2
    canvas.rect(x, y, w, h, build.top_colour)
    if build.top == "vest":
        _vest(canvas)
        return
    if build.top == "shirt":
        for k in range(0, w, 32):
            canvas.line((x + k, y), (x + k, y + h), build.trim, 2)
        for k in range(0, h, 26):
            canvas.line((x, y + k), (x + w, y + k), build.trim, 1)
        canvas.rect(middle + 60, y + 96, 60, 56, build.trim, 2)
    if build.top == "tee":
        for k in range(40, h, 44):
            canvas.rect(x, y + k, w, 16, build.trim)
        canvas.rect(x, y, w, 12, build.trim)
        return
    dark: Colour = _darker(build.top_colour, 0.72)
    canvas.line((middle, y), (middle, y + h), dark, 4)
    for k in range(30, h, 36):
        cv2.circle(canvas.colour, (middle + 7, y + k), 4, build.trim, -1, cv2.LINE_AA)
    if build.top == "jacket":
        for side in (-1, 1):
            lapel = [
                (middle, y + 150),
                (middle + side * 74, y + 50),
                (middle + side * 40, y),
                (middle, y + 10),
            ]
            cv2.fillPoly(canvas.colour, [np.array(lapel, np.int32)], build.trim)
            canvas.rect(middle + side * 120 - 50, y + 196, 100, 10, build.trim)
        collar = [(middle, y + 110), (middle - 34, y), (middle + 34, y)]
        cv2.fillPoly(canvas.colour, [np.array(collar, np.int32)], (222, 224, 228))
        canvas.rect(middle - 7, y, 14, 96, (150, 34, 40))
    canvas.rect(x, y + h - 10, w, 6, dark)


def _vest(canvas: Canvas) -> None:
    """Paint bands, pockets and letters."""
    x, y, w, h = _BOXES["top"]
    for top in (140, 206):
        canvas.rect(x, y + top, w, 34, _ORANGE)
        canvas.rect(x, y + top + 6, w, 22, _SILVER)
        for k in range(0, w, 32):
            canvas.line((x + k, y + top + 6), (x + k + 14, y + top + 27), (186, 190, 188), 3)
    for middle in (w // 2 - 120, w // 2 + 120, 130, w - 130):
        canvas.rect(x + middle - 20, y, 40, 140, _SILVER)
        canvas.rect(x + middle - 20, y, 40, 140, _ORANGE, 4)
    canvas.line((x + w // 2, y), (x + w // 2, y + h), _INK, 5)
    for k in range(8, h, 16):
        canvas.rect(x + w // 2 - 5, y + k, 10, 6, (120, 120, 116))
    canvas.rect(x + w // 2 + 50, y + 88, 46, 44, (176, 190, 30))
    canvas.rect(x + w // 2 + 50, y + 88, 46, 44, _INK, 2)
    canvas.tag(x + w // 2 - 100, y + 86, 50, 4)
    # The back: letters across the seam at u = 0, hence in two halves.
    canvas.text("VIL", x + w - 100, y + 58, 84, 70, _INK)
    canvas.text("LAB", x + 16, y + 58, 84, 70, _INK)


def _hips(canvas: Canvas, build: HumanBuild) -> None:
    x, y, w, h = _BOXES["hips"]
    seam = _darker(build.legs_colour, 0.65)
    canvas.rect(x, y, w, h, build.legs_colour)
    canvas.rect(x, y + 8, w, 14, _LEATHER)
    canvas.rect(x + w // 2 - 14, y + 6, 28, 18, (190, 180, 140))
    for k in (w // 4, 3 * w // 4):
        canvas.line((x + k, y), (x + k, y + h), seam, 3)
        canvas.line((x + k - 46, y + 26), (x + k - 8, y + 62), seam, 3)
    canvas.line((x + w // 2, y + 24), (x + w // 2, y + h), seam, 3)


def _hair(canvas: Canvas, build: HumanBuild) -> None:
    x, y, w, h = _BOXES["hair"]
    canvas.rect(x, y, w, h, build.hair_colour)
    for k in canvas.rng.integers(0, w, 220):
        shade = float(canvas.rng.uniform(0.6, 1.6))
        lean = int(canvas.rng.integers(-12, 12))
        canvas.line(
            (x + int(k), y),
            (min(x + w - 1, max(x, x + int(k) + lean)), y + h - 1),
            _darker(build.hair_colour, shade),
            1,
        )


def _helmet(canvas: Canvas) -> None:
    x, y, w, h = _BOXES["helmet"]
    canvas.rect(x, y, w, h, _HELMET)
    for k in range(0, w, 32):
        canvas.line((x + k, y + 40), (x + k, y + h), (190, 188, 182), 3)
    canvas.rect(x, y + h - 96, w, 22, (44, 96, 176))
    canvas.rect(x + w // 2 - 20, y + 84, 40, 68, _ORANGE)
    canvas.text("VB", x + w // 2 - 15, y + 96, 30, 44, _HELMET)
    canvas.tag(x + 20, y + 80, 40, 4)
    canvas.tag(x + w - 60, y + 80, 40, 4)


def _skirt(canvas: Canvas, build: HumanBuild) -> None:
    x, y, w, h = _BOXES["skirt"]
    canvas.rect(x, y, w, h, build.legs_colour)
    for k in range(0, w, 18):
        canvas.line((x + k, y + 24), (x + k, y + h), _darker(build.legs_colour, 0.78), 3)
    canvas.rect(x, y, w, 14, _darker(build.legs_colour, 0.6))
    canvas.rect(x, y + h - 26, w, 8, build.trim)


def _arm(canvas: Canvas, build: HumanBuild) -> None:
    """Paint a sleeve from the shoulder to its cuff."""
    x, y, w, h = _BOXES["arm"]
    if build.top == "tee":
        canvas.rect(x, y, w, int(0.375 * h), build.top_colour)
        canvas.rect(x, y + int(0.345 * h), w, int(0.03 * h), build.trim)
        return
    vest = build.top == "vest"
    cloth = build.top_colour
    if vest:
        cloth = build.trim
    canvas.rect(x, y, w, h, cloth)
    if vest:
        for top in (118, 300):
            canvas.rect(x, y + top, w, 26, _SILVER)
            canvas.rect(x, y + top, w, 26, _ORANGE, 4)
        canvas.rect(x + w // 2 - 30, y + 40, 60, 52, (190, 40, 44))
        canvas.text("7", x + w // 2 - 14, y + 46, 28, 40, _HELMET)
    stripe = build.trim
    if vest or build.top == "jacket":
        stripe = _darker(cloth, 0.84)
    for k in range(0, w, 42):
        canvas.line((x + k, y), (x + k, y + h), stripe, 2)
    canvas.rect(x, y + h - 24, w, 24, _darker(cloth, 0.7))


def _leg(canvas: Canvas, build: HumanBuild) -> None:
    """Paint a trouser leg: seams, pockets, a knee patch, a hem."""
    x, y, w, h = _BOXES["leg"]
    if build.legs == "skirt":
        canvas.rect(x, y, w, h, _darker(build.skin, 0.96))
        return
    seam = _darker(build.legs_colour, 1.5 if sum(build.legs_colour) < 300 else 0.7)
    canvas.rect(x, y, w, h, build.legs_colour)
    for k in (w // 4, 3 * w // 4):
        canvas.line((x + k, y), (x + k, y + h), seam, 3)
    if build.top == "vest":
        for k in (w // 4 - 44, 3 * w // 4 - 20):
            canvas.rect(x + k, y + 70, 64, 74, (50, 60, 86))
            canvas.rect(x + k, y + 70, 64, 74, seam, 2)
        canvas.rect(x + w // 2 - 52, y + 150, 104, 84, (40, 46, 62))
        for k in range(4):
            canvas.line(
                (x + w // 2 - 50, y + 160 + 20 * k),
                (x + w // 2 + 50, y + 160 + 20 * k),
                (64, 72, 92),
                3,
            )
        canvas.rect(x, y + 268, w, 30, _SILVER)
        canvas.rect(x, y + 268, w, 30, _ORANGE, 4)
    canvas.rect(x, y + h - 12, w, 12, _darker(build.legs_colour, 0.75))


def _hand_and_shoe(canvas: Canvas, build: HumanBuild) -> None:
    for part in ("palm", "finger"):
        x, y, w, h = _BOXES[part]
        canvas.rect(x, y, w, h, build.skin)
        canvas.rect(x, y + h - 34, w, 20, _darker(build.skin, 0.9))
    x, y, w, h = _BOXES["finger"]
    canvas.rect(x + 8, y + h - 26, 18, 24, _darker(build.skin, 1.12))
    x, y, w, h = _BOXES["shoe"]
    canvas.rect(x, y, w, h, build.shoe)
    canvas.rect(x, y, 40, h, _SOLE)
    canvas.rect(x + w - 40, y, 40, h, _SOLE)
    for k in range(60, 150, 16):
        canvas.line((x + w // 2 - 24, y + k), (x + w // 2 + 24, y + k + 8), _SOLE, 3)


def _darker(colour: Colour, factor: float) -> Colour:
    r, g, b = (min(255, round(value * factor)) for value in colour)
    return (r, g, b)
