"""From light to the numbers of the ADC.

Shot noise, dark current, read noise, fixed pattern, full well.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.optics.camera_sensor import ImageSensor, Mosaic
from vil_bridge.pipeline.sensor.exposure import Exposure

Plane = npt.NDArray[np.float32]
Raw = npt.NDArray[np.uint16]

_BLACK_SHARE: Final = 1.0 / 64.0
"""Part of the ADC's range below black, so that the noise of the dark is not cut off."""
_HOT: Final = 2000.0
_LEAST_VARIANCE_E2: Final = np.float32(1e-6)


class PixelArray:
    """Pixels of one camera with their fixed pattern.

    Args:
        sensor: its numbers.
        camera: size of the picture, and the principal point about which light falls off.
        serial: seed of the fixed pattern: each camera has its own.

    Attributes:
        black: raw value of no light.
        white: largest raw value.
        raw_per_e: raw values per electron at 0 dB.
    """

    def __init__(self, sensor: ImageSensor, camera: CameraModel, serial: int) -> None:
        self._sensor = sensor
        self.white = (1 << sensor.adc_bits) - 1
        self.black = round(self.white * _BLACK_SHARE)
        self.raw_per_e = (self.white - self.black) / sensor.full_well_e
        shape = camera.height_px, camera.width_px
        rng = np.random.Generator(np.random.SFC64(serial))
        pattern = 1.0 + sensor.response_nonuniformity * rng.standard_normal(shape, np.float32)
        response = np.ones(3)
        if sensor.mosaic is not Mosaic.MONO:
            response = np.array(sensor.channel_response)
        self.channels = channel_of_sites(sensor.mosaic)
        self._response: Plane = (
            _falloff(camera, sensor.vignetting) * np.maximum(pattern, 0.0)
        ).astype(np.float32)
        for row, column, channel in self.channels:
            self._response[row::2, column::2] *= np.float32(response[channel])
        self._offset_e: Plane = np.float32(sensor.dark_nonuniformity_e) * rng.standard_normal(
            shape, np.float32
        )
        hot = rng.random(shape, np.float32) < sensor.hot_pixels
        self._dark_e_s: Plane = (sensor.dark_current_e_s * np.where(hot, _HOT, 1.0)).astype(
            np.float32
        )

    def expose(self, light: Plane, exposure: Exposure, rng: np.random.Generator) -> Raw:
        """Return raw values (h, w).

        Shot and read noise are one draw with the mean, the variance and the third moment of their
        sum (Cornish and Fisher 1938), at a quarter of the cost of Poisson numbers.

        Args:
            light: that falls on each pixel, (h, w), 1 = white.
            exposure: time and gain.
            rng: of this picture alone.
        """
        sensor = self._sensor
        mean_e = light * self._response
        mean_e *= np.float32(sensor.white_e_s * exposure.time_s)
        mean_e += self._dark_e_s * np.float32(exposure.time_s)
        variance = mean_e + np.float32(sensor.read_noise_e**2)
        np.maximum(variance, _LEAST_VARIANCE_E2, out=variance)
        z = rng.standard_normal(light.shape, np.float32)
        skew = mean_e / variance
        skew *= np.float32(1.0 / 6.0)
        electrons = np.sqrt(variance, out=variance)
        electrons *= z
        electrons += mean_e
        electrons += self._offset_e
        z *= z
        z -= np.float32(1.0)
        skew *= z
        electrons += skew
        np.minimum(electrons, np.float32(sensor.full_well_e), out=electrons)
        electrons *= np.float32(self.raw_per_e * exposure.gain)
        electrons += np.float32(self.black + 0.5)
        np.clip(electrons, 0.0, np.float32(self.white), out=electrons)
        raw: Raw = electrons.astype(np.uint16)
        return raw


def channel_of_sites(mosaic: Mosaic) -> tuple[tuple[int, int, int], ...]:
    """Return row and column, 0 or 1, and the channel (0 red, 1 green, 2 blue) of the four pixels
    of a pattern.
    """
    if mosaic is Mosaic.MONO:
        return ()
    return tuple((k // 2, k % 2, "rgb".index(letter)) for k, letter in enumerate(mosaic.value))


def _falloff(camera: CameraModel, vignetting: float) -> Plane:
    """Return the share of light (h, w) that reaches each pixel.

    Less with the square of the distance from the axis.
    """
    y, x = np.indices((camera.height_px, camera.width_px), dtype=np.float32)
    r2 = (x - 0.5 * (camera.width_px - 1)) ** 2 + (y - 0.5 * (camera.height_px - 1)) ** 2
    share = 1.0 - vignetting * r2 / max(float(r2[0, 0]), 1.0)
    return share.astype(np.float32)
