"""Routes of simulated vehicles: state, sensors and commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fastapi import APIRouter, HTTPException, Request

from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleCommandBus, VehicleState
from vil_bridge.interfaces.vehicle_moves import VehicleDisturbance
from vil_bridge.web.request_body import NOT_NOW, explained_refusals, read_body, takes
from vil_bridge.web.schemas.status import ErrorOut
from vil_bridge.web.schemas.vehicles import CommandBody, DisturbanceBody, VehicleSensorsOut

_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "No such vehicle; the answer names some."}
}
_REFUSED: Final = {**_UNKNOWN, **NOT_NOW}


def vehicles_router(commands: VehicleCommandBus) -> APIRouter:
    """Return the routes ``/api/v1/vehicles``.

    GET reads states and sensors, POST and PATCH act on one.
    """
    router = APIRouter(prefix="/api/v1/vehicles", tags=["vehicles"])

    @router.get("", operation_id="get_vehicles")
    async def get_vehicles() -> list[str]:
        """Return the names of the simulated vehicles."""
        return commands.names()

    @router.get("/{name}", operation_id="get_vehicle", responses=_UNKNOWN)
    async def get_vehicle(name: str) -> VehicleState:
        """Return the state of one vehicle."""
        with _known(commands, name):
            return commands.of(name).state(name)

    @router.get("/{name}/sensors", operation_id="get_vehicle_sensors", responses=_UNKNOWN)
    async def get_vehicle_sensors(name: str) -> VehicleSensorsOut:
        """Return the newest reading of each sensor of one vehicle, by kind and name."""
        with _known(commands, name):
            return VehicleSensorsOut.of(commands.of(name).readings(name))

    @router.post(
        "/{name}/command",
        operation_id="command_vehicle",
        responses=_REFUSED,
        openapi_extra=takes(CommandBody),
    )
    async def command_vehicle(name: str, request: Request) -> VehicleState:
        """Command a vehicle; return its state before the command."""
        body = await read_body(request, CommandBody)
        with _known(commands, name), explained_refusals():
            state = commands.of(name).state(name)
            commands.send(name, VehicleCommand(body.action, body.mode, body.values, body.t_ns))
            return state

    @router.patch(
        "/{name}/disturbance",
        operation_id="disturb_vehicle",
        responses=_REFUSED,
        openapi_extra=takes(DisturbanceBody),
    )
    async def disturb_vehicle(name: str, request: Request) -> VehicleState:
        """Let wind, a force and broken rotors act on a vehicle; return its state before them."""
        body = await read_body(request, DisturbanceBody)
        lost = None if body.lost_shares is None else tuple(body.lost_shares)
        with _known(commands, name), explained_refusals():
            state = commands.of(name).state(name)
            commands.send(name, VehicleDisturbance(body.wind_world_mps, body.force_world_n, lost))
            return state

    return router


@contextmanager
def _known(commands: VehicleCommandBus, name: str) -> Iterator[None]:
    """Answer 404 where no vehicle has that name."""
    try:
        yield
    except KeyError:
        known = ", ".join(commands.names()[:20]) or "none"
        raise HTTPException(
            404, f"no simulated vehicle is named {name!r}; known: {known}"
        ) from None
