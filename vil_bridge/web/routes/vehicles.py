"""Routes of simulated vehicles: state, sensors and commands."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, HTTPException, Request

from vil_bridge.core.vehicle_commands import VehicleCommand, VehicleCommandBus, VehicleState
from vil_bridge.web.request_body import NOT_NOW, explained_refusals, read_body, takes
from vil_bridge.web.schemas.status import ErrorOut
from vil_bridge.web.schemas.vehicles import CommandBody, VehicleSensorsOut

_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "No such vehicle; the answer names some."}
}
_REFUSED: Final = {**_UNKNOWN, **NOT_NOW}


def vehicles_router(commands: VehicleCommandBus) -> APIRouter:
    """Return the routes ``/api/v1/vehicles``: GET reads states and sensors, POST ``NAME/command`` commands one."""
    router = APIRouter(prefix="/api/v1/vehicles", tags=["vehicles"])

    @router.get("", operation_id="get_vehicles")
    async def get_vehicles() -> list[str]:
        """Return the names of the simulated vehicles."""
        return commands.names()

    @router.get("/{name}", operation_id="get_vehicle", responses=_UNKNOWN)
    async def get_vehicle(name: str) -> VehicleState:
        """Return the state of one vehicle."""
        return _state(commands, name)

    @router.get("/{name}/sensors", operation_id="get_vehicle_sensors", responses=_UNKNOWN)
    async def get_vehicle_sensors(name: str) -> VehicleSensorsOut:
        """Return the newest reading of each sensor of one vehicle, by kind and name."""
        try:
            return VehicleSensorsOut.of(commands.readings(name))
        except KeyError:
            raise _unknown(commands, name) from None

    @router.post(
        "/{name}/command", operation_id="command_vehicle", responses=_REFUSED, openapi_extra=takes(CommandBody)
    )
    async def command_vehicle(name: str, request: Request) -> VehicleState:
        """Command a vehicle; return its state before the command."""
        body = await read_body(request, CommandBody)
        state = _state(commands, name)
        try:
            with explained_refusals():
                commands.command(VehicleCommand(name, body.action, body.mode, body.values, body.t_ns))
        except KeyError:
            raise _unknown(commands, name) from None
        return state

    return router


def _state(commands: VehicleCommandBus, name: str) -> VehicleState:
    try:
        return commands.state(name)
    except KeyError:
        raise _unknown(commands, name) from None


def _unknown(commands: VehicleCommandBus, name: str) -> HTTPException:
    known = ", ".join(commands.names()[:20]) or "none"
    return HTTPException(404, f"no simulated vehicle is named {name!r}; known: {known}")
