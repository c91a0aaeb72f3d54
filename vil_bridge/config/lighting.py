"""Configuration of the virtual world's light."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, StringConstraints

from vil_bridge.config.base import StrictModel
from vil_bridge.core.types import LampState, Lighting

_Light = Annotated[float, Field(ge=0, le=10_000)]


class LampConfig(StrictModel):
    """Factors of a lamp's own light."""

    power: _Light = Field(default=1.0, description="Brightness: 0 = off, 1 = the scene's default.")
    colour: tuple[_Light, _Light, _Light] = Field(
        default=(1.0, 1.0, 1.0), description="Linear red, green, blue, times the lamp's own."
    )


class LightingConfig(StrictModel):
    """Light that differs from the scene's default; our renderers follow it."""

    time_of_day_h: Annotated[float, Field(ge=0, le=24)] | None = Field(
        default=None, description="Local solar time in hours, which places the sun; none = the scene's default."
    )
    lamps: dict[Annotated[str, StringConstraints(min_length=1, max_length=256)], LampConfig] = Field(
        default={}, max_length=256, description="Lamps by the name that the scene gives them."
    )

    @classmethod
    def of(cls, lighting: Lighting | None) -> Self:
        """Return the configuration of a light; None = the scene's default."""
        if lighting is None:
            return cls()
        lamps = {name: LampConfig(power=lamp.power, colour=lamp.colour) for name, lamp in lighting.lamps.items()}
        return cls(time_of_day_h=lighting.time_of_day_h, lamps=lamps)

    def lighting(self) -> Lighting | None:
        """Return the same as a value; None = the scene's default."""
        if self.time_of_day_h is None and not self.lamps:
            return None
        return Lighting(self.time_of_day_h, {n: LampState(lamp.power, lamp.colour) for n, lamp in self.lamps.items()})
