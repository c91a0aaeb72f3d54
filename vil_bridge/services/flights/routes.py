"""Routes of planned flights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, Protocol

from fastapi import APIRouter, HTTPException, Path, Request
from starlette.concurrency import run_in_threadpool

from vil_bridge.web.request_body import NOT_NOW, explained_refusals, read_body, takes
from vil_bridge.web.schemas.flights import FlightBody, FlightOut
from vil_bridge.web.schemas.status import ErrorOut

__all__ = ["Flights", "flight_router"]

_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "There is no such actor, or it has no flight."}
}
_Actor = Annotated[str, Path(examples=["drone"])]
_FLIGHT: Final = {
    "rows": [
        [0.0, 0.0, 0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4],
        [4.0, 2.0, 0.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4],
    ]
}
"""Example of a body."""


class Flights(Protocol):
    """The bridge's flights; any thread."""

    def give(self, actor: str, rows: Sequence[Sequence[float]], begins_ns: int | None) -> None:
        """Give a flight to an actor. Raises KeyError: no such actor. ValueError: it is refused."""
        ...

    def cancel(self, actor: str) -> None:
        """End an actor's flight. Raises KeyError: it has none."""
        ...

    def flights(self) -> Mapping[str, FlightOut]:
        """Return the newest flight of each actor that has one."""
        ...


def flight_router(flights: Flights) -> APIRouter:
    """Return the routes ``/api/v1/flights``.

    GET reads, PUT gives a flight to an actor, DELETE ends it.
    """
    router = APIRouter(prefix="/api/v1/flights", tags=["flights"])

    @router.get("", operation_id="get_flights")
    async def get_flights() -> dict[str, FlightOut]:
        """Return the newest flight of each actor that has one."""
        return dict(flights.flights())

    @router.get("/{actor}", operation_id="get_flight", responses=_UNKNOWN)
    async def get_flight(actor: _Actor) -> FlightOut:
        """Return the newest flight of one actor.

        The waypoints that its pilot or autopilot reads.
        """
        with _known(actor):
            return flights.flights()[actor]

    @router.put(
        "/{actor}",
        operation_id="put_flight",
        responses={**_UNKNOWN, **NOT_NOW},
        openapi_extra=takes(FlightBody, _FLIGHT),
    )
    async def put_flight(actor: _Actor, request: Request) -> FlightOut:
        """Let a simulated vehicle fly along a trajectory, or offer it to the pilot of a real
        one.
        """
        body = await read_body(request, FlightBody)
        with _known(actor), explained_refusals():
            await run_in_threadpool(flights.give, actor, body.rows, body.t_ns)
            return flights.flights()[actor]

    @router.delete("/{actor}", operation_id="cancel_flight", responses={**_UNKNOWN, **NOT_NOW})
    async def cancel_flight(actor: _Actor) -> FlightOut:
        """End a flight: a simulated vehicle holds its position, an offer is withdrawn."""
        with _known(actor), explained_refusals():
            await run_in_threadpool(flights.cancel, actor)
            return flights.flights()[actor]

    return router


@contextmanager
def _known(actor: str) -> Iterator[None]:
    try:
        yield
    except KeyError:
        raise HTTPException(
            404, f"no actor {actor!r}, or it has no flight: GET api/v1/flights lists them"
        ) from None
