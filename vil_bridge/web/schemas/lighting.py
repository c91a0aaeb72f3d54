"""Bodies of the lighting route."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from vil_bridge.web.request_body import Body

__all__ = []

_MAX_LAMPS: Final = 256

_Light = Annotated[float, Field(ge=0, le=10_000)]


class LampBody(Body):
    """Factors of a lamp's own light."""

    power: _Light = Field(default=1.0, description="Brightness: 0 = off, 1 = as the scene has it.")
    colour: tuple[_Light, _Light, _Light] = Field(default=(1.0, 1.0, 1.0), description="Linear red, green, blue.")


_LampName = Annotated[str, Field(min_length=1, max_length=256)]


class LightingBody(Body):
    """Light that differs from the scene's own."""

    time_of_day_h: Annotated[float, Field(ge=0, le=24)] | None = Field(
        default=None, description="Local solar time in hours, which places the sun; null = the scene's."
    )
    lamps: dict[_LampName, LampBody] = Field(
        default={}, max_length=_MAX_LAMPS, description="Lamps by the name that the scene gives them."
    )


class LightingPatch(Body):
    """A change: what is absent stays, null returns to the scene's own."""

    time_of_day_h: Annotated[float, Field(ge=0, le=24)] | None = Field(default=None, description="As in the whole.")
    lamps: dict[_LampName, LampBody | None] = Field(
        default={}, max_length=_MAX_LAMPS, description="Changed lamps; null = as the scene has it."
    )
