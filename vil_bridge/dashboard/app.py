"""The HTTP application: REST, health, metrics and the status page; all but light and simulated time is read-only."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from vil_bridge import __version__
from vil_bridge.dashboard.access import Access
from vil_bridge.dashboard.guard import Guard
from vil_bridge.dashboard.lighting import Lit, lighting_router
from vil_bridge.dashboard.login import login_router
from vil_bridge.dashboard.pages import add_pages
from vil_bridge.dashboard.routes import Preview, api_router, health_router
from vil_bridge.dashboard.simulation import Timed, simulation_router
from vil_bridge.observe.snapshot import BridgeSnapshot

__all__ = ["create_app"]


def create_app(
    snapshot: Callable[[], BridgeSnapshot],
    metrics: CollectorRegistry,
    *,
    preview: Preview,
    lit: Lit,
    timed: Timed,
    access: Access | None = None,
) -> FastAPI:
    """Build the application; everything it says comes from its arguments.

    Args:
        snapshot: the bridge now; called in the server's thread for every request that needs it.
        metrics: what ``/metrics`` exposes.
        preview: a camera's newest picture as JPEG, None when there is none; called in the same thread.
        lit: whose light can be changed; from the same thread.
        timed: whose time can be changed in a simulation; from the same thread.
        access: decides who may do what; None = whoever reaches it may do everything.
    """
    access = access or Access()
    # The pages that come with FastAPI load their scripts from elsewhere.
    app = FastAPI(
        title="VIL Bridge",
        version=__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(api_router(snapshot, preview))
    app.include_router(lighting_router(lit))
    app.include_router(simulation_router(timed))
    app.include_router(health_router(snapshot))
    app.include_router(login_router(access))
    _add_metrics(app, metrics)
    add_pages(app)
    app.add_middleware(Guard, access=access)
    return app


def _add_metrics(app: FastAPI, metrics: CollectorRegistry) -> None:
    @app.get("/metrics", tags=["health"], response_class=Response)
    async def get_metrics(request: Request) -> Response:
        """Prometheus metrics."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics), headers={"Content-Type": media_type})
