"""Painted surfaces of a race course: padded gates, sports floors, boards, seats and the crowd."""

from __future__ import annotations

from functools import partial
from typing import Final

import cv2
import numpy as np

from vil_renderer.embedded.scenes.paint import SIZE_PX, Canvas, Colour, Surface

_S: Final = SIZE_PX
_WHITE: Final[Colour] = (236, 234, 228)
_DARK: Final[Colour] = (28, 30, 36)
_NUMBERS_ACROSS: Final = 4


def number_uv(number: int) -> tuple[float, float, float, float]:
    """Return where the surface ``numbers`` shows a number, 0..15."""
    row, column = divmod(number, _NUMBERS_ACROSS)
    step = 1.0 / _NUMBERS_ACROSS
    return column * step, row * step, (column + 1) * step, (row + 1) * step


def _padding(rng: np.random.Generator, colour: Colour) -> Canvas:
    """Paint quilted cloth with squares, arrows and markers."""
    canvas = Canvas(rng, colour, 0.07)
    step = _S // 16
    for row in range(16):
        for column in range(16):
            pick = int(rng.integers(0, 9))
            if pick < 4:
                tone = (_WHITE, _DARK, _DARK, (206, 196, 60))[pick]
                canvas.rect(column * step + 4, row * step + 4, step - 8, step - 8, tone)
    for k in range(8):
        x, y = (int(v) * step for v in rng.integers(0, 14, 2))
        if k % 2:
            canvas.tag(x, y, 2 * step, 4)
        else:
            canvas.rect(x, y, 2 * step, 2 * step, _WHITE)
            canvas.line((x + 20, y + 20), (x + 108, y + 64), colour, 18)
            canvas.line((x + 20, y + 108), (x + 108, y + 64), colour, 18)
    for k in range(0, _S, 64):
        cv2.line(canvas.shade, (k, 0), (k, _S), 0.7, 3)
        cv2.line(canvas.shade, (0, k), (_S, k), 0.7, 3)
    canvas.speckle(500, (2, 8), (0.75, 1.15))
    return canvas


def _sports_floor(rng: np.random.Generator) -> Canvas:
    """Paint boards of wood with scuffs and the lines of several games."""
    canvas = Canvas(rng, (176, 138, 92), 0.08)
    for k in range(32):
        values = np.repeat(rng.uniform(0.84, 1.1, 9), 128)
        canvas.shade[k * 32 : k * 32 + 32] *= np.roll(values, int(rng.integers(0, 1024)))[:_S]
        canvas.rect(0, 32 * k, _S, 2, (110, 84, 56))
    canvas.speckle(900, (2, 9), (0.62, 1.15))
    canvas.stain(4, 0.2)
    return canvas


def _sports_floor_lines(rng: np.random.Generator) -> Canvas:
    canvas = _sports_floor(rng)
    canvas.rect(150, 0, 22, _S, (40, 90, 160))
    canvas.rect(0, 700, _S, 22, (190, 50, 44))
    cv2.circle(canvas.colour, (560, 330), 210, _WHITE, 18, cv2.LINE_AA)
    canvas.rect(640, 560, 18, 464, (60, 140, 80))
    canvas.cracks(4, 0.6)
    return canvas


def _sports_floor_mark(rng: np.random.Generator) -> Canvas:
    canvas = _sports_floor(rng)
    canvas.rect(120, 140, 780, 360, (36, 72, 120))
    canvas.text("VIL RACE", 170, 190, 680, 180, _WHITE)
    for k in range(9):
        canvas.rect(150 + 82 * k, 420, 50, 50, _WHITE if k % 2 else (232, 112, 40))
    for k in range(5):
        canvas.line((180 + 120 * k, 820), (260 + 120 * k, 700), (206, 60, 44), 30)
        canvas.line((180 + 120 * k, 700), (260 + 120 * k, 820), _DARK, 14)
    canvas.tag(760, 620, 210)
    canvas.speckle(400, (2, 8), (0.65, 1.15))
    return canvas


def _numbers(rng: np.random.Generator) -> Canvas:
    """Paint a sheet of plates, 0 to 15."""
    canvas = Canvas(rng, (30, 34, 44), 0.03)
    for number in range(_NUMBERS_ACROSS**2):
        row, column = divmod(number, _NUMBERS_ACROSS)
        x = 256 * column
        y = 256 * row
        canvas.rect(x + 8, y + 8, 240, 240, (238, 222, 90) if number % 2 else _WHITE)
        canvas.rect(x + 8, y + 8, 240, 240, (206, 60, 44), 10)
        left = 74
        width = 108
        if number > 9:
            left = 40
            width = 176
        canvas.text(str(number), x + left, y + 44, width, 168, _DARK)
    return canvas


def _board(rng: np.random.Generator, colour: Colour, words: tuple[str, str]) -> Canvas:
    """Paint advertising, four boards under one another."""
    canvas = Canvas(rng, colour, 0.06)
    for k in range(4):
        y = 256 * k
        if k % 2:
            canvas.rect(0, y, _S, 256, _WHITE)
        canvas.text(words[k % 2], 60, y + 50, 620, 150, colour if k % 2 else _WHITE)
        canvas.tag(760, y + 30, 190, 5)
        canvas.rect(0, y, _S, 256, _DARK, 10)
        for x in range(20, 700, 56):
            canvas.rect(x, y + 222, 34, 18, (232, 112, 40) if (x // 56) % 2 else (120, 150, 170))
    canvas.speckle(400, (2, 8), (0.75, 1.15))
    return canvas


def _seats(rng: np.random.Generator) -> Canvas:
    """Paint a row of eight seats."""
    canvas = Canvas(rng, (70, 72, 78), 0.06, 512)
    for k in range(8):
        tone = (200, 60, 50) if rng.uniform() < 0.7 else (230, 226, 214)
        canvas.rect(64 * k + 6, 30, 52, 470, tone)
        canvas.rect(64 * k + 16, 70, 32, 60, _DARK)
        canvas.text(str(k + 1), 64 * k + 22, 80, 20, 40, _WHITE)
    canvas.speckle(300, (2, 6), (0.7, 1.2))
    return canvas


def _crowd(rng: np.random.Generator) -> Canvas:
    """Paint four rows of spectators from the hips up, 0.95 m high and 3.8 m wide each."""
    canvas = Canvas(rng, (120, 110, 100), 0.10)
    canvas.cover = np.zeros((_S, _S), np.uint8)
    for row in range(4):
        for x in range(70, _S - 60, 126):
            if rng.uniform() < 0.85:
                _spectator(canvas, x, 256 * (row + 1), int(rng.integers(24, 56)))
    return canvas


_SKINS: Final[tuple[Colour, ...]] = (
    (224, 180, 148),
    (186, 136, 100),
    (132, 90, 64),
    (238, 200, 172),
)


def _any_colour(rng: np.random.Generator, low: int, high: int) -> tuple[int, ...]:
    """Return a random colour with channels from low to below high."""
    return tuple(int(v) for v in rng.integers(low, high, 3))


def _spectator(canvas: Canvas, x: int, hips: int, missing_px: int) -> None:
    rng = canvas.rng
    top = hips - 256 + missing_px
    shirt = _any_colour(rng, 60, 210)
    hair = _any_colour(rng, 20, 110)
    skin = _SKINS[int(rng.integers(0, len(_SKINS)))]
    outline = [
        (-54, hips),
        (-58, top + 104),
        (-40, top + 76),
        (40, top + 76),
        (58, top + 104),
        (54, hips),
    ]
    body = np.array([(x + dx, y) for dx, y in outline], np.int32)
    assert canvas.cover is not None
    for target, below, above in (
        (canvas.colour, shirt, hair),
        (canvas.cover, (255,), (255,)),
    ):
        cv2.fillPoly(target, [body], below)
        cv2.ellipse(target, (x, top + 38), (28, 36), 0, 0, 360, above, -1)
    cv2.ellipse(canvas.colour, (x, top + 48), (22, 27), 0, 0, 360, skin, -1)
    canvas.rect(x - 11, top + 42, 6, 5, _DARK)
    canvas.rect(x + 6, top + 42, 6, 5, _DARK)
    canvas.rect(x - 7, top + 60, 14, 4, (150, 70, 64))
    canvas.rect(x - 24, top + 118, 48, 28, _WHITE)
    canvas.text(str(int(rng.integers(10, 99))), x - 18, top + 121, 36, 22, _DARK)


RACE: Final[dict[str, Surface]] = {
    "race_gate": Surface(partial(_padding, colour=(222, 84, 36))),
    "race_gate_blue": Surface(partial(_padding, colour=(40, 96, 180))),
    "sports_floor": Surface(_sports_floor, 0.5),
    "sports_floor_lines": Surface(_sports_floor_lines, 0.5),
    "sports_floor_mark": Surface(_sports_floor_mark, 0.5),
    "numbers": Surface(_numbers),
    "boards": Surface(partial(_board, colour=(36, 72, 120), words=("VIL BRIDGE", "FLY FAST"))),
    "boards_red": Surface(partial(_board, colour=(168, 44, 40), words=("AUTONOMY", "LAP RECORD"))),
    "seats": Surface(_seats, 0.7),
    "crowd": Surface(_crowd, cut_out=True),
}
