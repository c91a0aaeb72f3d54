"""Faces of humans as they are painted: eyes, brows, nostrils, lips."""

from __future__ import annotations

import math
from typing import Final

import cv2
import numpy as np

from vil_renderer.embedded.actors.people.builds import HumanBuild
from vil_renderer.embedded.actors.people.skull import LOW_M, TOP_M, share_of
from vil_renderer.embedded.scenes.paint import Canvas, Colour

_HALF_WIDTH_M: Final = 0.076
_SHIFT: Final = 4
_Box = tuple[int, int, int, int]


def paint_face(canvas: Canvas, build: HumanBuild, box: _Box, neck: _Box) -> None:
    """Paint skin, eyes, brows, nose and lips.

    Args:
        canvas: the texture.
        build: the human's.
        box: place of the head, around from the back and down from the crown.
        neck: place of neck and ears.
    """
    for x, y, w, h in (box, neck):
        canvas.rect(x, y, w, h, build.skin)
    face = _Face(canvas, box)
    red = _mixed(build.skin, (196, 88, 80), 0.22)
    dark = _mixed(build.skin, (40, 20, 16), 0.35)
    for side in (-1.0, 1.0):
        face.oval(side * 0.044, 1.602, 0.020, 0.016, red)
        face.oval(side * 0.032, 1.636, 0.019, 0.011, _mixed(build.skin, (60, 30, 30), 0.18))
    face.oval(0.0, 1.600, 0.014, 0.012, red)
    x, y, w, h = box
    blurred = cv2.GaussianBlur(canvas.colour[y : y + h, x : x + w], (0, 0), 6)
    canvas.colour[y : y + h, x : x + w] = blurred
    for side in (-1.0, 1.0):
        _eye(face, build, side)
        face.oval(side * 0.0075, 1.5885, 0.0042, 0.0024, dark)
        face.arc(side, 1.6545, build.hair_colour)
    face.oval(0.0, 1.5695, 0.0235, 0.0042, build.lips)
    face.oval(0.0, 1.5600, 0.0205, 0.0052, _mixed(build.lips, (235, 150, 140), 0.2))
    face.oval(0.0, 1.5652, 0.0230, 0.0011, dark)


def _eye(face: _Face, build: HumanBuild, side: float) -> None:
    y = side * 0.0320
    z = 1.6340
    face.oval(y, z + 0.0010, 0.0155, 0.0068, (52, 34, 30))
    face.oval(y, z, 0.0145, 0.0056, (238, 234, 228))
    face.oval(y, z + 0.0004, 0.0062, 0.0056, build.eyes)
    face.oval(y, z + 0.0004, 0.0030, 0.0030, (12, 10, 10))
    face.oval(y + 0.0018, z + 0.0022, 0.0010, 0.0010, (250, 250, 250))


class _Face:
    """A canvas on which places are given in metres, across from the middle and above the floor."""

    def __init__(self, canvas: Canvas, box: _Box) -> None:
        self._canvas = canvas
        self._box = box

    def _px(self, across_m: float, up_m: float) -> tuple[float, float]:
        x, y, w, h = self._box
        sine = max(-1.0, min(1.0, across_m / _HALF_WIDTH_M))
        angle = math.asin(math.copysign(abs(sine) ** 1.15, sine))
        return x + w * share_of(angle), y + h * (TOP_M - up_m) / (TOP_M - LOW_M)

    def oval(
        self, across_m: float, up_m: float, half_wide_m: float, half_tall_m: float, colour: Colour
    ) -> None:
        """Paint an ellipse."""
        turn = np.linspace(0.0, 2.0 * np.pi, 33)[:-1]
        corners = [
            self._px(across_m + half_wide_m * c, up_m + half_tall_m * s)
            for c, s in zip(np.cos(turn).tolist(), np.sin(turn).tolist(), strict=True)
        ]
        self._fill(corners, colour)

    def arc(self, side: float, up_m: float, colour: Colour) -> None:
        """Paint a brow."""
        across = np.linspace(0.014, 0.049, 12)
        rise = 0.005 * np.sin(np.pi * (across - 0.010) / 0.045)
        thick = 0.0032 * np.sqrt(np.sin(np.pi * np.linspace(0.12, 0.95, 12)))
        upper = [
            self._px(side * a, up_m + r + t) for a, r, t in zip(across, rise, thick, strict=True)
        ]
        lower = [
            self._px(side * a, up_m + r - t) for a, r, t in zip(across, rise, thick, strict=True)
        ]
        self._fill([*upper, *lower[::-1]], colour)

    def _fill(self, corners: list[tuple[float, float]], colour: Colour) -> None:
        scaled = np.rint(np.array(corners) * 2**_SHIFT).astype(np.int32)
        cv2.fillPoly(self._canvas.colour, [scaled], colour, cv2.LINE_AA, _SHIFT)


def _mixed(a: Colour, b: Colour, share: float) -> Colour:
    r, g, blue = (round(x + share * (y - x)) for x, y in zip(a, b, strict=True))
    return (r, g, blue)
