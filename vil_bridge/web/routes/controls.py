"""Changes to a running bridge over REST.

Mounts of cameras, fault injection, obstacles, the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, HTTPException, Path, Request
from starlette.concurrency import run_in_threadpool

from vil_bridge.web.request_body import NOT_NOW, explained_refusals, read_body, takes
from vil_bridge.web.schemas.controls import (
    Controls,
    FaultsBody,
    FaultsOut,
    MountBody,
    MountView,
    PropBody,
    PropView,
    ReloadView,
)
from vil_bridge.web.schemas.status import ErrorOut

_T = TypeVar("_T")
_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "The answer names some."}
}
_REFUSED: Final = {**_UNKNOWN, **NOT_NOW}
PropName = Annotated[
    str, Path(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64, description="Name of the obstacle.")
]


def control_router(
    controls: Controls, cameras: Collection[str], sources: Collection[str]
) -> APIRouter:
    """Return the routes of mounts, faults, obstacles and the configuration under ``/api/v1``.

    Args:
        controls: changes the bridge.
        cameras: their names.
        sources: likewise.
    """
    router = APIRouter(prefix="/api/v1", tags=["controls"])
    _add_mounts(router, controls, cameras)
    _add_faults(router, controls, sources)
    _add_props(router, controls)
    _add_config(router, controls)
    return router


def _add_mounts(router: APIRouter, controls: Controls, cameras: Collection[str]) -> None:
    @router.get("/cameras/{name}/mount", operation_id="get_mount", responses=_UNKNOWN)
    async def get_mount(name: str) -> MountView:
        """Return the pose of a camera in its carrier."""
        return await _called(lambda: controls.mount(name), "cameras", cameras)

    @router.put(
        "/cameras/{name}/mount",
        operation_id="put_mount",
        responses=_REFUSED,
        openapi_extra=takes(MountBody),
    )
    async def put_mount(name: str, request: Request) -> MountView:
        """Move a camera; from its next picture on.

        The right camera of a pair goes with the left one.
        """
        body = await read_body(request, MountBody)
        await _called(
            lambda: controls.set_mount(name, MountView(body.p_m, body.q_xyzw)), "cameras", cameras
        )
        return await _called(lambda: controls.mount(name), "cameras", cameras)


def _add_faults(router: APIRouter, controls: Controls, sources: Collection[str]) -> None:
    @router.get("/sources/{name}/faults", operation_id="get_faults", responses=_UNKNOWN)
    async def get_faults(name: str) -> FaultsOut:
        """Return the faults injected into a source."""
        return FaultsOut(faults=await _called(lambda: controls.faults(name), "sources", sources))

    @router.put(
        "/sources/{name}/faults",
        operation_id="put_faults",
        responses=_REFUSED,
        openapi_extra=takes(FaultsBody),
    )
    async def put_faults(name: str, request: Request) -> FaultsOut:
        """Inject other faults into a source, or none."""
        body = await read_body(request, FaultsBody)
        await _called(lambda: controls.set_faults(name, body.faults), "sources", sources)
        return FaultsOut(faults=await _called(lambda: controls.faults(name), "sources", sources))


def _add_props(router: APIRouter, controls: Controls) -> None:
    @router.get("/props", operation_id="get_props")
    async def get_props() -> dict[str, PropView]:
        """Return the obstacles by name."""
        return dict(controls.props())

    @router.put(
        "/props/{name}", operation_id="put_prop", responses=_REFUSED, openapi_extra=takes(PropBody)
    )
    async def put_prop(name: PropName, request: Request) -> PropView:
        """Add an obstacle to the world, or move it."""
        body = await read_body(request, PropBody)
        prop = PropView(body.p_m, body.q_xyzw, body.size_m, body.prefab)
        return await _called(lambda: controls.set_prop(name, prop), "props", controls.props())

    @router.delete("/props/{name}", operation_id="delete_prop", responses=_UNKNOWN, status_code=204)
    async def delete_prop(name: PropName) -> None:
        """Remove an obstacle."""
        await _called(lambda: controls.remove_prop(name), "props", controls.props())


def _add_config(router: APIRouter, controls: Controls) -> None:
    @router.get("/config", operation_id="get_config")
    async def get_config() -> dict[str, Any]:
        """Return the configuration in force, with every default and override."""
        return await run_in_threadpool(controls.effective)

    @router.post("/config/reload", operation_id="reload_config", responses=NOT_NOW)
    async def reload_config() -> ReloadView:
        """Read the configuration again.

        Apply what can change in flight, and list what needs a restart.
        """
        return await _called(controls.reload, "config", ())


async def _called(call: Callable[[], _T], section: str, known: Collection[str]) -> _T:
    """Call in a thread, since the loop that does the work may be busy."""
    try:
        with explained_refusals():
            return await run_in_threadpool(call)
    except KeyError as exc:
        names = ", ".join(sorted(known)) or "none"
        raise HTTPException(
            404, f"nothing named {exc.args[0]!r} in {section}; known: {names}"
        ) from None
