"""Picture of a real camera, made from a rendered one.

Lens, pixels, demosaicing, white balance, gamma, JPEG.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import simplejpeg

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.types import ImageArray
from vil_bridge.optics.camera_sensor import ImageSensor, Mosaic
from vil_bridge.optics.tone_curve import light_of_levels
from vil_bridge.pipeline.sensor.exposure import ExposureControl, WhiteBalance
from vil_bridge.pipeline.sensor.lens_light import Light, with_chromatic_aberration, with_glare
from vil_bridge.pipeline.sensor.pixel_array import PixelArray, Plane, Raw
from vil_bridge.protocols import opencv as cv2
from vil_bridge.protocols.image_codecs import encode_jpeg

_METER_STRIDE: Final = 8
_DEMOSAIC: Final = {
    Mosaic.RGGB: "COLOR_BayerBG2RGB",
    Mosaic.BGGR: "COLOR_BayerRG2RGB",
    Mosaic.GRBG: "COLOR_BayerGB2RGB",
    Mosaic.GBRG: "COLOR_BayerGR2RGB",
}
"""OpenCV names a pattern by its second row and column."""


class ImageChain:
    """One camera's way from rendered pictures to its own, in the order of the physics.

    Args:
        sensor: with its lens.
        camera: the picture's size and centre.
        serial: seed of the fixed pattern.
    """

    def __init__(self, sensor: ImageSensor, camera: CameraModel, serial: int) -> None:
        self._sensor = sensor
        self._camera = camera
        self.pixels = PixelArray(sensor, camera, serial)
        self._exposure = ExposureControl(sensor)
        self._balance = WhiteBalance(sensor)

    def picture(
        self, rendered: ImageArray, t_ns: int, rng: np.random.Generator, *, tone_curve: bool = False
    ) -> ImageArray:
        """Return the camera's picture, with the shape of the rendered one.

        (h, w) or (h, w, 3), uint8.

        ``tone_curve``: it was rendered with that of :mod:`vil_bridge.optics.tone_curve`, which is
        taken back.
        """
        mono = self._sensor.mosaic is Mosaic.MONO
        seen = np.ascontiguousarray(rendered)
        if mono and seen.ndim == 3:
            seen = cv2.cvtColor(seen, cv2.COLOR_RGB2GRAY)
        elif not mono and seen.ndim == 2:
            seen = cv2.cvtColor(seen, cv2.COLOR_GRAY2RGB)
        made = self._developed(self.raw(seen, t_ns, rng, tone_curve=tone_curve), t_ns)
        if self._sensor.jpeg_quality is not None:
            made = through_jpeg(made, self._sensor.jpeg_quality)
        if made.ndim == rendered.ndim:
            return made
        return np.asarray(cv2.cvtColor(made, cv2.COLOR_GRAY2RGB if mono else cv2.COLOR_RGB2GRAY))

    def raw(
        self, seen: ImageArray, t_ns: int, rng: np.random.Generator, *, tone_curve: bool = False
    ) -> Raw:
        """Return the raw values (h, w) of a picture.

        (h, w) for a monochrome sensor, else (h, w, 3).
        """
        levels = light_of_levels(tone_curve=tone_curve)
        light: Light = cv2.LUT(seen, levels)
        exposure = self._exposure.of(float(light[::_METER_STRIDE, ::_METER_STRIDE].mean()), t_ns)
        if light.ndim == 3 and self._sensor.chromatic_aberration_px:
            light = with_chromatic_aberration(
                light, self._camera, self._sensor.chromatic_aberration_px
            )
        if self._sensor.glare:
            light = with_glare(light, self._sensor.glare, float(levels[-1]))
        return self.pixels.expose(self._mosaic(light), exposure, rng)

    def _mosaic(self, light: Light) -> Plane:
        if light.ndim == 2:
            return light
        plane: Plane = np.empty(light.shape[:2], np.float32)
        for row, column, channel in self.pixels.channels:
            plane[row::2, column::2] = light[row::2, column::2, channel]
        return plane

    def _developed(self, raw: Raw, t_ns: int) -> ImageArray:
        """Return display values (sRGB) of raw ones."""
        black = self.pixels.black
        white = self.pixels.white
        if self._sensor.mosaic is Mosaic.MONO:
            return _encoding(black, white, 1.0)[raw]
        colours: Any = cv2.cvtColor(raw, getattr(cv2, _DEMOSAIC[self._sensor.mosaic]))
        means = (
            colours[::_METER_STRIDE, ::_METER_STRIDE].mean(axis=(0, 1), dtype=np.float64) - black
        )
        made: npt.NDArray[np.uint8] = np.empty(colours.shape, np.uint8)
        for channel, factor in enumerate(self._balance.of(means, t_ns)):
            made[..., channel] = _encoding(black, white, float(factor))[colours[..., channel]]
        return made


def through_jpeg(pixels: ImageArray, quality: int) -> ImageArray:
    """Return a picture compressed to JPEG and back.

    Colours at half the resolution, blocks of 8x8.
    """
    data, form = encode_jpeg(pixels, "native", quality)
    made = simplejpeg.decode_jpeg(data, colorspace="GRAY" if form == "gray8" else "RGB")
    return np.asarray(made.reshape(pixels.shape))


@lru_cache(maxsize=64)
def _encoding(black: int, white: int, factor: float) -> npt.NDArray[np.uint8]:
    """Return the display level (sRGB) of each raw value, (white + 1,)."""
    c = np.clip(factor * (np.arange(white + 1) - black) / (white - black), 0.0, 1.0)
    levels = np.where(c <= 0.0031308, 12.92 * c, 1.055 * np.maximum(c, 1e-9) ** (1.0 / 2.4) - 0.055)
    return np.rint(255.0 * levels).astype(np.uint8)
