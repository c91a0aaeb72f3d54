"""Bodies of the lighting route."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from vil_bridge.web.schemas.body import Body

_MAX_LAMPS: Final = 256

_Light = Annotated[float, Field(ge=0, le=10_000)]


class LampBody(Body):
    """Factors of a lamp's own light."""

    power: _Light = Field(default=1.0, description="Brightness: 0 = off, 1 = the scene's default.")
    colour: tuple[_Light, _Light, _Light] = Field(
        default=(1.0, 1.0, 1.0), description="Linear red, green, blue."
    )


_Amount = Annotated[float, Field(ge=0, le=1)]
_Speed = Annotated[float, Field(ge=-100, le=100)]


class WeatherBody(Body):
    """Amounts from 0 = none to 1."""

    rain: _Amount = Field(default=0.0, description="1 = 50 mm per hour.")
    snow: _Amount = Field(default=0.0, description="1 = 5 mm per hour as water.")
    leaves: _Amount = Field(default=0.0, description="Falling leaves.")
    dust: _Amount = Field(default=0.0, description="Visibility 50 m / dust squared.")
    fog: _Amount = Field(default=0.0, description="Visibility 30 m / fog squared.")
    ground_wetness: _Amount = Field(default=0.0, description="Water on what faces up.")
    ground_snow: _Amount = Field(default=0.0, description="Snow on what faces up.")
    ground_leaves: _Amount = Field(default=0.0, description="Leaves on what faces up.")
    wind_mps: tuple[_Speed, _Speed, _Speed] = Field(
        default=(0.0, 0.0, 0.0), description="East, north, up."
    )


_LampName = Annotated[str, Field(min_length=1, max_length=256)]


class LightingBody(Body):
    """Light and weather that differ from the scene's own."""

    time_of_day_h: Annotated[float, Field(ge=0, le=24)] | None = Field(
        default=None,
        description="Local solar time in hours, which places the sun; null = the scene's.",
    )
    lamps: dict[_LampName, LampBody] = Field(
        default={},
        max_length=_MAX_LAMPS,
        description="Lamps by the name that the scene gives them.",
    )
    weather: WeatherBody | None = Field(default=None, description="Weather; null = the scene's.")


class LightingPatch(Body):
    """A change: what is absent stays, null returns to the scene's own."""

    time_of_day_h: Annotated[float, Field(ge=0, le=24)] | None = Field(
        default=None, description="As in the whole."
    )
    lamps: dict[_LampName, LampBody | None] = Field(
        default={}, max_length=_MAX_LAMPS, description="Changed lamps; null = the scene's default."
    )
    weather: WeatherBody | None = Field(
        default=None, description="Changed amounts, the others stay."
    )


@dataclass(frozen=True, slots=True)
class LampView:
    """A lamp of the scene, as the scene has it.

    Attributes:
        p_m: in the world.
        light: linear RGB at 1 m on its axis; falls with the square of the distance.
    """

    p_m: tuple[float, float, float]
    light: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class LampsView:
    """The lamps of the drawn scene.

    Attributes:
        listed: false while a renderer does not list its lamps; then any name is accepted.
        lamps: by name.
    """

    listed: bool
    lamps: dict[str, LampView]
