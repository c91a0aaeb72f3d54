"""Painted surfaces of a street of houses and of a parking garage."""

from __future__ import annotations

from functools import partial
from typing import Final

import cv2
import numpy as np

from vil_renderer.embedded.scenes.paint import SIZE_PX, Canvas, Colour, Surface
from vil_renderer.embedded.scenes.paint_building import courses
from vil_renderer.embedded.scenes.paint_yard import asphalt

_S: Final = SIZE_PX
_SEAM_PX: Final = 48
_WHITE: Final[Colour] = (222, 220, 210)
_YELLOW: Final[Colour] = (214, 168, 40)
_BLACK: Final[Colour] = (52, 52, 54)


def _repeated(canvas: Canvas) -> Canvas:
    """Let the shade go over into its mirror image at the last edges, so that no seam shows where
    it repeats.
    """
    share = np.linspace(0.0, 1.0, _SEAM_PX, dtype=np.float32)
    for shade in (canvas.shade, canvas.shade.T):
        shade[:, -_SEAM_PX:] += share * (shade[:, :_SEAM_PX][:, ::-1] - shade[:, -_SEAM_PX:])
    return canvas


def _house_window(rng: np.random.Generator) -> Canvas:
    """Paint a window with two casements: frame, curtains behind glass, and the sky in it."""
    canvas = Canvas(rng, (226, 222, 212), 0.05, 512)
    for x in (26, 268):
        canvas.plate(x, 30, 218, 452, (44, 52, 62), -6.0)
        sky = np.linspace(1.0, 0.35, 452)[:, None, None] * np.array((96, 122, 150))
        canvas.colour[30:482, x : x + 218] = np.rint(sky).astype(np.uint8)
        for fold in range(x + 4, x + 90, 14):
            shade = int(rng.integers(150, 220))
            canvas.line(
                (fold, 40),
                (fold + int(rng.integers(-6, 7)), 470),
                (shade, shade - 6, shade - 20),
                8,
            )
        for _ in range(5):
            a = int(rng.integers(40, 400))
            b = (x + 205, a - int(rng.integers(10, 60)))
            canvas.line((x + 110, a), b, (150, 172, 190), int(rng.integers(2, 7)))
        canvas.rect(x, 170, 218, 14, (214, 210, 200))
    canvas.rect(238, 240, 14, 44, (120, 116, 104))
    canvas.speckle(120, (2, 5), (0.75, 1.15))
    return canvas


def _entrance(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (206, 198, 184), 0.06, 512)
    canvas.plate(40, 30, 432, 482, (104, 62, 40), -4.0)
    for y in (290, 400):
        for x in (76, 270):
            canvas.plate(x, y, 166, 92, (122, 76, 50), 4.0)
    canvas.plate(76, 70, 360, 180, (70, 84, 96), -3.0)
    for k in range(4):
        canvas.line(
            (90 + 90 * k, 240), (140 + 90 * k, 80), (160, 176, 186), int(rng.integers(3, 9))
        )
    canvas.rect(438, 280, 16, 60, (196, 180, 120))
    canvas.text("12", 226, 36, 60, 28, (240, 236, 220))
    canvas.speckle(300, (2, 6), (0.7, 1.2))
    return canvas


def _stucco(rng: np.random.Generator) -> Canvas:
    """Paint scratched render with patches, cracks and traces of rain."""
    canvas = Canvas(rng, (214, 208, 196), 0.10)
    canvas.speckle(5200, (2, 6), (0.82, 1.14))
    canvas.speckle(900, (5, 14), (0.78, 1.12))
    for _ in range(26):
        x, y = (int(v) for v in rng.integers(0, _S, 2))
        cv2.line(
            canvas.shade,
            (x, y),
            (x + int(rng.integers(-5, 6)), y + int(rng.integers(60, 320))),
            0.8,
            5,
        )
    canvas.stain(6, 0.22)
    canvas.cracks(12, 0.6)
    return _repeated(canvas)


def _house_brick(rng: np.random.Generator) -> Canvas:
    """Paint clean brickwork."""
    canvas = Canvas(rng, (156, 92, 72), 0.08)
    courses(canvas, 64, 32, 0.28, (176, 168, 154))
    canvas.speckle(1600, (2, 6), (0.7, 1.2))
    canvas.stain(5, 0.2)
    canvas.cracks(6, 0.6)
    return _repeated(canvas)


def _roof_tiles(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (156, 84, 62), 0.08)
    for row, y in enumerate(range(0, _S, 64)):
        for x in range(-(row % 2) * 32, _S, 64):
            tone = float(rng.uniform(0.7, 1.2))
            canvas.shade[y : y + 64, max(x, 0) : max(x + 64, 0)] *= np.float32(tone)
            canvas.rect(x, y + 56, 64, 8, (74, 42, 36))
            canvas.rect(x, y, 4, 64, (96, 54, 42))
            canvas.level(x + 6, y, 52, 54, 5.0)
    canvas.speckle(900, (2, 8), (0.6, 1.3))
    return _repeated(canvas)


def _lane(rng: np.random.Generator) -> Canvas:
    """Paint asphalt with a dash of the middle line along its lower edge and a gutter along the
    upper one.
    """
    canvas = asphalt(rng)
    canvas.rect(100, _S - 19, 560, 19, _WHITE)
    canvas.rect(0, 0, _S, 60, (96, 94, 90))
    for x in range(0, _S, 128):
        canvas.rect(x, 0, 5, 60, (52, 50, 48))
    canvas.speckle(700, (2, 9), (0.6, 1.3))
    return canvas


def _zebra(rng: np.random.Generator) -> Canvas:
    canvas = asphalt(rng)
    for y in range(40, _S, 256):
        canvas.rect(80, y, 860, 130, _WHITE)
    canvas.speckle(1500, (2, 10), (0.55, 1.2))
    canvas.cracks(10, 0.5)
    return canvas


def _concrete(rng: np.random.Generator) -> Canvas:
    """Paint cast concrete: joints of the boards, pores, runs of water."""
    canvas = Canvas(rng, (158, 156, 150), 0.12)
    for y in range(0, _S, 256):
        canvas.rect(0, y, _S, 4, (112, 110, 106))
    for x in range(0, _S, 512):
        canvas.rect(x, 0, 4, _S, (118, 116, 112))
    for x in range(128, _S, 256):
        for y in range(128, _S, 256):
            cv2.circle(canvas.colour, (x, y), 9, (84, 82, 80), -1)
    canvas.speckle(1800, (2, 5), (0.45, 1.2))
    canvas.speckle(600, (8, 20), (0.5, 1.45))
    canvas.stain(8, 0.35)
    canvas.cracks(9, 0.55)
    return _repeated(canvas)


def _garage_floor(rng: np.random.Generator) -> Canvas:
    """Paint sealed concrete with tyre marks, drops of oil and an arrow."""
    canvas = Canvas(rng, (136, 136, 134), 0.12)
    canvas.speckle(2600, (2, 6), (0.6, 1.35))
    canvas.speckle(900, (8, 20), (0.45, 1.55))
    for _ in range(4):
        y = int(rng.integers(60, 960))
        path = (
            np.array([(x, y + 14 * np.sin(0.004 * x + y)) for x in range(0, _S + 1, 32)])
            .round()
            .astype(np.int32)
        )
        cv2.polylines(canvas.shade, [path], False, 0.72, int(rng.integers(18, 40)))
    for x, y in rng.integers(40, 980, (9, 2)).tolist():
        cv2.circle(canvas.shade, (x, y), int(rng.integers(6, 30)), 0.55, -1)
    canvas.line((300, 512), (700, 512), _WHITE, 34)
    for y in (430, 594):
        canvas.line((590, y), (724, 512), _WHITE, 34)
    canvas.cracks(9, 0.5)
    canvas.stain(5, 0.3)
    return canvas


def _garage_bays(rng: np.random.Generator, first: int) -> Canvas:
    """Paint two bays side by side, whose cars come in from below, with numbers."""
    canvas = Canvas(rng, (128, 128, 128), 0.12)
    canvas.speckle(2600, (2, 6), (0.6, 1.35))
    canvas.speckle(800, (8, 20), (0.45, 1.55))
    for x in (0, 502, _S - 20):
        canvas.rect(x, 0, 20, 940, _YELLOW)
    canvas.rect(0, 0, _S, 20, _YELLOW)
    for bay in range(2):
        canvas.text(str(first + bay), 170 + 512 * bay, 800, 170, 110, _WHITE)
        for x, y in rng.integers(0, 120, (3, 2)).tolist():
            cv2.circle(
                canvas.shade, (200 + 512 * bay + x, 330 + 2 * y), int(rng.integers(8, 34)), 0.5, -1
            )
    canvas.speckle(1100, (2, 9), (0.6, 1.25))
    canvas.cracks(8, 0.5)
    canvas.stain(4, 0.3)
    return canvas


def _garage_wall(rng: np.random.Generator) -> Canvas:
    """Paint a concrete wall with a coloured band, the level's name, and the marks of bumpers."""
    canvas = _concrete(rng)
    canvas.rect(0, 560, _S, 250, (58, 116, 152))
    canvas.rect(0, 548, _S, 12, _WHITE)
    canvas.text("P2", 90, 600, 170, 160, _WHITE)
    canvas.text("EXIT", 470, 610, 260, 130, _WHITE)
    canvas.line((770, 680), (900, 680), _WHITE, 24)
    for y in (630, 730):
        canvas.line((850, y), (910, 680), _WHITE, 24)
    for x, y in rng.integers(0, 900, (40, 2)).tolist():
        canvas.line(
            (x, 830 + y // 9), (x + int(rng.integers(20, 110)), 836 + y // 9), (70, 70, 72), 4
        )
    canvas.speckle(900, (2, 8), (0.65, 1.2))
    return canvas


def _garage_column(rng: np.random.Generator) -> Canvas:
    """Paint a column's side: concrete, a letter, yellow and black stripes below."""
    canvas = _concrete(rng)
    canvas.rect(0, 640, _S, 384, _YELLOW)
    for x in range(-512, _S, 256):
        corners = np.array([(x, _S), (x + 128, _S), (x + 512, 640), (x + 384, 640)], np.int32)
        cv2.fillPoly(canvas.colour, [corners], _BLACK)
    canvas.text("B7", 250, 330, 520, 220, (58, 116, 152))
    canvas.speckle(900, (2, 10), (0.6, 1.25))
    return canvas


STREET: Final[dict[str, Surface]] = {
    "house_window": Surface(_house_window, 0.4, bump_px=0.0),
    "house_door": Surface(_entrance, 0.6, bump_px=0.0),
    "stucco": Surface(_stucco, bump_px=3.0),
    "house_brick": Surface(_house_brick, bump_px=3.0),
    "roof_tiles": Surface(_roof_tiles, bump_px=1.0),
    "asphalt_lane": Surface(_lane, bump_px=4.0),
    "asphalt_zebra": Surface(_zebra, bump_px=4.0),
    "concrete": Surface(_concrete, bump_px=2.0),
    "garage_floor": Surface(_garage_floor, 0.8, bump_px=2.0),
    "garage_bays": Surface(partial(_garage_bays, first=14), 0.8, bump_px=2.0),
    "garage_bays_more": Surface(partial(_garage_bays, first=62), 0.8, bump_px=2.0),
    "garage_wall": Surface(_garage_wall, bump_px=2.0),
    "garage_column": Surface(_garage_column, bump_px=2.0),
}
