"""The light of the virtual world, changed while the bridge runs."""

from __future__ import annotations

from typing import Annotated, Final, Protocol

from fastapi import APIRouter, HTTPException, Request
from pydantic import Field

from vil_bridge.core.types import LampState, Lighting
from vil_bridge.dashboard.body import Body, read_body, takes

__all__ = ["Lit", "lighting_router"]

_MAX_LAMPS: Final = 256
_Light = Annotated[float, Field(ge=0, le=10_000)]


class Lit(Protocol):
    """Whoever keeps the light; None = as the scene has it."""

    lighting: Lighting | None


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


def lighting_router(lit: Lit) -> APIRouter:
    """``/api/v1/lighting``: GET says how the light is, PUT sets it, PATCH changes a part of it."""
    router = APIRouter(prefix="/api/v1/lighting", tags=["lighting"])

    @router.get("", operation_id="get_lighting")
    async def get_lighting() -> LightingBody:
        """How the light differs from the scene's."""
        return _told(lit.lighting)

    @router.put("", operation_id="put_lighting", openapi_extra=takes(LightingBody))
    async def put_lighting(request: Request) -> LightingBody:
        """Set the light; an empty object returns to the scene's."""
        return _set(lit, await read_body(request, LightingBody))

    @router.patch("", operation_id="patch_lighting", openapi_extra=takes(LightingPatch))
    async def patch_lighting(request: Request) -> LightingBody:
        """Change a part of the light."""
        patch = await read_body(request, LightingPatch)
        before = _told(lit.lighting)  # after the last await, so that no other change is lost
        lamps = {n: lamp for n, lamp in {**before.lamps, **patch.lamps}.items() if lamp is not None}
        if len(lamps) > _MAX_LAMPS:
            raise HTTPException(422, f"{len(lamps)} lamps: at most {_MAX_LAMPS} can be changed")
        timed = "time_of_day_h" in patch.model_fields_set
        return _set(
            lit,
            LightingBody(time_of_day_h=patch.time_of_day_h if timed else before.time_of_day_h, lamps=lamps),
        )

    return router


def _set(lit: Lit, body: LightingBody) -> LightingBody:
    lamps = {name: LampState(lamp.power, lamp.colour) for name, lamp in body.lamps.items()}
    changed = body.time_of_day_h is not None or bool(lamps)
    lit.lighting = Lighting(body.time_of_day_h, lamps) if changed else None
    return body


def _told(lighting: Lighting | None) -> LightingBody:
    if lighting is None:
        return LightingBody()
    lamps = {name: LampBody(power=lamp.power, colour=lamp.colour) for name, lamp in lighting.lamps.items()}
    return LightingBody(time_of_day_h=lighting.time_of_day_h, lamps=lamps)
