"""Wind: steady, swinging, and the gusts of Dryden's turbulence; disturbances on a fleet.

All add to ``wind_world_mps``, so that they can be combined; gusts belong behind the mean wind in
which they drift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import exp, sin_cos
from vil_bridge.core.random.noise import NoiseStream, natural_log
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.layout import RIGID_BODY, StateLayout

_WIND: Final = ENVIRONMENT["wind_world_mps"]
_BODY: Final = StateLayout(*RIGID_BODY)
_P: Final = _BODY["p_world_m"]
_V: Final = _BODY["v_world_mps"]

_FOOT_M: Final = 0.3048
_LOWEST_FT: Final = 10.0
_HIGHEST_FT: Final = 1000.0
_STREAM: Final = 0x47555354
_FOREVER: Final = 1e3  # time constants after which a filter has its stationary distribution
_TINY: Final = 1e-300
_OF_FIRST: Final = np.sqrt([[2.0], [3.0], [3.0]])
_OF_SECOND: Final = np.array([[0.0], [1.0 - math.sqrt(3.0)], [1.0 - math.sqrt(3.0)]])
"""(1 + sqrt(3) T s) / (1 + T s)^2 is sqrt(3) of the first filter and 1 - sqrt(3) of the second
behind it.
"""


class ConstantWind:
    """The same wind all the time.

    Args:
        wind_world_mps: velocity of the air, ENU, shape (3,), or (n, 3) for each vehicle its own.
    """

    def __init__(self, wind_world_mps: npt.ArrayLike) -> None:
        self._wind = _vectors("wind_world_mps", wind_world_mps)

    # The port.
    def apply(
        self,
        step: int,  # noqa: ARG002
        dt_s: float,  # noqa: ARG002
        x: FloatArray,  # noqa: ARG002
        around: FloatArray,
    ) -> None:
        """Add the wind."""
        around[:, _WIND] += self._wind


class SinusoidalWind:
    """Wind that swings: amplitude sin(2 pi f t + phase) on each axis.

    Args:
        amplitude_world_mps: ENU, shape (3,) or (n, 3). frequency_hz, phase_rad: of one shape with
            it, or numbers.
    """

    def __init__(
        self,
        amplitude_world_mps: npt.ArrayLike,
        frequency_hz: npt.ArrayLike,
        phase_rad: npt.ArrayLike = 0.0,
    ) -> None:
        self._amplitude = _vectors("amplitude_world_mps", amplitude_world_mps)
        self._rate_radps = 2.0 * np.pi * np.asarray(frequency_hz, dtype=np.float64)
        self._phase_rad = np.asarray(phase_rad, dtype=np.float64)

    # The port.
    def apply(
        self,
        step: int,
        dt_s: float,
        x: FloatArray,  # noqa: ARG002
        around: FloatArray,
    ) -> None:
        """Add the wind at the beginning of the step."""
        around[:, _WIND] += (
            self._amplitude * sin_cos(self._rate_radps * (step * dt_s) + self._phase_rad)[0]
        )


class DrydenGusts:
    """Turbulence near the ground, MIL-F-8785C section 3.7.

    Dryden's spectra, low-altitude lengths and intensities.

    A frozen field drifts past each vehicle at its speed V through the mean wind (what stands in
    ``around`` before): longitudinal gusts along that wind's horizontal direction (east where there
    is none), lateral ones across, vertical ones up. Spectra over the frequency, two-sided, with T =
    L / V::

        S_u = sigma^2 2 T / (1 + (w T)^2)
        S_v, S_w = sigma^2 T (1 + 3 (w T)^2) / (1 + (w T)^2)^2

    The filters are exact for any step while V and the altitude are constant, and begin in their
    stationary distribution, so that the variance is sigma^2 from the first step on. Altitudes are
    those above z = ground_z_m, held within 3 and 305 m. Every vehicle has its own gusts; they start
    again when the steps do not follow each other.

    Args:
        speed_6m_mps: mean wind 6 m above ground, which sets the intensity; 7.7 is light, 15.4
            moderate, 23.1 severe.
        seed: of the simulation.
        vehicles: identities of the rows, to which the random numbers belong; None = 0, 1, 2...
        ground_z_m: height of the ground in the world.

    Raises:
        ValueError: a negative speed.
    """

    def __init__(
        self,
        speed_6m_mps: float,
        seed: int,
        vehicles: Sequence[int] | None = None,
        ground_z_m: float = 0.0,
    ) -> None:
        if not 0.0 <= speed_6m_mps < math.inf:
            raise ValueError(f"speed_6m_mps must not be negative, got {speed_6m_mps}")
        self._speed_6m_mps = speed_6m_mps
        self._noise = NoiseStream(seed, _STREAM)
        self._vehicles = None if vehicles is None else np.asarray(vehicles, dtype=np.int64)
        self._ground_z_m = ground_z_m
        self._next_step = -1
        self._first: FloatArray = np.zeros((3, 0))
        self._second: FloatArray = np.zeros((3, 0))

    def apply(self, step: int, dt_s: float, x: FloatArray, around: FloatArray) -> None:
        """Add the gusts of this step."""
        n = len(x)
        mean = around[:, _WIND]
        height = x[:, _P][:, 2] - self._ground_z_m
        through = x[:, _V] - mean
        speed = np.sqrt((through * through).sum(axis=1))
        h, level = _low(height)
        decay = speed * dt_s / _lengths_m(h, level)
        # A state that is not finite leaves no trace.
        decay = np.where(decay < _FOREVER, decay, _FOREVER)
        if step != self._next_step or self._first.shape[1] != n:
            self._first = self._second = np.zeros((3, n))
            decay = np.full((3, n), _FOREVER)
        self._next_step = step + 1
        self._advance(
            decay, self._noise.normals(step, n if self._vehicles is None else self._vehicles, 6).T
        )

        gusts = _OF_FIRST * self._first + _OF_SECOND * self._second
        along, across, up = gusts * _intensities_mps(level, self._speed_6m_mps)
        cos, sin = _direction(mean)
        mean += np.stack((along * cos - across * sin, along * sin + across * cos, up), axis=1)

    def _advance(self, decay: FloatArray, noise: FloatArray) -> None:
        """Step the filters by ``decay`` (3, n) of their time constants with normal numbers (6, n).

        ``first' = -first / T + white / sqrt(T)``, ``second' = (first - second) / T`` have the
        covariance P = [[1/2, 1/4], [1/4, 1/4]] whatever T is. That of a step's noise is P - F P
        F^T, F = exp(-a) [[1, 0], [a, 1]].
        """
        a = decay
        fade = exp(-decay)
        fade2 = fade * fade
        q11 = 0.5 - 0.5 * fade2
        q12 = 0.25 - fade2 * (0.5 * a + 0.25)
        q22 = 0.25 - fade2 * (0.5 * a * (a + 1.0) + 0.25)
        l11 = np.sqrt(q11)
        l21 = q12 / np.maximum(l11, _TINY)
        l22 = np.sqrt(np.maximum(q22 - l21 * l21, 0.0))
        self._second = fade * (a * self._first + self._second) + l21 * noise[:3] + l22 * noise[3:]
        self._first = fade * self._first + l11 * noise[:3]


def dryden_lengths_m(height_m: npt.ArrayLike) -> FloatArray:
    """Scale lengths L_u, L_v, L_w at heights above ground (...), shape (3, ...)."""
    return _lengths_m(*_low(height_m))


def dryden_intensities_mps(height_m: npt.ArrayLike, speed_6m_mps: float) -> FloatArray:
    """Return standard deviations sigma_u, sigma_v, sigma_w at heights above ground (...), shape
    (3, ...).
    """
    return _intensities_mps(_low(height_m)[1], speed_6m_mps)


def _low(height_m: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return heights h that the specification covers, feet, and (0.177 + 0.000823 h)^-0.4."""
    h = np.minimum(
        np.maximum(np.asarray(height_m, dtype=np.float64) / _FOOT_M, _LOWEST_FT), _HIGHEST_FT
    )
    return h, np.asarray(exp(-0.4 * natural_log(0.177 + 0.000823 * h)))


def _lengths_m(h_ft: FloatArray, level: FloatArray) -> FloatArray:
    vertical = _FOOT_M * h_ft
    horizontal = vertical * level * level * level
    return np.stack((horizontal, horizontal, vertical))


def _intensities_mps(level: FloatArray, speed_6m_mps: float) -> FloatArray:
    return np.asarray(0.1 * speed_6m_mps * np.stack((level, level, np.ones_like(level))))


def _direction(v_world: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return cosine and sine of the horizontal direction of vectors (n, 3).

    East where there is none.
    """
    size = np.sqrt(v_world[:, 0] ** 2 + v_world[:, 1] ** 2)
    moves = size > 0.0
    divisor = np.where(moves, size, 1.0)
    return np.where(moves, v_world[:, 0] / divisor, 1.0), v_world[:, 1] / divisor


def _vectors(name: str, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] != 3 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, shape (3,) or (n, 3), got shape {array.shape}")
    return array
