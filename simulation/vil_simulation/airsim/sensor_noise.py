"""Noise, rates and delays of sensors from AirSim's keys, as parameters of this project's
sensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_simulation.airsim.settings import SensorSettings, number_of

_LEAST_TAU_S: Final = 1e-3
_FASTEST_HZ: Final = 10_000.0
_LONGEST_S: Final = 60.0
_T_PER_GAUSS: Final = 1e-4


@dataclass(frozen=True, slots=True)
class SensorNoise:
    """Values of a sensor of the simulation.

    Attributes:
        parameters: by their names in :mod:`vil_simulation.vehicles.sensors`; what is absent has its
            default.
        rate_hz: None = the part's own.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    rate_hz: float | None = None


def noise_of(sensor: SensorSettings, place: str) -> SensorNoise:
    """Return the values that a sensor's entry sets.

    Args:
        sensor: the entry.
        place: of the entry in the file, with a dot at its end.

    Raises:
        ConfigError: a value is not a number or has no meaning; names the key.
    """
    reader = _Reader(sensor.values, place)
    if sensor.kind == "imu":
        return SensorNoise(reader.inertial())
    return SensorNoise(reader.parameters(_KEYS[sensor.kind]), reader.rate_hz())


_Keys = Mapping[str, tuple[str, float]]
_TIMES: Final[_Keys] = {"UpdateLatency": ("latency_s", 1.0), "StartupDelay": ("startup_s", 1.0)}
_KEYS: Final[Mapping[str, _Keys]] = {
    "barometer": {
        "PressureFactorSigma": ("drift", 1.0),
        "PressureFactorTau": ("drift_s", 1.0),
        "UncorrelatedNoiseSigma": ("noise_pa", 1.0),
    },
    "magnetometer": {
        "NoiseSigma": ("noise_t", _T_PER_GAUSS),
        "NoiseBias": ("bias_t", _T_PER_GAUSS),
        "ScaleFactor": ("scale", 1.0),
    },
    "gps": {
        "EphInitial": ("accuracy_first_m", 1.0),
        "EphFinal": ("accuracy_last_m", 1.0),
        "EPH_TimeConstant": ("accuracy_s", 1.0),
        "EphMin2d": ("fix_2d_m", 1.0),
        "EphMin3d": ("fix_3d_m", 1.0),
    },
}
"""AirSim's keys: the parameter that each sets, and the factor to its unit."""


class _Reader:
    """Reader of one entry."""

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self._values = values
        self._place = place

    def parameters(self, keys: _Keys) -> dict[str, float]:
        """Return the parameters whose keys are there."""
        found = {}
        for key, (name, factor) in (*keys.items(), *_TIMES.items()):
            if self._values.get(key) is not None:
                least = _LEAST_TAU_S if name in ("drift_s", "accuracy_s") else 0.0
                most = _LONGEST_S if key in _TIMES else 1e6
                found[name] = factor * number_of(
                    self._values, key, 0.0, self._place, least=least, most=most
                )
        return found

    def rate_hz(self) -> float | None:
        """Return the rate, where it is there."""
        if self._values.get("UpdateFrequency") is None:
            return None
        return number_of(
            self._values, "UpdateFrequency", 0.0, self._place, least=0.01, most=_FASTEST_HZ
        )

    def inertial(self) -> dict[str, dict[str, float]]:
        """Return noise of gyroscope and accelerometer, AirSim's own where a key is absent.

        Its ranges have no limit.
        """
        gyro = (
            ("AngularRandomWalk", 0.30),
            ("GyroBiasStability", 4.6),
            ("GyroBiasStabilityTau", 500.0),
        )
        accel = (
            ("VelocityRandomWalk", 0.24),
            ("AccelBiasStability", 36.0),
            ("AccelBiasStabilityTau", 800.0),
        )
        found = {}
        for name, keys, white_of, walk_of in (
            ("gyro", gyro, lambda x: math.radians(x) / 60.0, lambda x: math.radians(x) / 3600.0),
            ("accel", accel, lambda x: 1e-3 * GRAVITY_MPS2 * x, lambda x: 1e-6 * GRAVITY_MPS2 * x),
        ):
            found[name] = self._noise(keys, white_of, walk_of)
        return found

    def _noise(
        self,
        keys: tuple[tuple[str, float], ...],
        white_of: Callable[[float], float],
        walk_of: Callable[[float], float],
    ) -> dict[str, float]:
        white, bias, tau_s = (
            number_of(
                self._values,
                key,
                default,
                self._place,
                least=_LEAST_TAU_S if key.endswith("Tau") else 0.0,
            )
            for key, default in keys
        )
        return {"white": white_of(white), "walk": walk_of(bias) / math.sqrt(tau_s)}
