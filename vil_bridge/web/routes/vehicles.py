"""Simulated vehicles over REST: how they are, and commands to them."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, HTTPException, Request

from vil_bridge.core.errors import ValueRefused
from vil_bridge.core.vehicle_commands import VehicleCommand, VehicleCommandBus, VehicleState
from vil_bridge.web.request_body import read_body, takes
from vil_bridge.web.schemas.status import ErrorOut
from vil_bridge.web.schemas.vehicles import CommandBody

__all__ = ["vehicles_router"]

_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "No such vehicle; the answer names some."}
}
_REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    **_UNKNOWN,
    409: {"model": ErrorOut, "description": "Not now; the answer says why."},
}


def vehicles_router(desk: VehicleCommandBus) -> APIRouter:
    """``/api/v1/vehicles``: GET says how they are, POST ``NAME/command`` flies one."""
    router = APIRouter(prefix="/api/v1/vehicles", tags=["vehicles"])

    @router.get("", operation_id="get_vehicles")
    async def get_vehicles() -> list[str]:
        """Names of the simulated vehicles."""
        return desk.names()

    @router.get("/{name}", operation_id="get_vehicle", responses=_UNKNOWN)
    async def get_vehicle(name: str) -> VehicleState:
        """One vehicle now."""
        return _state(desk, name)

    @router.post(
        "/{name}/command", operation_id="command_vehicle", responses=_REFUSED, openapi_extra=takes(CommandBody)
    )
    async def command_vehicle(name: str, request: Request) -> VehicleState:
        """Command a vehicle; the answer is its state as the command found it."""
        body = await read_body(request, CommandBody)
        state = _state(desk, name)
        try:
            desk.command(VehicleCommand(name, body.action, body.mode, body.values, body.t_ns))
        except KeyError:
            raise _unknown(desk, name) from None
        except ValueRefused as exc:
            raise HTTPException(422, str(exc)) from None
        except ValueError as exc:
            raise HTTPException(409, str(exc)) from None
        return state

    return router


def _state(desk: VehicleCommandBus, name: str) -> VehicleState:
    try:
        return desk.state(name)
    except KeyError:
        raise _unknown(desk, name) from None


def _unknown(desk: VehicleCommandBus, name: str) -> HTTPException:
    known = ", ".join(desk.names()[:20]) or "none"
    return HTTPException(404, f"no simulated vehicle is named {name!r}; known: {known}")
