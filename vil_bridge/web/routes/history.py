"""Route of each camera's last ten minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fastapi import APIRouter

from vil_bridge.monitoring.camera_history import CameraHistory
from vil_bridge.web.routes.status import add_section

__all__ = ["history_router"]


def history_router(read: Callable[[], Mapping[str, CameraHistory]]) -> APIRouter:
    """Return the route ``/api/v1/history``, by camera.

    Args:
        read: returns the rows; called in the server's thread.
    """
    router = APIRouter(prefix="/api/v1", tags=["bridge"])
    add_section(router, "history", CameraHistory, read)
    return router
