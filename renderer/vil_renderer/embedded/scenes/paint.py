"""Brushes for procedural textures: seeded, multi-scale, rich in corners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from vil_renderer.embedded.assets.model import UvRect

SIZE_PX: Final = 1024
_SOFT_PX: Final = 1.5
Colour = tuple[int, int, int]
_Shade = npt.NDArray[np.float32]


class Canvas:
    """A square picture: flat colours, and a shade that multiplies them in the end.

    Attributes:
        colour: uint8 (s, s, 3), RGB, top row first.
        shade: float32 (s, s), 1 = the colour unchanged.
        cover: uint8 (s, s), 0 where it is transparent; None = opaque.
        height: float32 (s, s), how far the surface stands out, in pixels of the texture; None =
            nowhere.
    """

    def __init__(
        self, rng: np.random.Generator, colour: Colour, roughness: float, size_px: int = SIZE_PX
    ) -> None:
        self.rng = rng
        self.size = size_px
        self.colour: npt.NDArray[np.uint8] = np.full((size_px, size_px, 3), colour, np.uint8)
        self.cover: npt.NDArray[np.uint8] | None = None
        self.height: _Shade | None = None
        self.shade: _Shade = self._noise((4, 16, 64, 256))
        self.shade *= np.float32(roughness)
        self.shade += np.float32(1.0)

    def _noise(self, cells: Sequence[int]) -> _Shade:
        """Return a sum of smooth noises, one per number of cells across the picture, roughly
        -1..1.
        """
        total = np.zeros((self.size, self.size), np.float32)
        weight = 1.0
        for n in cells:
            grid = self.rng.uniform(-weight, weight, (n, n)).astype(np.float32)
            total += cv2.resize(grid, (self.size, self.size), interpolation=cv2.INTER_LINEAR)
            weight *= 0.7
        return total

    def speckle(self, count: int, size_px: tuple[float, float], shade: tuple[float, float]) -> None:
        """Scatter small irregular quadrilaterals, each of one random shade between the two
        given.
        """
        rng = self.rng
        centre = rng.uniform(0, self.size, (count, 1, 2))
        angle = np.sort(rng.uniform(0, 2 * np.pi, (count, 4)), axis=1)
        radius = rng.uniform(*size_px, (count, 1)) * rng.uniform(0.5, 1.0, (count, 4))
        corners = centre + np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
        for polygon, value in zip(
            corners.round().astype(np.int32), rng.uniform(*shade, count), strict=True
        ):
            cv2.fillPoly(self.shade, [polygon], float(value))

    def stain(self, count: int, strength: float) -> None:
        """Paint large soft dark patches with ragged edges."""
        rng = self.rng
        side = self.size // 4
        mask = np.zeros((side, side), np.float32)
        for _ in range(count):
            x, y = rng.integers(0, side, 2)
            a, b = rng.integers(8, 40, 2)
            cv2.ellipse(
                mask,
                (int(x), int(y)),
                (int(a), int(b)),
                float(rng.uniform(0, 180)),
                0,
                360,
                1.0,
                -1,
            )
        blurred = cv2.GaussianBlur(mask, (0, 0), 3)
        soft = np.float32(1.0) + np.float32(0.8) * self._noise((32, 128))
        soft *= cv2.resize(blurred, (self.size, self.size), interpolation=cv2.INTER_LINEAR)
        self.shade *= np.float32(1.0) - np.float32(strength) * np.clip(soft, 0.0, 1.0, out=soft)

    def cracks(self, count: int, shade: float) -> None:
        """Paint thin broken lines that wander."""
        rng = self.rng
        for _ in range(count):
            heading = np.cumsum(rng.normal(0, 0.5, 30)) + rng.uniform(0, 2 * np.pi)
            steps = rng.uniform(6, 22, 30)[:, None] * np.stack(
                (np.cos(heading), np.sin(heading)), axis=-1
            )
            path = (
                (rng.uniform(0, self.size, 2) + np.cumsum(steps, axis=0)).round().astype(np.int32)
            )
            cv2.polylines(self.shade, [path], False, shade, int(rng.integers(1, 3)))

    @property
    def relief(self) -> _Shade:
        """:attr:`height` to be carved, flat at first."""
        if self.height is None:
            self.height = np.zeros((self.size, self.size), np.float32)
        return self.height

    def level(self, x: int, y: int, w: int, h: int, height_px: float) -> None:
        """Make a rectangle stand out (or lie deeper) evenly."""
        cv2.rectangle(self.relief, (x, y), (x + w - 1, y + h - 1), height_px, -1)

    def rect(self, x: int, y: int, w: int, h: int, colour: Colour, thickness: int = -1) -> None:
        """Paint a filled (or outlined) rectangle."""
        cv2.rectangle(self.colour, (x, y), (x + w - 1, y + h - 1), colour, thickness)

    def plate(self, x: int, y: int, w: int, h: int, colour: Colour, height_px: float) -> None:
        """Paint a filled rectangle that stands out (or lies deeper) evenly."""
        self.rect(x, y, w, h, colour)
        self.level(x, y, w, h, height_px)

    def line(self, a: tuple[int, int], b: tuple[int, int], colour: Colour, thickness: int) -> None:
        """Paint a straight stroke."""
        cv2.line(self.colour, a, b, colour, thickness, cv2.LINE_AA)

    def text(self, words: str, x: int, y: int, w: int, h: int, colour: Colour) -> None:
        """Write a line of letters that fills a rectangle, independent of the metrics of OpenCV's
        letters.
        """
        letters = np.zeros((96, 64 * len(words)), np.uint8)
        cv2.putText(letters, words, (16, 64), cv2.FONT_HERSHEY_DUPLEX, 1.6, 255, 4, cv2.LINE_AA)
        left, top, width, height = cv2.boundingRect(letters)
        fitted = cv2.resize(
            letters[top : top + height, left : left + width], (w, h), interpolation=cv2.INTER_AREA
        )
        cover = fitted[..., None] / np.float32(255.0)
        patch = self.colour[y : y + h, x : x + w]
        patch[...] = np.rint(patch + cover * (np.array(colour, np.float32) - patch))

    def tag(self, x: int, y: int, size_px: int, cells: int = 6) -> None:
        """Paint a black-bordered square of random black and white cells, like a fiducial marker."""
        paper = (236, 234, 228)
        ink = (22, 22, 24)
        module = size_px // (cells + 4)
        self.rect(x, y, module * (cells + 4), module * (cells + 4), paper)
        self.rect(x + module, y + module, module * (cells + 2), module * (cells + 2), ink)
        for row, bits in enumerate(self.rng.integers(0, 2, (cells, cells))):
            for column in np.flatnonzero(bits):
                self.rect(
                    x + (2 + int(column)) * module, y + (2 + row) * module, module, module, paper
                )

    def normals(self, bump_px: float) -> npt.NDArray[np.uint8]:
        """Return the tangent-space normals at half the size, OpenGL's y, uint8 (s / 2, s / 2, 3).

        Args:
            bump_px: how much further out a spot is that is one shade brighter.
        """
        side = self.size // 2
        height = cv2.GaussianBlur(
            np.float32(bump_px) * (self.shade - np.float32(1.0)), (0, 0), _SOFT_PX
        )
        if self.height is not None:
            height = cv2.add(height, cv2.GaussianBlur(self.height, (0, 0), _SOFT_PX))
        height = np.float32(0.5) * cv2.resize(height, (side, side), interpolation=cv2.INTER_AREA)
        normal = np.ones((side, side, 3), np.float32)
        # Textures repeat, so slopes go on over their edges. Rows run downwards, y upwards.
        normal[..., 0] = 0.5 * (np.roll(height, 1, axis=1) - np.roll(height, -1, axis=1))
        normal[..., 1] = 0.5 * (np.roll(height, -1, axis=0) - np.roll(height, 1, axis=0))
        normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
        return np.asarray(np.rint(127.5 + 127.5 * normal), np.uint8)

    def finish(self, grain: _Shade) -> npt.NDArray[np.uint8]:
        """Return the picture with fine grain, a zero-mean pattern of at least its size.

        uint8, (s, s, 3 or 4).
        """
        self.shade += grain[: self.size, : self.size]
        picture = np.asarray(
            cv2.multiply(self.colour, cv2.merge([self.shade] * 3), dtype=cv2.CV_8U), np.uint8
        )
        return picture if self.cover is None else np.dstack((picture, self.cover))


@dataclass(frozen=True, slots=True)
class Surface:
    """Surface of an object.

    Attributes:
        paint: draws its texture with a seeded generator; None = plain, the tint alone.
        light: linear RGB that it gives by itself.
        cut_out: the texture's cover is a mask, and both sides are seen.
        bump_px: relief of the shade, pixels of the texture for one shade; None = as flat as paper.
        windows: parts of the texture that daylight comes through.
    """

    paint: Callable[[np.random.Generator], Canvas] | None
    roughness: float = 0.9
    metallic: float = 0.0
    light: tuple[float, float, float] = (0.0, 0.0, 0.0)
    cut_out: bool = False
    bump_px: float | None = None
    windows: tuple[UvRect, ...] = ()
