"""Painted surfaces of objects in halls: crates, cartons, containers, gates, banners."""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np

from vil_renderer.embedded.scenes.paint import SIZE_PX, Canvas, Surface
from vil_renderer.embedded.scenes.paint_building import corrugated

_S: Final = SIZE_PX


def _crate(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (178, 134, 82), 0.10)
    for k in range(8):
        canvas.shade[:, k * 128 : (k + 1) * 128] *= rng.uniform(0.72, 1.12)
        canvas.plate(k * 128 - 3, 0, 6, _S, (58, 42, 28), -3.0)
    canvas.shade *= rng.uniform(0.86, 1.08, _S).astype(np.float32)
    canvas.line((40, 40), (_S - 40, _S - 40), (140, 102, 60), 110)
    cv2.line(canvas.relief, (40, 40), (_S - 40, _S - 40), 4.0, 110)
    for x, y, w, h in (
        (0, 0, _S, 110),
        (0, _S - 110, _S, 110),
        (0, 0, 110, _S),
        (_S - 110, 0, 110, _S),
    ):
        canvas.plate(x, y, w, h, (160, 118, 70), 5.0)
        canvas.rect(x, y, w, h, (70, 50, 32), 6)
    for x in (55, _S - 55):
        for y in range(55, _S, 152):
            canvas.rect(x - 8, y - 8, 16, 16, (52, 48, 46))
    canvas.text("FRAGILE", 260, 270, 500, 110, (52, 34, 26))
    canvas.text("VIL-07", 430, 730, 330, 90, (52, 34, 26))
    canvas.speckle(800, (3, 12), (0.7, 1.2))
    return canvas


def _cardboard(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (190, 150, 104), 0.06)
    canvas.rect(0, 460, _S, 110, (214, 186, 140))
    canvas.rect(90, 90, 330, 270, (238, 236, 228))
    x = 110
    while x < 390:
        w = int(rng.integers(3, 13))
        canvas.rect(x, 110, w, 120, (30, 30, 32))
        x += w + int(rng.integers(3, 12))
    for k in range(4):
        canvas.rect(112, 256 + 24 * k, int(rng.integers(90, 270)), 10, (60, 60, 64))
    canvas.text("THIS SIDE UP", 480, 240, 460, 60, (92, 56, 34))
    for x in (620, 790):
        canvas.line((x, 190), (x, 90), (92, 56, 34), 20)
        canvas.line((x - 40, 130), (x, 84), (92, 56, 34), 18)
        canvas.line((x + 40, 130), (x, 84), (92, 56, 34), 18)
    canvas.tag(650, 660, 250, 6)
    canvas.text("ROTOR KIT", 90, 720, 470, 90, (150, 52, 38))
    canvas.rect(0, 0, _S, _S, (116, 84, 54), 16)
    canvas.speckle(900, (2, 12), (0.75, 1.15))
    return canvas


def _container(rng: np.random.Generator) -> Canvas:
    canvas = corrugated(rng, (214, 214, 212), 64)
    for y in (0, _S - 60):
        canvas.plate(0, y, _S, 60, (172, 172, 170), 4.0)
    canvas.text("HANGAR", 90, 230, 840, 200, (32, 36, 40))
    canvas.text("22 G1 40518", 100, 490, 500, 80, (32, 36, 40))
    canvas.rect(700, 640, 210, 210, (238, 222, 90))
    canvas.line((730, 820), (880, 670), (30, 30, 32), 22)
    canvas.line((730, 670), (880, 820), (30, 30, 32), 22)
    canvas.speckle(900, (2, 16), (0.55, 1.15))
    canvas.stain(9, 0.4)
    return canvas


def _gate(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (226, 98, 34), 0.05)
    step = _S // 16
    for row in range(16):
        for column in range(16):
            pick = int(rng.integers(0, 4))
            if pick < 2:
                colour = (238, 236, 230) if pick else (26, 26, 28)
                canvas.rect(column * step, row * step, step, step, colour)
    canvas.speckle(500, (3, 9), (0.75, 1.1))
    return canvas


def _banner(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (24, 54, 72), 0.06)
    canvas.rect(0, 0, _S, 30, (232, 112, 40))
    canvas.rect(0, _S - 30, _S, 30, (232, 112, 40))
    canvas.text("VIL BRIDGE", 80, 130, 864, 190, (240, 238, 230))
    canvas.text("real drones, rendered worlds", 84, 380, 856, 80, (150, 196, 210))
    for k in range(4):
        canvas.tag(70 + 230 * k, 540, 200, 5 + k % 2)
    for k in range(14):
        colour = (232, 112, 40) if k % 3 else (150, 196, 210)
        canvas.rect(60 + 66 * k, 800, 44, int(rng.integers(40, 150)), colour)
    canvas.speckle(400, (2, 7), (0.8, 1.25))
    return canvas


def _cloth(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (226, 226, 226), 0.07)
    canvas.speckle(900, (5, 22), (0.72, 1.1))
    for k in range(0, _S, 64):
        canvas.rect(0, k, _S, 5, (186, 186, 186))
        canvas.rect(k, 0, 5, _S, (198, 198, 198))
    return canvas


def _planks(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (186, 150, 100), 0.10)
    canvas.shade *= rng.uniform(0.84, 1.08, (_S, 1)).astype(np.float32)
    for k in range(8):
        canvas.shade[k * 128 : (k + 1) * 128] *= rng.uniform(0.75, 1.1)
        canvas.plate(0, k * 128 - 3, _S, 6, (66, 48, 32), -3.0)
        for x in rng.integers(20, _S - 20, 3):
            canvas.rect(int(x), k * 128 + 60, 9, 9, (60, 52, 46))
    canvas.speckle(700, (3, 14), (0.6, 1.15))
    canvas.stain(5, 0.3)
    return canvas


def _cone(rng: np.random.Generator) -> Canvas:
    canvas = Canvas(rng, (232, 92, 30), 0.06, 256)
    canvas.rect(0, 50, 256, 50, (238, 236, 230))
    canvas.rect(0, 140, 256, 46, (238, 236, 230))
    canvas.speckle(120, (2, 8), (0.7, 1.1))
    return canvas


def _wheel(rng: np.random.Generator) -> Canvas:
    """Paint a wheel; the texture runs from the hub over the tread to the other hub."""
    canvas = Canvas(rng, (46, 46, 48), 0.10, 256)
    for top in (0, 206):
        canvas.rect(0, top, 256, 50, (188, 178, 120))
    for x in range(0, 256, 16):
        canvas.rect(x, 96, 8, 64, (26, 26, 28))
        canvas.rect(x, 12, 6, 10, (60, 60, 62))
    canvas.speckle(100, (2, 6), (0.7, 1.3))
    return canvas


GOODS: Final[dict[str, Surface]] = {
    "crate": Surface(_crate, bump_px=2.0),
    "cardboard": Surface(_cardboard),
    "container": Surface(_container, 0.6, bump_px=0.0),
    "gate": Surface(_gate),
    "banner": Surface(_banner),
    "cloth": Surface(_cloth),
    "planks": Surface(_planks, bump_px=3.0),
    "cone": Surface(_cone, 0.7),
    "wheel": Surface(_wheel),
}
