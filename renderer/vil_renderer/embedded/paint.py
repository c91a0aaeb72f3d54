"""Brushes for procedural textures: seeded, multi-scale, rich in corners. Images are float32 (s, s, 3), 0..255, RGB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

__all__ = [
    "SIZE_PX",
    "Colour",
    "Image",
    "base",
    "cracks",
    "finish",
    "line",
    "noise",
    "rect",
    "scale_at",
    "speckle",
    "stain",
    "tag",
    "text",
]

SIZE_PX: Final = 1024
Image = npt.NDArray[np.float32]
Colour = tuple[int, int, int]


def noise(rng: np.random.Generator, cells: Sequence[int] = (4, 16, 64, 256)) -> Image:
    """Sum of smooth noises, one per number of cells across the image, shape (s, s), roughly -1..1."""
    total = np.zeros((SIZE_PX, SIZE_PX), np.float32)
    weight = 1.0
    for n in cells:
        grid = rng.uniform(-1.0, 1.0, (n, n)).astype(np.float32)
        total += np.float32(weight) * cv2.resize(grid, (SIZE_PX, SIZE_PX), interpolation=cv2.INTER_CUBIC)
        weight *= 0.7
    return total


def base(rng: np.random.Generator, colour: Colour, contrast: float, cells: Sequence[int] = (4, 16, 64, 256)) -> Image:
    """A plain colour broken up by noise."""
    shade = 1.0 + contrast * noise(rng, cells)
    return (shade[..., None] * np.array(colour, np.float32)).astype(np.float32)


def scale_at(image: Image, factor: Image) -> None:
    """Multiply by a shade (s, s), in place."""
    image *= factor[..., None]


def speckle(
    rng: np.random.Generator, image: Image, count: int, size_px: tuple[float, float], shade: tuple[float, float]
) -> None:
    """Scatter small irregular triangles and quadrilaterals, each of one random shade between the two given."""
    mask = np.ones((SIZE_PX, SIZE_PX), np.float32)
    centre = rng.uniform(0, SIZE_PX, (count, 1, 2))
    angle = np.sort(rng.uniform(0, 2 * np.pi, (count, 4)), axis=1)
    radius = rng.uniform(*size_px, (count, 1)) * rng.uniform(0.5, 1.0, (count, 4))
    corners = centre + np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
    for polygon, value in zip(corners.round().astype(np.int32), rng.uniform(*shade, count), strict=True):
        cv2.fillPoly(mask, [polygon], float(value))
    scale_at(image, mask)


def stain(rng: np.random.Generator, image: Image, count: int, strength: float) -> None:
    """Large soft dark patches with ragged edges."""
    mask = np.zeros((SIZE_PX // 4, SIZE_PX // 4), np.float32)
    for _ in range(count):
        x, y = rng.integers(0, SIZE_PX // 4, 2)
        a, b = rng.integers(8, 40, 2)
        cv2.ellipse(mask, (int(x), int(y)), (int(a), int(b)), float(rng.uniform(0, 180)), 0, 360, 1.0, -1)
    soft = cv2.resize(cv2.GaussianBlur(mask, (0, 0), 3), (SIZE_PX, SIZE_PX), interpolation=cv2.INTER_LINEAR)
    ragged = np.clip(soft * (1.0 + 0.8 * noise(rng, (32, 128))), 0.0, 1.0)
    scale_at(image, (1.0 - strength * ragged).astype(np.float32))


def cracks(rng: np.random.Generator, image: Image, count: int, shade: float) -> None:
    """Thin broken lines that wander."""
    mask = np.ones((SIZE_PX, SIZE_PX), np.float32)
    for _ in range(count):
        heading = np.cumsum(rng.normal(0, 0.5, 30)) + rng.uniform(0, 2 * np.pi)
        steps = rng.uniform(6, 22, 30)[:, None] * np.stack((np.cos(heading), np.sin(heading)), axis=-1)
        path = (rng.uniform(0, SIZE_PX, 2) + np.cumsum(steps, axis=0)).round().astype(np.int32)
        cv2.polylines(mask, [path], False, shade, int(rng.integers(1, 3)))
    scale_at(image, mask)


def rect(image: Image, x: int, y: int, w: int, h: int, colour: Colour, thickness: int = -1) -> None:
    """A filled (or outlined) rectangle."""
    cv2.rectangle(image, (x, y), (x + w - 1, y + h - 1), tuple(map(float, colour)), thickness)


def line(image: Image, a: tuple[int, int], b: tuple[int, int], colour: Colour, thickness: int) -> None:
    """A straight stroke."""
    cv2.line(image, a, b, tuple(map(float, colour)), thickness, cv2.LINE_AA)


def text(image: Image, words: str, x: int, y: int, w: int, h: int, colour: Colour) -> None:
    """A line of letters that fills a rectangle, whatever the metrics of OpenCV's letters are."""
    letters = np.zeros((96, 64 * len(words)), np.uint8)
    cv2.putText(letters, words, (16, 64), cv2.FONT_HERSHEY_DUPLEX, 1.6, 255, 4, cv2.LINE_AA)
    left, top, width, height = cv2.boundingRect(letters)
    fitted = cv2.resize(letters[top : top + height, left : left + width], (w, h), interpolation=cv2.INTER_AREA)
    cover = fitted.astype(np.float32)[..., None] / np.float32(255.0)
    patch = image[y : y + h, x : x + w]
    patch += cover * (np.array(colour, np.float32) - patch)


def tag(rng: np.random.Generator, image: Image, x: int, y: int, size_px: int, cells: int = 6) -> None:
    """A black-bordered square of random black and white cells, like a fiducial marker."""
    module = size_px // (cells + 4)
    rect(image, x, y, module * (cells + 4), module * (cells + 4), (236, 234, 228))
    rect(image, x + module, y + module, module * (cells + 2), module * (cells + 2), (22, 22, 24))
    for row, bits in enumerate(rng.integers(0, 2, (cells, cells))):
        for column in np.flatnonzero(bits):
            rect(image, x + (2 + int(column)) * module, y + (2 + row) * module, module, module, (236, 234, 228))


def finish(rng: np.random.Generator, image: Image, grain: float = 5.0) -> npt.NDArray[np.uint8]:
    """Add fine grain and round to 8 bits."""
    grains = rng.normal(0.0, grain, (SIZE_PX, SIZE_PX)).astype(np.float32)
    image += grains[..., None]
    return np.clip(image + 0.5, 0, 255).astype(np.uint8)
