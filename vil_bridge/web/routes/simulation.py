"""Routes of simulated time: pause, step, speed."""

from __future__ import annotations

from typing import Annotated, Final, Protocol

from fastapi import APIRouter, Request
from pydantic import Field

from vil_bridge.monitoring.snapshot import SimulationView
from vil_bridge.web.request_body import NOT_NOW, explained_refusals, read_body, takes
from vil_bridge.web.schemas.body import Body

_NS_PER_S: Final = 1_000_000_000


class SimulationControl(Protocol):
    """Control of the simulation clock. Both setters raise ValueError with the reason."""

    def state(self) -> SimulationView:
        """Return the state of simulated time."""
        ...

    def set_pace(self, *, paused: bool | None = None, speed: float | None = None) -> None:
        """Pause, resume, or change the speed."""
        ...

    def step(self, duration_ns: int) -> None:
        """Advance a paused world by a duration."""
        ...


class PaceBody(Body):
    """Change of pace: absent values stay."""

    paused: bool | None = Field(default=None, description="True = time is paused.")
    speed: Annotated[float, Field(ge=0.01, le=100)] | None = Field(
        default=None, description="Simulated seconds per second, at the most."
    )


class StepBody(Body):
    """Duration by which a paused world advances."""

    seconds: float = Field(gt=0, le=3600, description="Simulated seconds.")


def simulation_router(clock: SimulationControl) -> APIRouter:
    """Return the routes ``/api/v1/simulation``.

    GET reads, PATCH changes the pace, POST ``step`` advances.
    """
    router = APIRouter(prefix="/api/v1/simulation", tags=["simulation"])

    @router.get("", operation_id="get_simulation")
    async def get_simulation() -> SimulationView:
        """Return the state of simulated time."""
        return clock.state()

    @router.patch(
        "", operation_id="patch_simulation", responses=NOT_NOW, openapi_extra=takes(PaceBody)
    )
    async def patch_simulation(request: Request) -> SimulationView:
        """Pause, resume, or change the speed."""
        body = await read_body(request, PaceBody)
        with explained_refusals():
            clock.set_pace(paused=body.paused, speed=body.speed)
        return clock.state()

    @router.post(
        "/step", operation_id="step_simulation", responses=NOT_NOW, openapi_extra=takes(StepBody)
    )
    async def step_simulation(request: Request) -> SimulationView:
        """Advance a paused world by a duration; it is paused again afterwards."""
        body = await read_body(request, StepBody)
        with explained_refusals():
            clock.step(round(body.seconds * _NS_PER_S))
        return clock.state()

    return router
