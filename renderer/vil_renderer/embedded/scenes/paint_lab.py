"""Painted surfaces of a laboratory: mats, plaster, desks, screens, boards, posters."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from vil_renderer.embedded.scenes.paint import Canvas, Colour, Surface

_S: Final = 512
_INK: Final[Colour] = (44, 46, 52)


def _vinyl(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (128, 138, 144), 0.08, _S)
    for row in range(4):
        for column in range(4):
            canvas.shade[row * 128 : row * 128 + 128, column * 128 : column * 128 + 128] *= (
                rng.uniform(0.86, 1.08)
            )
    canvas.speckle(1500, (1, 4), (0.5, 1.5))
    for k in range(0, _S, 128):
        canvas.plate(k, 0, 2, _S, (84, 90, 94), -1.5)
        canvas.plate(0, k, _S, 2, (84, 90, 94), -1.5)
    canvas.rect(60, 190, 10, 150, (206, 170, 50))
    canvas.rect(60, 190, 150, 10, (206, 170, 50))
    canvas.stain(3, 0.25)
    return canvas


def _mat(rng: np.random.Generator) -> Canvas:
    """Paint foam with a diamond profile, jigsaw edges and scraps of coloured tape."""
    canvas = Canvas(rng, (168, 172, 176), 0.06, _S)
    for k in range(-_S, _S, 32):
        for start, end in (((k, 0), (k + _S, _S)), ((k, _S), (k + _S, 0))):
            cv2.line(canvas.shade, start, end, 0.72, 3)
            cv2.line(canvas.relief, start, end, -1.5, 3)
    for k in range(16, _S, 64):
        for x, y, w, h in (
            (k, 0, 32, 18),
            (k, _S - 18, 32, 18),
            (0, k, 18, 32),
            (_S - 18, k, 18, 32),
        ):
            canvas.rect(x, y, w, h, (70, 74, 80))
    for _ in range(7):
        x, y = (int(v) for v in rng.integers(60, _S - 120, 2))
        end = (x + int(rng.integers(-50, 60)), y + int(rng.integers(-50, 60)))
        canvas.line((x, y), end, (int(rng.integers(40, 230)), int(rng.integers(40, 190)), 60), 9)
    canvas.tag(int(rng.integers(60, 330)), int(rng.integers(60, 330)), 110, 4)
    canvas.speckle(500, (2, 7), (0.65, 1.2))
    return canvas


def _plaster(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (188, 186, 178), 0.07, _S)
    canvas.speckle(900, (1, 5), (0.7, 1.14))
    canvas.cracks(4, 0.7)
    canvas.stain(3, 0.15)
    for _ in range(5):
        x, y = (int(v) for v in rng.integers(20, _S - 90, 2))
        paper = (236, 226, 120) if rng.integers(0, 2) else (150, 196, 214)
        canvas.rect(x, y, 34, 34, paper)
        for k in range(3):
            canvas.rect(x + 5, y + 7 + 9 * k, int(rng.integers(12, 25)), 3, _INK)
    return canvas


def _trunking(rng: np.random.Generator) -> Canvas:
    """Paint the lower part of a wall: paint, a skirting board, a cable duct with sockets."""
    canvas = Canvas(rng, (96, 122, 132), 0.07, _S)
    canvas.speckle(600, (1, 6), (0.65, 1.2))
    canvas.plate(0, _S - 56, _S, 56, (70, 72, 74), 3.0)
    canvas.plate(0, 70, _S, 92, (206, 206, 200), 5.0)
    canvas.rect(0, 70, _S, 92, (130, 130, 126), 3)
    for x in range(26, _S - 60, int(rng.integers(74, 96))):
        canvas.rect(x, 84, 54, 62, (228, 228, 222))
        canvas.rect(x, 84, 54, 62, (120, 120, 118), 2)
        for dx in (16, 36):
            cv2.circle(canvas.colour, (x + dx, 116), 6, _INK, -1)
    canvas.cracks(4, 0.65)
    canvas.stain(3, 0.3)
    return canvas


def _acoustic(rng: np.random.Generator) -> Canvas:
    """Paint felt panels with holes."""
    canvas = Canvas(rng, (126, 116, 104), 0.08, _S)
    for row in range(2):
        for column in range(2):
            tone = rng.uniform(0.8, 1.15, 3)
            part = canvas.colour[row * 256 : row * 256 + 256, column * 256 : column * 256 + 256]
            part[...] = np.clip(part * tone, 0, 255)
    for y in range(16, _S, 32):
        for x in range(16, _S, 32):
            radius = int(rng.integers(4, 8))
            cv2.circle(canvas.shade, (x, y), radius, 0.5, -1)
            cv2.circle(canvas.relief, (x, y), radius, -3.0, -1)
    for k in (0, 254, _S - 4):
        canvas.plate(k, 0, 5, _S, (58, 54, 50), -2.0)
        canvas.plate(0, k, _S, 5, (58, 54, 50), -2.0)
    canvas.speckle(600, (1, 5), (0.7, 1.3))
    return canvas


def _wood(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (172, 134, 92), 0.08, _S)
    grain = rng.normal(0.0, 1.0, (_S, 8)).astype(np.float32)
    canvas.shade += 0.10 * cv2.resize(cv2.GaussianBlur(grain, (1, 5), 0), (_S, _S))
    for _ in range(6):
        x, y = (int(v) for v in rng.integers(20, _S - 120, 2))
        canvas.rect(x, y, int(rng.integers(40, 100)), int(rng.integers(30, 70)), (232, 230, 222))
        for k in range(3):
            canvas.rect(x + 6, y + 6 + 8 * k, int(rng.integers(10, 34)), 3, _INK)
    canvas.speckle(300, (2, 6), (0.6, 1.2))
    return canvas


def _screen_code(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (30, 34, 42), 0.03, _S)
    inks = ((150, 196, 120), (210, 150, 90), (130, 170, 230), (200, 200, 204), (190, 120, 200))
    for y in range(16, _S - 16, 18):
        x = 20 + 26 * int(rng.integers(0, 4))
        while x < _S * 0.8 and rng.uniform() < 0.85:
            w = int(rng.integers(14, 80))
            canvas.rect(x, y, w, 9, inks[int(rng.integers(0, 5))])
            x += w + 10
    canvas.rect(0, 0, _S, 10, (70, 76, 90))
    canvas.rect(0, 0, _S, _S, (16, 16, 18), 14)
    return canvas


def _screen_plot(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (226, 228, 230), 0.03, _S)
    for k in range(30, _S, 48):
        canvas.rect(k, 0, 1, _S, (170, 174, 178))
        canvas.rect(0, k, _S, 1, (170, 174, 178))
    x = np.arange(20, _S - 20, 6)
    for colour, level in (((196, 60, 44), 130), ((44, 106, 160), 250), ((60, 140, 70), 380)):
        y = level + np.cumsum(rng.normal(0, 9, len(x)))
        path = np.stack((x, np.clip(y, 20, _S - 20)), axis=-1).astype(np.int32)
        cv2.polylines(canvas.colour, [path], False, colour, 4, cv2.LINE_AA)
    canvas.rect(340, 30, 140, 90, (40, 44, 50))
    canvas.text("POSE", 352, 40, 80, 26, (150, 220, 160))
    canvas.rect(0, 0, _S, _S, (16, 16, 18), 14)
    return canvas


def _whiteboard(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (222, 224, 224), 0.02, 1024)
    inks = ((30, 70, 160), (170, 40, 40), (30, 120, 60), (40, 40, 44))
    canvas.text("x = Rx + t", 70, 70, 300, 70, inks[0])
    canvas.text("VIO: fly before Friday!", 60, 860, 520, 60, inks[1])
    canvas.text("K [R|t]", 620, 90, 220, 80, inks[2])
    for _ in range(9):
        a = tuple(int(v) for v in rng.integers(80, 900, 2))
        b = (
            int(np.clip(a[0] + rng.integers(-200, 220), 40, 980)),
            int(np.clip(a[1] + rng.integers(-160, 180), 60, 960)),
        )
        canvas.line((a[0], a[1]), b, inks[int(rng.integers(0, 4))], 6)
        cv2.rectangle(
            canvas.colour,
            (b[0] - 34, b[1] - 24),
            (b[0] + 34, b[1] + 24),
            inks[int(rng.integers(0, 4))],
            4,
        )
        cv2.circle(
            canvas.colour,
            (a[0], a[1]),
            int(rng.integers(14, 40)),
            inks[int(rng.integers(0, 4))],
            4,
            cv2.LINE_AA,
        )
    for k in range(9):
        canvas.rect(640, 560 + 30 * k, int(rng.integers(120, 300)), 7, inks[3])
    canvas.stain(6, 0.12)
    canvas.rect(0, 0, 1024, 1024, (140, 144, 148), 18)
    return canvas


def _door(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (116, 74, 58), 0.06, _S)
    canvas.rect(0, 0, _S, _S, (190, 188, 182), 34)
    canvas.rect(150, 60, 220, 130, (170, 196, 206))
    canvas.line((170, 180), (270, 76), (226, 238, 242), 12)
    canvas.rect(150, 60, 220, 130, (60, 44, 36), 6)
    canvas.rect(390, 260, 60, 12, (206, 206, 200))
    canvas.rect(150, 220, 220, 50, (238, 222, 90))
    canvas.text("ROOM 1.14", 165, 230, 190, 30, (40, 40, 44))
    canvas.rect(60, 420, 390, 40, (150, 152, 154))
    canvas.tag(200, 290, 110, 4)
    canvas.speckle(300, (2, 6), (0.7, 1.2))
    return canvas


_PANES: Final = tuple((x / _S, 20 / _S, (x + 226) / _S, 1.0 - 20 / _S) for x in (20, 266))


def _window(rng: np.random.Generator) -> Canvas:
    """Paint a bright yard behind two panes, with the blind half down."""
    canvas = Canvas(rng, (176, 204, 226), 0.04, _S)
    x = np.arange(0, _S + 32, 32)
    hills = np.stack((x, 330 + 30 * np.sin(x / 60.0) + rng.normal(0, 10, len(x))), axis=-1)
    ground = np.vstack((hills, [[_S, _S], [0, _S]])).astype(np.int32)
    cv2.fillPoly(canvas.colour, [ground], (96, 134, 84))
    for _ in range(6):
        left = int(rng.integers(20, 440))
        top = int(rng.integers(230, 330))
        canvas.rect(left, top, int(rng.integers(30, 80)), 400 - top, (176, 150, 130))
        for k in range(3):
            canvas.rect(left + 6 + 14 * (k % 2), top + 8 + 20 * k, 9, 12, (70, 84, 100))
    for y in range(20, 200, 20):
        canvas.rect(0, y, _S, 15, (206, 202, 190))
    for k in (0, 246, _S - 20):
        canvas.rect(k, 0, 20, _S, (92, 96, 100))
    for k in (0, _S - 20):
        canvas.rect(0, k, _S, 20, (92, 96, 100))
    return canvas


def _paper(rng: np.random.Generator) -> Canvas:
    """Paint a conference poster."""
    canvas = Canvas(rng, (230, 230, 226), 0.03, _S)
    canvas.rect(0, 0, _S, 80, (36, 72, 120))
    canvas.text("Flying between worlds", 24, 18, 464, 44, (238, 238, 232))
    for column in range(3):
        x = 18 + 164 * column
        y = 100
        while y < 480:
            if rng.uniform() < 0.25 and y < 400:
                tone = tuple(int(v) for v in rng.integers(60, 220, 3))
                canvas.rect(x, y, 148, 84, (tone[0], tone[1], tone[2]))
                canvas.line((x, y + 60), (x + 140, y + int(rng.integers(0, 80))), _INK, 4)
                y += 94
            else:
                canvas.rect(x, y, int(rng.integers(80, 148)), 5, (84, 86, 92))
                y += 12
    return canvas


def _books(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (60, 50, 42), 0.05, _S)
    for row in range(2):
        x = 4
        while x < _S - 12:
            w = int(rng.integers(14, 42))
            h = int(rng.integers(170, 240))
            tone = tuple(int(v) for v in rng.integers(50, 220, 3))
            top = 256 * row + 250 - h
            canvas.rect(x, top, w - 2, h, (tone[0], tone[1], tone[2]))
            canvas.rect(
                x + 2,
                top + int(rng.integers(20, 60)),
                w - 6,
                int(rng.integers(14, 60)),
                (230, 226, 214),
            )
            canvas.rect(x, top + h - 30, w - 2, 8, _INK)
            x += w
    canvas.speckle(200, (2, 6), (0.7, 1.2))
    return canvas


def _lens(rng: np.random.Generator) -> Canvas:
    """Paint the face of a motion capture camera: a dark lens in a ring of red lights."""
    canvas = Canvas(rng, (30, 32, 38), 0.03, 256)
    for k in range(24):
        angle = 2 * np.pi * k / 24
        cv2.circle(
            canvas.colour,
            (int(128 + 98 * np.cos(angle)), int(128 + 98 * np.sin(angle))),
            9,
            (232, 70, 60),
            -1,
        )
    cv2.circle(canvas.colour, (128, 128), 62, (90, 96, 106), -1)
    cv2.circle(canvas.colour, (128, 128), 50, (14, 16, 26), -1)
    cv2.circle(canvas.colour, (112, 110), 12, (170, 190, 220), -1)
    return canvas


def _keys(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (36, 38, 42), 0.04, 256)
    for y in range(12, 250, 48):
        for x in range(8, 250, 20):
            canvas.rect(x, y, 15, 38, (96 + int(rng.integers(0, 60)), 100, 106))
    return canvas


LAB: Final[dict[str, Surface]] = {
    "vinyl": Surface(_vinyl, 0.6, bump_px=0.0),
    "mat": Surface(_mat, bump_px=1.0),
    "mat_worn": Surface(_mat, bump_px=1.0),
    "plaster": Surface(_plaster, bump_px=4.0),
    "plaster_worn": Surface(_plaster, bump_px=4.0),
    "trunking": Surface(_trunking, bump_px=0.0),
    "trunking_worn": Surface(_trunking, bump_px=0.0),
    "acoustic": Surface(_acoustic, bump_px=0.5),
    "acoustic_worn": Surface(_acoustic, bump_px=0.5),
    "wood": Surface(_wood, 0.6),
    "screen_code": Surface(_screen_code, 0.4),
    "screen_plot": Surface(_screen_plot, 0.4),
    "whiteboard": Surface(_whiteboard, 0.4),
    "door": Surface(_door, 0.6),
    "window": Surface(_window, 0.4),
    "lab_window": Surface(_window, 0.4, windows=_PANES),
    "paper": Surface(_paper),
    "paper_second": Surface(_paper),
    "books": Surface(_books),
    "lens": Surface(_lens, 0.4),
    "keys": Surface(_keys, 0.6),
}
