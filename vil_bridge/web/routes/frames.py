"""Route of the frame ledger: the newest frames of a camera, as lines of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query, Response

from vil_bridge.monitoring.frame_records import CameraLedger, ledger_lines
from vil_bridge.web.schemas.status import ErrorOut

__all__ = ["ledger_router"]

_MOST: Final = 10_000


def ledger_router(cameras: Iterable[str], read: Callable[[str, int], CameraLedger]) -> APIRouter:
    """Return the route ``/api/v1/ledger/{camera}``.

    Args:
        cameras: their names.
        read: returns the newest frames of a camera, at most so many; called in the server's thread.
    """
    router = APIRouter(prefix="/api/v1", tags=["bridge"])
    known = frozenset(cameras)

    @router.get(
        "/ledger/{camera}",
        operation_id="get_ledger",
        response_class=Response,
        responses={200: {"content": {"application/x-ndjson": {}}}, 404: {"model": ErrorOut}},
    )
    async def get_ledger(camera: str, last: Annotated[int, Query(ge=1, le=_MOST)] = _MOST) -> Response:
        """Return one line that describes the camera, then one for each of its newest frames, oldest first."""
        if camera not in known:
            names = ", ".join(sorted(known)) or "none"
            raise HTTPException(404, f"nothing named {camera!r} in ledger; known: {names}")
        return Response(ledger_lines(read(camera, last)), media_type="application/x-ndjson")

    return router
