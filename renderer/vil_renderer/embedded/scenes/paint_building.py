"""Painted surfaces of buildings: floors, walls, ceilings."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_renderer.embedded.scenes.paint import SIZE_PX, Canvas, Colour, Surface

_S: Final = SIZE_PX
_JOINT_PX: Final = 2.0
_MORTAR_PX: Final = 2.5
_WAVE: Final = 0.05
"""Height of a corrugated sheet's waves for their length."""


def concrete(rng: np.random.Generator, colour: Colour = (150, 147, 140)) -> Canvas:
    """Paint speckled, stained concrete."""
    canvas = Canvas(rng, colour, 0.10)
    canvas.stain(5, 0.35)
    canvas.speckle(1400, (2, 6), (0.55, 1.3))
    canvas.speckle(160, (6, 20), (0.72, 1.18))
    return canvas


def joints(canvas: Canvas, step: int, colour: Colour, width: int) -> None:
    """Paint lines in a square grid."""
    for k in range(0, _S + 1, step):
        canvas.line((k, 0), (k, _S), colour, width)
        canvas.line((0, k), (_S, k), colour, width)
        canvas.level(k - width // 2, 0, width, _S, -_JOINT_PX)
        canvas.level(0, k - width // 2, _S, width, -_JOINT_PX)


def _floor_plain(rng: np.random.Generator) -> Canvas:
    canvas = concrete(rng)
    canvas.cracks(9, 0.45)
    joints(canvas, _S // 2, (74, 72, 70), 5)
    return canvas


def _floor_lane(rng: np.random.Generator) -> Canvas:
    canvas = concrete(rng, (143, 142, 139))
    for x in (150, 810):
        canvas.rect(x, 0, 34, _S, (206, 162, 42))
    for y in range(40, _S, 170):
        canvas.rect(480, y, 30, 95, (222, 220, 210))
    canvas.speckle(500, (3, 13), (0.62, 1.15))
    canvas.cracks(6, 0.5)
    joints(canvas, _S // 2, (74, 72, 70), 5)
    return canvas


def _floor_marked(rng: np.random.Generator) -> Canvas:
    canvas = concrete(rng, (152, 150, 144))
    canvas.rect(110, 120, 360, 300, (58, 112, 138), 16)
    canvas.text("B7", 190, 190, 200, 160, (222, 220, 210))
    for k in range(9):
        corner = 540 + 50 * k
        canvas.line(
            (corner, 700), (corner + 60, 780), (206, 162, 42) if k % 2 else (40, 38, 38), 26
        )
    canvas.text("KEEP CLEAR", 530, 830, 430, 70, (196, 60, 44))
    canvas.tag(700, 180, 230)
    canvas.rect(90, 640, 300, 26, (222, 220, 210))
    canvas.line((240, 560), (240, 930), (222, 220, 210), 22)
    canvas.speckle(500, (3, 12), (0.65, 1.15))
    joints(canvas, _S // 2, (74, 72, 70), 5)
    return canvas


def courses(canvas: Canvas, width: int, height: int, spread: float, mortar: Colour) -> None:
    """Paint bricks or blocks in running bond, each of its own shade."""
    rows = _S // height
    for row in range(rows):
        values = np.repeat(canvas.rng.uniform(1 - spread, 1 + spread, _S // width + 1), width)
        canvas.shade[row * height : (row + 1) * height] *= np.roll(values, -(row % 2) * width // 2)[
            :_S
        ]
    for row in range(rows + 1):
        y = row * height
        canvas.plate(0, y - 2, _S, 4, mortar, -_MORTAR_PX)
        for x in range((row % 2) * width // 2, _S + 1, width):
            canvas.plate(x - 2, y, 4, height, mortar, -_MORTAR_PX)


def _wall_brick(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (160, 92, 70), 0.10)
    courses(canvas, 64, 32, 0.30, (186, 178, 166))
    canvas.rect(0, 640, _S, 18, (52, 60, 66))
    canvas.rect(700, 250, 190, 260, (206, 200, 186))
    canvas.text("SECTOR", 716, 268, 158, 44, (40, 44, 50))
    canvas.text("04", 726, 340, 138, 140, (188, 62, 40))
    canvas.rect(120, 330, 150, 190, (64, 74, 82))
    for k in range(5):
        canvas.rect(140, 352 + 30 * k, 110, 14, (120 + 20 * k, 150, 90))
    canvas.speckle(500, (3, 11), (0.6, 1.25))
    canvas.stain(4, 0.3)
    return canvas


def _wall_block(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (178, 180, 174), 0.08)
    courses(canvas, 128, 64, 0.12, (138, 138, 134))
    canvas.colour[576:] = (60, 94, 101)
    canvas.rect(0, 570, _S, 10, (226, 224, 214))
    for x in (70, 96, 930):
        canvas.rect(x, 0, 14, _S, (112, 116, 118))
        for y in range(60, _S, 150):
            canvas.rect(x - 6, y, 26, 10, (64, 66, 68))
    canvas.tag(420, 180, 250, 5)
    canvas.rect(200, 640, 130, 170, (196, 60, 40))
    canvas.text("FIRE", 212, 690, 106, 50, (240, 236, 226))
    canvas.text("HALL 2", 500, 780, 400, 100, (218, 220, 214))
    canvas.speckle(700, (2, 9), (0.6, 1.25))
    canvas.cracks(6, 0.5)
    return canvas


def _wall_board(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (186, 148, 98), 0.08)
    canvas.speckle(2600, (5, 26), (0.72, 1.22))
    for x in (0, _S // 2, _S - 8):
        canvas.plate(x, 0, 8, _S, (92, 70, 46), -_JOINT_PX)
    canvas.plate(0, 504, _S, 8, (92, 70, 46), -_JOINT_PX)
    for x in range(30, _S, 120):
        for y in (20, 486, 530, _S - 20):
            canvas.rect(x, y, 7, 7, (54, 50, 48))
    canvas.rect(90, 110, 330, 300, (232, 228, 214))
    canvas.rect(110, 130, 290, 120, (44, 106, 132))
    canvas.text("FLIGHT", 126, 155, 258, 70, (240, 238, 230))
    for k in range(6):
        canvas.rect(112, 270 + 21 * k, int(rng.integers(120, 280)), 9, (70, 74, 78))
    canvas.tag(640, 600, 300, 7)
    return canvas


def corrugated(rng: np.random.Generator, colour: Colour, period: int) -> Canvas:
    """Paint sheet metal in upright waves, ``period`` pixels each."""
    canvas = Canvas(rng, colour, 0.08)
    wave = np.sin(np.arange(_S, dtype=np.float32) * np.float32(2 * np.pi / period))
    canvas.shade *= np.float32(0.82) + np.float32(0.28) * wave
    canvas.relief[:] = np.float32(_WAVE * period) * wave
    return canvas


_PANES: Final = tuple((x / _S, 180 / _S, (x + 420) / _S, 740 / _S) for x in (60, 540))


def _wall_window(rng: np.random.Generator) -> Canvas:
    canvas = corrugated(rng, (150, 158, 160), 42)
    for x in (60, 540):
        canvas.plate(x, 180, 420, 560, (48, 54, 60), 0.0)
        for row in range(4):
            for column in range(3):
                glow = float(rng.uniform(0.72, 1.0))
                pane = (int(206 * glow), int(226 * glow), int(240 * glow))
                canvas.rect(x + 16 + 132 * column, 196 + 136 * row, 122, 122, pane)
                low = (x + 24 + 132 * column, 300 + 136 * row)
                canvas.line(
                    low, (low[0] + 86, low[1] - 86), (246, 250, 252), int(rng.integers(3, 14))
                )
    canvas.speckle(700, (2, 9), (0.6, 1.15))
    canvas.stain(4, 0.3)
    for x in (60, 540):  # glass lets light through, whatever is on the wall
        glass = canvas.shade[180:740, x : x + 420]
        glass += np.float32(0.75) * (np.float32(1.12) - glass)
    return canvas


def _wall_sheet(rng: np.random.Generator) -> Canvas:
    canvas = corrugated(rng, (134, 148, 152), 42)
    for y in (120, 700):
        canvas.plate(0, y, _S, 46, (196, 178, 96) if y == 120 else (116, 120, 124), 3.0)
        for x in range(40, _S, 190):
            canvas.rect(x, y - 10, 22, 66, (60, 62, 66))
    for x in range(20, _S, 84):
        for y in (40, 360, 620, 960):
            canvas.rect(x, y, 8, 8, (66, 70, 74))
    canvas.plate(320, 300, 380, 240, (60, 66, 72), 4.0)
    for k in range(8):
        canvas.rect(340, 320 + 26 * k, 340, 12, (126, 132, 134))
    canvas.text("VENT 11", 340, 565, 250, 50, (226, 222, 206))
    canvas.speckle(900, (2, 12), (0.5, 1.2))
    canvas.stain(8, 0.4)
    return canvas


def _ceiling_tiles(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (176, 176, 170), 0.06)
    step = _S // 4
    for row in range(4):
        for column in range(4):
            canvas.shade[row * step : (row + 1) * step, column * step : (column + 1) * step] *= (
                rng.uniform(0.8, 1.08)
            )
    canvas.speckle(2600, (2, 6), (0.45, 1.1))
    joints(canvas, step, (84, 86, 88), 9)
    for x, y in ((1, 2), (3, 0)):
        canvas.rect(x * step + 40, y * step + 40, 176, 176, (70, 74, 78))
        for k in range(6):
            canvas.rect(x * step + 52, y * step + 54 + 26 * k, 152, 12, (138, 142, 144))
    return canvas


def _ceiling_trays(rng: np.random.Generator) -> Canvas:
    canvas = corrugated(rng, (146, 150, 150), 64)
    for y in (180, 640):
        canvas.plate(0, y, _S, 90, (70, 72, 76), 6.0)
        for x in range(0, _S, 48):
            canvas.rect(x, y + 8, 30, 74, (104 + int(rng.integers(0, 50)), 106, 108))
        for k, colour in enumerate(((190, 70, 44), (44, 44, 48), (64, 120, 148), (206, 170, 64))):
            canvas.rect(0, y + 16 + 18 * k, _S, 7, colour)
    canvas.speckle(1200, (2, 10), (0.5, 1.2))
    canvas.stain(5, 0.3)
    return canvas


BUILDING: Final[dict[str, Surface]] = {
    "floor_plain": Surface(_floor_plain, 0.8, bump_px=2.0),
    "floor_lane": Surface(_floor_lane, 0.8, bump_px=2.0),
    "floor_marked": Surface(_floor_marked, 0.8, bump_px=2.0),
    "wall_brick": Surface(_wall_brick, bump_px=3.0),
    "wall_block": Surface(_wall_block, bump_px=2.0),
    "wall_board": Surface(_wall_board, bump_px=2.0),
    "wall_window": Surface(_wall_window, 0.6, bump_px=0.0, windows=_PANES),
    "wall_sheet": Surface(_wall_sheet, 0.6, bump_px=0.0),
    "ceiling_tiles": Surface(_ceiling_tiles, bump_px=2.0),
    "ceiling_trays": Surface(_ceiling_trays, 0.7, bump_px=0.0),
}
