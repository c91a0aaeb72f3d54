"""Routes of the status: parts of one snapshot, the cameras' history and ledger, health."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import GenericAlias
from typing import Annotated, Any, Final

import numpy as np
from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic_core import to_json

from vil_bridge.monitoring.camera_history import CameraHistory
from vil_bridge.monitoring.frame_records import CameraLedger, ledger_lines
from vil_bridge.monitoring.snapshot import (
    ActorView,
    BridgeSnapshot,
    CameraView,
    OutputView,
    RendererView,
    SourceView,
    StageView,
    StreamView,
)
from vil_bridge.runtime.access_tokens import Role
from vil_bridge.web.schemas.status import BridgeStatus, ErrorOut, HealthOut, ReadyOut

_MAX_FRAMES: Final = 10_000
_HIDDEN: Final = ("the reasons are shown to a token with the role view",)

Snapshot = Callable[[], BridgeSnapshot]
Preview = Callable[[str], bytes | None]
"""Newest picture of a camera as JPEG, None when there is none."""


def api_router(snapshot: Snapshot, preview: Preview) -> APIRouter:
    """Return the routes of the status under ``/api/v1``."""
    router = APIRouter(prefix="/api/v1", tags=["bridge"])

    @router.get("/status", operation_id="get_status", response_model=BridgeStatus)
    async def get_status() -> Response:
        """Return the status of the whole bridge."""
        return Response(status_json(snapshot()), media_type="application/json")

    _add_section(router, "sources", SourceView, lambda: snapshot().sources)
    _add_section(router, "actors", ActorView, lambda: snapshot().actors)
    _add_section(router, "renderers", RendererView, lambda: snapshot().renderers)
    _add_section(router, "cameras", CameraView, lambda: snapshot().cameras)
    _add_section(router, "streams", StreamView, lambda: snapshot().streams)
    _add_section(router, "outputs", OutputView, lambda: snapshot().outputs)
    _add_section(
        router,
        "latency",
        dict[str, StageView],
        lambda: {name: camera.latency for name, camera in snapshot().cameras.items()},
    )

    @router.get(
        "/cameras/{name}/preview.jpg",
        operation_id="get_preview",
        response_class=Response,
        responses={200: {"content": {"image/jpeg": {}}}, 404: {"model": ErrorOut}},
    )
    async def get_preview(name: str) -> Response:
        """Return the camera's newest picture."""
        _check_name("cameras", name, snapshot().cameras)
        picture = preview(name)
        if picture is None:
            raise HTTPException(404, f"camera {name!r} has no picture yet")
        return Response(picture, media_type="image/jpeg")

    return router


def history_router(read: Callable[[], Mapping[str, CameraHistory]]) -> APIRouter:
    """Return the route ``/api/v1/history``, by camera.

    Args:
        read: returns the rows; called in the server's thread.
    """
    router = APIRouter(prefix="/api/v1", tags=["bridge"])
    _add_section(router, "history", CameraHistory, read)
    return router


def ledger_router(cameras: Collection[str], read: Callable[[str, int], CameraLedger]) -> APIRouter:
    """Return the route ``/api/v1/ledger/{camera}``.

    Args:
        cameras: their names.
        read: returns the newest frames of a camera, at most so many; called in the server's thread.
    """
    router = APIRouter(prefix="/api/v1", tags=["bridge"])

    @router.get(
        "/ledger/{camera}",
        operation_id="get_ledger",
        response_class=Response,
        responses={200: {"content": {"application/x-ndjson": {}}}, 404: {"model": ErrorOut}},
    )
    async def get_ledger(
        camera: str, last: Annotated[int, Query(ge=1, le=_MAX_FRAMES)] = _MAX_FRAMES
    ) -> Response:
        """Return one line that describes the camera, then one for each of its newest frames,
        oldest first.
        """
        _check_name("ledger", camera, cameras)
        return Response(ledger_lines(read(camera, last)), media_type="application/x-ndjson")

    return router


def status_json(now: BridgeSnapshot) -> bytes:
    """Return the whole bridge as ``/api/v1/status`` sends it."""
    return _text(now)


def health_router(snapshot: Snapshot) -> APIRouter:
    """Return the routes ``/healthz`` for the process and ``/readyz`` for the pipeline."""
    router = APIRouter(tags=["health"])

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", operation_id="get_health")
    async def get_health() -> HealthOut:
        """Answer that the process is alive."""
        return HealthOut()

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", operation_id="get_ready", responses={503: {"model": ReadyOut}})
    async def get_ready(request: Request, response: Response) -> ReadyOut:
        """Return the readiness of the pipeline.

        503 = not ready, with the reasons for callers with the role view.
        """
        now = snapshot()
        response.status_code = 200 if now.ready else 503
        reasons = now.not_ready_because
        degraded = now.degraded_because
        if not request.state.role.covers(Role.VIEW):
            reasons = _HIDDEN if reasons else ()
            degraded = _HIDDEN if degraded else ()
        return ReadyOut(ready=now.ready, not_ready_because=reasons, degraded_because=degraded)

    return router


def _add_section(
    router: APIRouter, section: str, view: Any, read: Callable[[], Mapping[str, Any]]
) -> None:
    """Add ``/section`` with all members by name, and ``/section/{name}`` with one of them."""
    by_name: Any = GenericAlias(dict, (str, view))

    @router.get(f"/{section}", operation_id=f"get_{section}", response_model=by_name)
    async def get_all() -> Response:
        return _json(read())

    @router.get(
        f"/{section}/{{name}}",
        operation_id=f"get_{section}_by_name",
        response_model=view,
        responses={404: {"model": ErrorOut}},
    )
    async def get_one(name: str) -> Response:
        members = read()
        _check_name(section, name, members)
        return _json(members[name])


def _check_name(section: str, name: str, members: Collection[str]) -> None:
    if name not in members:
        known = ", ".join(sorted(members)) or "none"
        raise HTTPException(404, f"nothing named {name!r} in {section}; known: {known}")


def _json(value: object) -> Response:
    return Response(_text(value), media_type="application/json")


def _text(value: object) -> bytes:
    return to_json(value, fallback=_plain, inf_nan_mode="null")


def _plain(value: object) -> object:
    """Convert a NumPy scalar, or anything else into text, rather than fail the answer."""
    return value.item() if isinstance(value, np.generic) else str(value)
