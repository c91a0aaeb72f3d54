"""Routes of the virtual world's light and weather."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Protocol

from fastapi import APIRouter, HTTPException, Request

from vil_bridge.core.types import LampState, Lighting
from vil_bridge.core.weather import Weather
from vil_bridge.web.request_body import read_body, takes
from vil_bridge.web.schemas.lighting import (
    _MAX_LAMPS,
    LampBody,
    LampsView,
    LampView,
    LightingBody,
    LightingPatch,
    WeatherBody,
)


class LightingTarget(Protocol):
    """Holder of the light; None = the scene's default."""

    lighting: Lighting | None


SceneLamps = Callable[[], dict[str, LampView] | None]


def no_lamps_known() -> dict[str, LampView] | None:
    """Return None: any name is accepted, because the renderer does not list its lamps."""
    return None


def lighting_router(light: LightingTarget, lamps: SceneLamps) -> APIRouter:
    """Return the routes ``/api/v1/lighting``: GET reads, PUT sets, PATCH changes a part.

    ``/lamps`` lists the lamps.
    """
    router = APIRouter(prefix="/api/v1/lighting", tags=["lighting"])

    @router.get("", operation_id="get_lighting")
    async def get_lighting() -> LightingBody:
        """Return the difference of the light from the scene's default."""
        return _body_of(light.lighting)

    @router.get("/lamps", operation_id="get_lamps")
    async def get_lamps() -> LampsView:
        """Return the lamps of the drawn scene with their default light."""
        known = lamps()
        return LampsView(known is not None, known or {})

    @router.put("", operation_id="put_lighting", openapi_extra=takes(LightingBody))
    async def put_lighting(request: Request) -> LightingBody:
        """Set the light; an empty object restores the scene's default."""
        body = await read_body(request, LightingBody)
        _check_names(body.lamps, lamps())
        return _set(light, body)

    @router.patch("", operation_id="patch_lighting", openapi_extra=takes(LightingPatch))
    async def patch_lighting(request: Request) -> LightingBody:
        """Change a part of the light."""
        patch = await read_body(request, LightingPatch)
        _check_names((name for name, lamp in patch.lamps.items() if lamp is not None), lamps())
        before = _body_of(light.lighting)  # after the last await, so that no other change is lost
        changed = {
            n: lamp for n, lamp in {**before.lamps, **patch.lamps}.items() if lamp is not None
        }
        if len(changed) > _MAX_LAMPS:
            raise HTTPException(422, f"{len(changed)} lamps: at most {_MAX_LAMPS} can be changed")
        has_time = "time_of_day_h" in patch.model_fields_set
        time_of_day_h = patch.time_of_day_h if has_time else before.time_of_day_h
        weather = _changed(before.weather, patch)
        return _set(
            light, LightingBody(time_of_day_h=time_of_day_h, lamps=changed, weather=weather)
        )

    return router


def _check_names(names: Iterable[str], known: dict[str, LampView] | None) -> None:
    """Raise HTTPException if the scene has no lamp of such a name."""
    unknown = [] if known is None else [name for name in names if name not in known]
    if unknown and known is not None:
        listed = ", ".join(sorted(known)) or "none"
        raise HTTPException(422, f"lamps.{unknown[0]}: the scene has no such lamp; known: {listed}")


def _changed(before: WeatherBody | None, patch: LightingPatch) -> WeatherBody | None:
    """Return the weather after a patch: amounts that it does not name stay."""
    if "weather" not in patch.model_fields_set:
        return before
    if patch.weather is None or before is None:
        return patch.weather
    return before.model_copy(update=patch.weather.model_dump(exclude_unset=True))


def _set(light: LightingTarget, body: LightingBody) -> LightingBody:
    lamps = {name: LampState(lamp.power, lamp.colour) for name, lamp in body.lamps.items()}
    weather = None if body.weather is None else Weather(**body.weather.model_dump())
    changed = body.time_of_day_h is not None or bool(lamps) or weather is not None
    light.lighting = Lighting(body.time_of_day_h, lamps, weather) if changed else None
    return body


def _body_of(lighting: Lighting | None) -> LightingBody:
    if lighting is None:
        return LightingBody()
    lamps = {
        name: LampBody(power=lamp.power, colour=lamp.colour)
        for name, lamp in lighting.lamps.items()
    }
    weather = None if lighting.weather is None else WeatherBody(**asdict(lighting.weather))
    return LightingBody(time_of_day_h=lighting.time_of_day_h, lamps=lamps, weather=weather)
