"""Cameras as values: pinhole, lens distortion, and what a real sensor adds to a picture.

Pixels are OpenCV's: integer coordinates are pixel centres. Normalised image coordinates are (x / z,
y / z) of a point in the optical frame (x right, y down, z forward).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt


class LensModel(StrEnum):
    """Lens distortion models, named as ROS, Kalibr and OpenCV know them."""

    PLUMB_BOB = "plumb_bob"
    EQUIDISTANT = "equidistant"


@dataclass(frozen=True, slots=True)
class Distortion:
    """A lens.

    Attributes:
        coefficients: plumb-bob (k1, k2, p1, p2, k3) as OpenCV orders them; equidistant (k1, k2, k3,
            k4).
    """

    model: LensModel
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of a sensor and its lens on a colour or gray picture; the defaults add nothing.

    Attributes:
        shutter: share of the frame interval during which the shutter is open, 0..1: motion blur.
        exposure_ev: brightness in stops, +1 doubles the light.
        auto_exposure: let the exposure settle so that the mean of the picture is middle gray.
        noise: standard deviation of the noise at middle gray, in levels of 255.
        vignetting: loss of light in the corners, 0..1.
        dirt: strength of the smudges on the lens, 0..1.
        frame_ns: the frame interval; 0 = the time since the camera's previous picture, however long
            that was.
    """

    shutter: float = 0.0
    exposure_ev: float = 0.0
    auto_exposure: bool = False
    noise: float = 0.0
    vignetting: float = 0.0
    dirt: float = 0.0
    frame_ns: int = 0


NO_EFFECTS: Final = Effects()


@dataclass(frozen=True, slots=True)
class CameraModel:
    """A camera; without ``pinhole_px`` and ``distortion`` an ideal one.

    Attributes:
        fov_y_rad: vertical field of view of the ideal pinhole.
        pinhole_px: (fx, fy, cx, cy) in pixels of a calibrated camera; None = from ``fov_y_rad``.
        distortion: its lens; None = free of distortion.
    """

    name: str
    width_px: int
    height_px: int
    fov_y_rad: float
    pinhole_px: tuple[float, float, float, float] | None = None
    distortion: Distortion | None = None
    effects: Effects = NO_EFFECTS

    @property
    def f_px(self) -> float:
        """Vertical focal length of the ideal pinhole."""
        return 0.5 * self.height_px / math.tan(0.5 * self.fov_y_rad)

    @property
    def intrinsics_px(self) -> tuple[float, float, float, float]:
        """fx, fy, cx, cy."""
        if self.pinhole_px is not None:
            return self.pinhole_px
        return self.f_px, self.f_px, 0.5 * (self.width_px - 1), 0.5 * (self.height_px - 1)

    @property
    # The field's name for the intrinsic matrix.
    def K(self) -> npt.NDArray[np.float64]:  # noqa: N802
        """Intrinsic matrix, shape (3, 3), pixels."""
        fx, fy, cx, cy = self.intrinsics_px
        return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
