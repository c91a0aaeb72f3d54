"""Routes of the race: its state, its reset, courses to choose, and results."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from vil_bridge.services.race.bridge_race import BridgeRace
from vil_bridge.services.race.view import RaceView
from vil_bridge.web.request_body import NOT_NOW, explained_refusals, read_body, takes
from vil_bridge.web.schemas.race import CourseOut, RaceResultOut, RaceSetupBody
from vil_bridge.web.schemas.status import ErrorOut

__all__ = ["race_router"]

_NO_RACE: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "There is no race."}
}
_NO_LAP: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
    404: {
        "model": ErrorOut,
        "description": "There is no such lap, or its flight is not stored any more.",
    },
}
_Number = Annotated[int, Path(ge=1, lt=2**31, examples=[1])]
_SETUP: Final = {"course": "arcade_ground_1", "laps": 3, "pilots": {"drone": "Ada"}}
"""Example of a body."""


def race_router(race: BridgeRace | None) -> APIRouter:
    """Return the routes ``/api/v1/race``.

    GET reads, POST ``reset`` starts again, PUT sets up another race.

    Args:
        race: of the bridge; None = it has none.
    """
    router = APIRouter(prefix="/api/v1/race", tags=["race"])

    def known() -> BridgeRace:
        if race is None:
            raise HTTPException(
                404, "this bridge has no race: add the section `race` to its configuration"
            )
        return race

    @router.get("", operation_id="get_race", responses=_NO_RACE)
    async def get_race() -> RaceView:
        """Return the race: clocks, splits, gaps to the leader, next gates."""
        return await run_in_threadpool(known().newest_view)

    @router.post("/reset", operation_id="reset_race", responses=_NO_RACE)
    async def reset_race() -> RaceView:
        """Start the race again: clocks at zero, and a starting signal once each racer is seen."""
        running = known()
        await run_in_threadpool(running.monitor.reset)
        return await run_in_threadpool(running.newest_view)

    @router.put(
        "",
        operation_id="put_race",
        responses={**_NO_RACE, **NOT_NOW},
        openapi_extra=takes(RaceSetupBody, _SETUP),
    )
    async def put_race(request: Request) -> RaceView:
        """Set up a race of an arcade.

        The course, its gates in the world, simulated racers at the start.
        """
        body = await read_body(request, RaceSetupBody)
        running = known()
        with explained_refusals():
            await run_in_threadpool(running.set_up, body.course, body.laps, body.pilots)
        return await run_in_threadpool(running.newest_view)

    @router.get("/courses", operation_id="get_race_courses")
    async def get_race_courses() -> list[CourseOut]:
        """Return the courses of the arcade."""
        if race is None:
            return []
        return list(await run_in_threadpool(race.courses))

    @router.get("/results", operation_id="get_race_results")
    async def get_race_results() -> list[RaceResultOut]:
        """Return the races that have ended since the bridge started, the oldest first.

        The newest 1000.
        """
        if race is None:
            return []
        return list(await run_in_threadpool(race.results))

    @router.get(
        "/results/{result}/laps/{lap}",
        operation_id="get_race_lap",
        response_class=Response,
        responses=_NO_LAP,
    )
    async def get_race_lap(result: _Number, lap: _Number) -> Response:
        """Return the flight of a lap as CSV, with the columns of TII's data set."""
        text: str | None = None
        if race is not None:
            text = await run_in_threadpool(race.lap_csv, result, lap)
        if text is None:
            raise HTTPException(
                404, f"result {result} has no lap {lap}: api/v1/race/results lists those there are"
            )
        name = f'attachment; filename="race_{result}_lap_{lap}.csv"'
        return Response(text, media_type="text/csv", headers={"Content-Disposition": name})

    return router
