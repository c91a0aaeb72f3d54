"""Exposure and white balance of a camera: fixed, or automatic."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.optics.camera_sensor import ImageSensor

_MIDDLE_GRAY: Final = 0.18
_SETTLING_S: Final = 0.3
_DARKEST: Final = 1e-4
_MOST_BALANCE: Final = 4.0


class Exposure(NamedTuple):
    """Exposure of a picture: time in seconds, and the gain as a factor on the electrons."""

    time_s: float
    gain: float


class _Settling:
    """Part of the way from the old values to new ones that the time between two pictures allows."""

    def __init__(self) -> None:
        self._t_ns: int | None = None

    def share(self, t_ns: int) -> float:
        """Return the part, 1 for the first picture."""
        before_ns = self._t_ns
        self._t_ns = t_ns
        if before_ns is None:
            return 1.0
        return 1.0 - math.exp(-max(0.0, 1e-9 * (t_ns - before_ns)) / _SETTLING_S)


class ExposureControl:
    """Exposure of one camera.

    Time first, then gain, so that the picture's mean becomes middle gray.

    The first picture has its exposure at once; later ones follow with 0.3 s.
    """

    def __init__(self, sensor: ImageSensor) -> None:
        self._sensor = sensor
        self._settling = _Settling()
        self._product_s = sensor.longest_s

    def of(self, light: float, t_ns: int) -> Exposure:
        """Return the exposure of a picture.

        Args:
            light: mean of the picture's linear light, 1 = white.
            t_ns: its instant.
        """
        sensor = self._sensor
        most_gain = 10.0 ** (sensor.gain_db / 20.0)
        if sensor.exposure_s is not None:
            return Exposure(sensor.exposure_s, most_gain)
        wanted_s = _MIDDLE_GRAY * sensor.full_well_e / (max(light, _DARKEST) * sensor.white_e_s)
        wanted_s = min(max(wanted_s, sensor.shortest_s), sensor.longest_s * most_gain)
        self._product_s *= (wanted_s / self._product_s) ** self._settling.share(t_ns)
        time_s = min(self._product_s, sensor.longest_s)
        return Exposure(time_s, self._product_s / time_s)


class WhiteBalance:
    """Factors on the red, green and blue of one camera; green has 1."""

    def __init__(self, sensor: ImageSensor) -> None:
        self._mode = sensor.white_balance
        self._settling = _Settling()
        response = np.array(sensor.channel_response)
        self._factors: FloatArray = np.ones(3) if self._mode == "off" else response[1] / response

    def of(self, means: FloatArray, t_ns: int) -> FloatArray:
        """Return the factors (3,) for a picture with the means (3,) of its raw values above
        black.
        """
        if self._mode == "auto" and means.min() > 0.0:
            wanted = np.clip(means[1] / means, 1.0 / _MOST_BALANCE, _MOST_BALANCE)
            self._factors = self._factors * (wanted / self._factors) ** self._settling.share(t_ns)
        return self._factors
