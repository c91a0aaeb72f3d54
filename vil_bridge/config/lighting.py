"""Configuration of the virtual world's light and weather."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Self

from pydantic import Field, StringConstraints

from vil_bridge.config.base import StrictModel
from vil_bridge.core.types import LampState, Lighting
from vil_bridge.core.weather import Weather

_Light = Annotated[float, Field(ge=0, le=10_000)]
_Amount = Annotated[float, Field(ge=0, le=1)]
_Speed = Annotated[float, Field(ge=-100, le=100)]


class WeatherConfig(StrictModel):
    """Amounts from 0 = none to 1; our embedded renderer follows them."""

    rain: _Amount = Field(default=0.0, description="1 = 50 mm per hour.")
    snow: _Amount = Field(default=0.0, description="1 = 5 mm per hour as water.")
    leaves: _Amount = Field(default=0.0, description="Falling leaves.")
    dust: _Amount = Field(default=0.0, description="Visibility 50 m / dust squared.")
    fog: _Amount = Field(default=0.0, description="Visibility 30 m / fog squared.")
    ground_wetness: _Amount = Field(default=0.0, description="Water on what faces up.")
    ground_snow: _Amount = Field(default=0.0, description="Snow on what faces up.")
    ground_leaves: _Amount = Field(default=0.0, description="Leaves on what faces up.")
    wind_mps: tuple[_Speed, _Speed, _Speed] = Field(
        default=(0.0, 0.0, 0.0),
        description="Wind in the world (east, north, up): moves what falls, and trees.",
    )

    def weather(self) -> Weather:
        """Return the same as a value."""
        return Weather(**self.model_dump())


class LampConfig(StrictModel):
    """Factors of a lamp's own light."""

    power: _Light = Field(default=1.0, description="Brightness: 0 = off, 1 = the scene's default.")
    colour: tuple[_Light, _Light, _Light] = Field(
        default=(1.0, 1.0, 1.0), description="Linear red, green, blue, times the lamp's own."
    )


class LightingConfig(StrictModel):
    """Light and weather that differ from the scene's default; our renderers follow them."""

    time_of_day_h: Annotated[float, Field(ge=0, le=24)] | None = Field(
        default=None,
        description="Local solar time in hours, which places the sun; none = the scene's default.",
    )
    lamps: dict[Annotated[str, StringConstraints(min_length=1, max_length=256)], LampConfig] = (
        Field(
            default={}, max_length=256, description="Lamps by the name that the scene gives them."
        )
    )
    weather: WeatherConfig | None = Field(
        default=None, description="Weather; none = the scene's default."
    )

    @classmethod
    def of(cls, lighting: Lighting | None) -> Self:
        """Return the configuration of a light; None = the scene's default."""
        if lighting is None:
            return cls()
        lamps = {
            name: LampConfig(power=lamp.power, colour=lamp.colour)
            for name, lamp in lighting.lamps.items()
        }
        weather: WeatherConfig | None = None
        if lighting.weather is not None:
            weather = WeatherConfig(**asdict(lighting.weather))
        return cls(time_of_day_h=lighting.time_of_day_h, lamps=lamps, weather=weather)

    def lighting(self) -> Lighting | None:
        """Return the same as a value; None = the scene's default."""
        if self.time_of_day_h is None and not self.lamps and self.weather is None:
            return None
        lamps = {n: LampState(lamp.power, lamp.colour) for n, lamp in self.lamps.items()}
        weather: Weather | None = None
        if self.weather is not None:
            weather = self.weather.weather()
        return Lighting(self.time_of_day_h, lamps, weather)
