"""Routes of the race: its state, and its reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, HTTPException
from starlette.concurrency import run_in_threadpool

from vil_bridge.monitoring.race_view import RaceView
from vil_bridge.web.schemas.status import ErrorOut

_NO_RACE: Final[dict[int | str, dict[str, Any]]] = {404: {"model": ErrorOut, "description": "There is no race."}}


def race_router(view: Callable[[], RaceView | None], reset: Callable[[], None]) -> APIRouter:
    """Return the routes ``/api/v1/race``: GET reads, POST ``reset`` starts again.

    Args:
        view: returns the race now; None = the bridge has none.
        reset: sets it up again.
    """
    router = APIRouter(prefix="/api/v1/race", tags=["race"])

    def known() -> RaceView:
        race = view()
        if race is None:
            raise HTTPException(404, "this bridge has no race: add the section `race` to its configuration")
        return race

    @router.get("", operation_id="get_race", responses=_NO_RACE)
    async def get_race() -> RaceView:
        """Return the race: clocks, splits, gaps to the leader, next gates."""
        return known()

    @router.post("/reset", operation_id="reset_race", responses=_NO_RACE)
    async def reset_race() -> RaceView:
        """Start the race again: clocks at zero, and a starting signal once each racer is seen."""
        known()
        await run_in_threadpool(reset)
        return known()

    return router
