"""Methods of the weather in the pictures, and in the returns of lidars and distance sensors."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from vil_bridge.core.weather import FINE, Weather
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import Share
from vil_simulation.airsim.vehicles import ServedVehicles

_PARAMETERS: Final = (
    "rain", "ground_wetness", "snow", "ground_snow", "leaves", "ground_leaves", "dust", "fog",
)  # fmt: skip
"""By the number of AirSim's WeatherParameter."""
_ENABLED: Final = len(_PARAMETERS)


class WeatherMethods:
    """Weather that programs set; it shows while it is enabled, instead of the scene's own."""

    def __init__(self, vehicles: ServedVehicles) -> None:
        self._vehicles = vehicles
        self._set = FINE

    @method("simEnableWeather")
    def enable_weather(self, enable: bool) -> None:
        """Show the weather that was set, or again the scene's own."""
        self._vehicles.weather = self._set if enable else None

    @method("simSetWeatherParameter")
    def set_weather(self, param: int, val: Share) -> None:
        """Set one amount, which is remembered while the weather is disabled.

        Values beyond 0 and 1 are those.
        """
        if not 0 <= param <= _ENABLED:
            raise ValueError(f"param must be from 0 to {_ENABLED}, not {param}")
        if param == _ENABLED:
            self.enable_weather(val > 0.0)
            return
        amounts: dict[str, Any] = asdict(self._set)
        amounts[_PARAMETERS[param]] = min(max(val, 0.0), 1.0)
        self._set = Weather(**amounts)
        if self._vehicles.weather is not None:
            self._vehicles.weather = self._set
