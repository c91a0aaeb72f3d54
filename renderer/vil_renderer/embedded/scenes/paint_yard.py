"""Painted surfaces of the open air: asphalt, grass, gravel, facades, leaves, wire mesh."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.scenes.paint import SIZE_PX, Canvas, Colour, Surface
from vil_renderer.embedded.scenes.paint_building import courses

_S: Final = SIZE_PX
_WHITE: Final[Colour] = (222, 220, 210)
_YELLOW: Final[Colour] = (206, 162, 42)


def asphalt(rng: np.random.Generator) -> Canvas:
    """Paint asphalt with stones, fallen leaves and cracks."""
    canvas = Canvas(rng, (116, 115, 114), 0.14)
    canvas.speckle(1800, (2, 6), (0.5, 1.6))
    canvas.speckle(420, (6, 18), (0.62, 1.4))
    for _ in range(26):
        x, y = (int(v) for v in rng.integers(10, _S - 10, 2))
        _leaf(
            canvas,
            x,
            y,
            float(rng.uniform(9, 16)),
            ((150, 112, 52), (126, 88, 44), (164, 138, 64))[x % 3],
        )
    canvas.cracks(10, 0.45)
    canvas.stain(4, 0.3)
    return canvas


def _asphalt_patched(rng: np.random.Generator) -> Canvas:
    canvas = asphalt(rng)
    for _ in range(3):
        x, y = (int(v) for v in rng.integers(40, 620, 2))
        w, h = (int(v) for v in rng.integers(160, 360, 2))
        canvas.shade[y : y + h, x : x + w] *= rng.uniform(0.68, 0.85)
        canvas.rect(x, y, w, h, (48, 48, 50), 7)
    cv2.circle(canvas.colour, (760, 220), 96, (70, 66, 62), -1)
    cv2.circle(canvas.colour, (760, 220), 96, (40, 38, 36), 10)
    for k in range(5):
        canvas.rect(690, 160 + 28 * k, 140, 10, (112, 104, 94))
    canvas.cracks(8, 0.45)
    return canvas


def _asphalt_marked(rng: np.random.Generator) -> Canvas:
    canvas = asphalt(rng)
    canvas.rect(80, 0, 26, _S, _WHITE)
    canvas.rect(80, 500, 480, 26, _WHITE)
    canvas.text("P 12", 190, 130, 300, 180, _WHITE)
    canvas.line((760, 920), (760, 600), _YELLOW, 34)
    canvas.line((690, 700), (760, 590), _YELLOW, 34)
    canvas.line((830, 700), (760, 590), _YELLOW, 34)
    for k in range(6):
        canvas.line((180 + 70 * k, 900), (250 + 70 * k, 640), _YELLOW, 18)
    canvas.tag(690, 120, 240)
    canvas.speckle(900, (2, 9), (0.6, 1.3))
    canvas.cracks(8, 0.5)
    return canvas


def _blades(canvas: Canvas, count: int, tones: tuple[Colour, ...]) -> None:
    """Paint short strokes of grass."""
    rng = canvas.rng
    start = rng.integers(0, canvas.size, (count, 2))
    end = start + np.stack((rng.integers(-9, 10, count), rng.integers(-26, -8, count)), axis=-1)
    for a, b, tone in zip(
        start.tolist(), end.tolist(), rng.integers(0, len(tones), count), strict=True
    ):
        cv2.line(canvas.colour, a, b, tones[tone], 2 + int(tone % 2))


def _grass(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (96, 118, 58), 0.16)
    _blades(
        canvas, 5200, ((70, 98, 40), (118, 140, 70), (92, 124, 52), (150, 158, 92), (58, 80, 36))
    )
    canvas.speckle(420, (3, 11), (0.55, 1.35))
    for x, y in rng.integers(10, _S - 10, (70, 2)).tolist():
        cv2.circle(
            canvas.colour,
            (x, y),
            int(rng.integers(4, 8)),
            (236, 230, 190) if x % 3 else (232, 204, 70),
            -1,
        )
    canvas.stain(3, 0.25)
    return canvas


def _grass_worn(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (134, 118, 84), 0.16)
    canvas.speckle(900, (2, 12), (0.6, 1.3))
    _blades(canvas, 3000, ((86, 108, 50), (122, 136, 72), (146, 146, 90), (104, 110, 62)))
    canvas.speckle(260, (4, 14), (0.6, 1.5))
    canvas.cracks(5, 0.5)
    return canvas


def _gravel(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (150, 142, 130), 0.10)
    canvas.speckle(5200, (5, 16), (0.5, 1.4))
    canvas.stain(3, 0.2)
    return canvas


def _facade(rng: np.random.Generator) -> Canvas:
    """Paint two windows in coloured render, with sills, a downpipe shadow and weather."""
    canvas = Canvas(rng, (192, 168, 128), 0.08)
    canvas.speckle(1500, (2, 6), (0.8, 1.15))
    canvas.rect(0, 0, _S, 40, (120, 96, 78))
    for x in (90, 570):
        canvas.plate(x - 24, 176, 408, 620, (222, 216, 204), 4.0)
        canvas.plate(x, 200, 360, 560, (58, 66, 76), -4.0)
        for row in range(3):
            for column in range(2):
                glow = float(rng.uniform(0.55, 1.0))
                left = x + 16 + 170 * column
                top = 216 + 182 * row
                canvas.rect(
                    left, top, 158, 166, (int(130 * glow), int(160 * glow), int(184 * glow))
                )
                canvas.line(
                    (left + 20, top + 150),
                    (left + 120, top + 20),
                    (206, 220, 228),
                    int(rng.integers(4, 14)),
                )
        canvas.plate(x - 40, 790, 440, 34, (150, 146, 138), 8.0)
    canvas.stain(5, 0.3)
    canvas.cracks(5, 0.65)
    return canvas


def _pavers(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (160, 150, 142), 0.08)
    courses(canvas, 128, 64, 0.2, (90, 86, 80))
    canvas.speckle(900, (2, 8), (0.6, 1.25))
    canvas.stain(4, 0.3)
    return canvas


def _bark(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (104, 82, 62), 0.14, 512)
    for _ in range(240):
        x, y = (int(v) for v in rng.integers(0, 512, 2))
        end = (x + int(rng.integers(-8, 9)), y + int(rng.integers(30, 120)))
        cv2.line(canvas.shade, (x, y), end, float(rng.uniform(0.45, 1.35)), int(rng.integers(2, 6)))
    return canvas


def _leaf(canvas: Canvas, x: float, y: float, length: float, colour: Colour) -> None:
    angle = canvas.rng.uniform(0, 2 * np.pi)
    along = np.array([np.cos(angle), np.sin(angle)]) * length
    across = np.array([-along[1], along[0]]) * 0.32
    middle = np.array([x, y])
    corners = [
        middle - along,
        middle - 0.2 * along + across,
        middle + along,
        middle - 0.2 * along - across,
    ]
    outline = np.array(corners).round().astype(np.int32)
    cv2.fillPoly(canvas.colour, [outline], colour)
    if canvas.cover is not None:
        cv2.fillPoly(canvas.cover, [outline], 255)


_GREENS: Final[tuple[Colour, ...]] = (
    (74, 104, 44),
    (98, 130, 58),
    (58, 86, 40),
    (124, 146, 74),
    (88, 112, 46),
)


def _foliage(rng: np.random.Generator) -> Canvas:
    """Paint leaves so dense that nothing shows between them."""
    canvas = Canvas(rng, (52, 72, 36), 0.16, 512)
    for x, y in rng.uniform(0, 512, (900, 2)):
        _leaf(canvas, x, y, rng.uniform(9, 18), _GREENS[int(rng.integers(0, 5))])
    return canvas


def _twigs(rng: np.random.Generator) -> Canvas:
    """Paint a bunch of leaves, round, with gaps."""
    canvas = Canvas(rng, (70, 96, 44), 0.12, 512)
    canvas.cover = np.zeros((512, 512), np.uint8)
    for _ in range(260):
        radius = 225 * np.sqrt(rng.uniform())
        angle = rng.uniform(0, 2 * np.pi)
        x = 256 + radius * np.cos(angle)
        y = 256 + radius * np.sin(angle)
        _leaf(canvas, x, y, rng.uniform(14, 27), _GREENS[int(rng.integers(0, 5))])
    return canvas


def _wire_mesh(rng: np.random.Generator) -> Canvas:
    """Paint a fence panel of welded bars, 2.5 x 1.8 m, with a sign."""
    canvas = Canvas(rng, (62, 104, 84), 0.06)
    cover: npt.NDArray[np.uint8] = np.zeros((_S, _S), np.uint8)
    for x in range(0, _S, 64):
        cover[:, x : x + 14] = 255
    for y in range(0, _S, 146):
        cover[y : y + 22] = 255
    cover[:, -14:] = cover[-22:] = 255
    cover[330:640, 390:640] = 255
    canvas.rect(390, 330, 250, 310, (238, 222, 90))
    canvas.rect(390, 330, 250, 310, (40, 40, 42), 8)
    canvas.tag(430, 350, 170, 4)
    canvas.text("DRONES", 410, 540, 210, 60, (40, 40, 42))
    canvas.cover = cover
    return canvas


YARD: Final[dict[str, Surface]] = {
    "asphalt": Surface(asphalt, bump_px=4.0),
    "asphalt_patched": Surface(_asphalt_patched, bump_px=4.0),
    "asphalt_marked": Surface(_asphalt_marked, bump_px=4.0),
    "grass": Surface(_grass),
    "grass_worn": Surface(_grass_worn),
    "gravel": Surface(_gravel, bump_px=6.0),
    "facade": Surface(_facade, bump_px=2.0),
    "pavers": Surface(_pavers, bump_px=2.0),
    "bark": Surface(_bark, bump_px=6.0),
    "foliage": Surface(_foliage),
    "twigs": Surface(_twigs, cut_out=True),
    "wire_mesh": Surface(_wire_mesh, 0.6, cut_out=True),
}
