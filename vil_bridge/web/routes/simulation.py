"""Time of a simulation over REST: pause, step, speed."""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol

from fastapi import APIRouter, HTTPException, Request
from pydantic import Field

from vil_bridge.monitoring.snapshot import SimulationView
from vil_bridge.web.request_body import read_body, takes
from vil_bridge.web.schemas.body import Body
from vil_bridge.web.schemas.status import ErrorOut

__all__ = ["SimulationControl", "simulation_router"]

_NS_PER_S: Final = 1_000_000_000
_REFUSED: Final[dict[int | str, dict[str, Any]]] = {
    409: {"model": ErrorOut, "description": "Not now; the answer says why."}
}


class SimulationControl(Protocol):
    """Whoever sets the clock. Both setters raise ValueError, saying why, when they cannot."""

    def state(self) -> SimulationView:
        """How time passes."""
        ...

    def set_pace(self, *, paused: bool | None = None, speed: float | None = None) -> None:
        """Pause, go on, change the speed."""
        ...

    def step(self, duration_ns: int) -> None:
        """Let a paused world go on for a while."""
        ...


class PaceBody(Body):
    """A change of pace: what is absent stays."""

    paused: bool | None = Field(default=None, description="True = time stands.")
    speed: Annotated[float, Field(ge=0.01, le=100)] | None = Field(
        default=None, description="Simulated seconds per second, at the most."
    )


class StepBody(Body):
    """How far a paused world goes on."""

    seconds: float = Field(gt=0, le=3600, description="Simulated seconds.")


def simulation_router(timed: SimulationControl) -> APIRouter:
    """``/api/v1/simulation``: GET says how time passes, PATCH changes it, POST ``step`` goes on for a while."""
    router = APIRouter(prefix="/api/v1/simulation", tags=["simulation"])

    @router.get("", operation_id="get_simulation")
    async def get_simulation() -> SimulationView:
        """How time passes."""
        return timed.state()

    @router.patch("", operation_id="patch_simulation", responses=_REFUSED, openapi_extra=takes(PaceBody))
    async def patch_simulation(request: Request) -> SimulationView:
        """Pause, go on, or change the speed."""
        body = await read_body(request, PaceBody)
        try:
            timed.set_pace(paused=body.paused, speed=body.speed)
        except ValueError as exc:
            raise HTTPException(409, str(exc)) from None
        return timed.state()

    @router.post("/step", operation_id="step_simulation", responses=_REFUSED, openapi_extra=takes(StepBody))
    async def step_simulation(request: Request) -> SimulationView:
        """Let a paused world go on for a while; time stands again afterwards."""
        body = await read_body(request, StepBody)
        try:
            timed.step(round(body.seconds * _NS_PER_S))
        except ValueError as exc:
            raise HTTPException(409, str(exc)) from None
        return timed.state()

    return router
