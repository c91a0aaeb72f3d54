"""The HTTP application: REST, health, metrics and the pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from vil_bridge import __version__
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.web.auth.access import Access
from vil_bridge.web.auth.login import login_router
from vil_bridge.web.auth.middleware import SecurityMiddleware
from vil_bridge.web.openapi import describe
from vil_bridge.web.pages import add_pages
from vil_bridge.web.routes.lighting import (
    LightingTarget,
    SceneLamps,
    lighting_router,
    no_lamps_known,
)
from vil_bridge.web.routes.simulation import SimulationControl, simulation_router
from vil_bridge.web.routes.status import Preview, api_router, health_router
from vil_bridge.web.schemas.status import ErrorOut

_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ErrorOut, "description": text}
    for status, text in (
        (401, "A token is needed."),
        (403, "The role does not cover this, or the request comes from another web site."),
        (422, "A parameter or the body is wrong; the answer says where."),
        (429, "Too often; Retry-After says when again."),
        (503, "Too many connections."),
    )
}
"""Answers that any operation may give."""


def create_app(
    snapshot: Callable[[], BridgeSnapshot],
    metrics: CollectorRegistry,
    *,
    preview: Preview,
    light: LightingTarget,
    lamps: SceneLamps = no_lamps_known,
    clock: SimulationControl,
    access: Access | None = None,
) -> FastAPI:
    """Build the application; everything it reports comes from its arguments.

    Args:
        snapshot: the bridge now; called in the server's thread for every request that needs it.
        metrics: what ``/metrics`` exposes.
        preview: a camera's newest picture as JPEG, None when there is none; called in the same
            thread.
        light: holds the light of the world; used in the same thread.
        lamps: the lamps of the drawn scene, None while they are not known; from the same thread.
        clock: controls simulated time; used in the same thread.
        access: decides who may do what; None = every caller may do everything.
    """
    access = access or Access()
    # The pages that come with FastAPI load their scripts from elsewhere.
    app = FastAPI(
        title="VIL Bridge",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_REFUSALS,
        exception_handlers={RequestValidationError: _report_wrong_parameters},
    )
    app.include_router(api_router(snapshot, preview))
    app.include_router(lighting_router(light, lamps))
    app.include_router(simulation_router(clock))
    app.include_router(health_router(snapshot))
    app.include_router(login_router(access))
    _add_metrics(app, metrics)
    describe(app)
    add_pages(app)
    app.add_middleware(SecurityMiddleware, access=access)
    return app


async def _report_wrong_parameters(_request: Request, exc: Exception) -> Response:
    """Report wrong parameters in the form of all our answers."""
    assert isinstance(exc, RequestValidationError), "registered for it"
    problems = [f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg']}" for e in exc.errors()]
    return JSONResponse({"detail": "; ".join(problems)}, 422)


def _add_metrics(app: FastAPI, metrics: CollectorRegistry) -> None:
    @app.head("/metrics", include_in_schema=False)
    @app.get(
        "/metrics",
        tags=["health"],
        operation_id="get_metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def get_metrics(request: Request) -> Response:
        """Return Prometheus metrics."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics), headers={"Content-Type": media_type})
