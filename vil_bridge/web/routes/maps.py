"""Routes of occupancy maps: their state, their files, and their reset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from vil_bridge.monitoring.map_view import MapView
from vil_bridge.web.schemas.status import ErrorOut

_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "No such map; the answer names them."}
}
MapFormat = Literal["ot", "bt", "ply"]


def map_router(
    views: Mapping[str, Callable[[], MapView]],
    file_of: Callable[[str, MapFormat], bytes],
    reset: Callable[[str], None],
) -> APIRouter:
    """Return the routes ``/api/v1/maps``: GET reads states and files, POST ``reset`` empties a map.

    Args:
        views: returns the state of each map by name.
        file_of: returns a map as a file.
        reset: forgets all voxels of a map.
    """
    router = APIRouter(prefix="/api/v1/maps", tags=["maps"])

    def known(name: str) -> MapView:
        if name not in views:
            listed = ", ".join(sorted(views)) or "none: add the section `maps` to the configuration"
            raise HTTPException(404, f"no map is named {name!r}; known: {listed}")
        return views[name]()

    @router.get("", operation_id="get_maps")
    async def get_maps() -> dict[str, MapView]:
        """Return the maps by name."""
        return {name: view() for name, view in views.items()}

    @router.get("/{name}", operation_id="get_map", responses=_UNKNOWN)
    async def get_map(name: str) -> MapView:
        """Return one map's state."""
        return known(name)

    @router.post("/{name}/reset", operation_id="reset_map", responses=_UNKNOWN)
    async def reset_map(name: str) -> MapView:
        """Forget all voxels of a map."""
        known(name)
        await run_in_threadpool(reset, name)
        return known(name)

    _add_files(router, known, file_of)
    return router


def _add_files(
    router: APIRouter, known: Callable[[str], MapView], file_of: Callable[[str, MapFormat], bytes]
) -> None:
    @router.get(
        "/{name}/map.{form}",
        operation_id="get_map_file",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, **_UNKNOWN},
    )
    async def get_map_file(name: str, form: MapFormat) -> Response:
        """Return a map as OctoMap's full (ot) or binary (bt) tree, or its occupied voxels as
        points (ply).
        """
        known(name)
        content = await run_in_threadpool(file_of, name, form)
        attachment = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
        return Response(content, media_type="application/octet-stream", headers=attachment)
