"""Routes of occupancy maps: their state, their files, and their reset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, HTTPException, Path
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from vil_bridge.services.maps.runner import MapRunner
from vil_bridge.services.maps.view import MapView
from vil_bridge.web.schemas.status import ErrorOut
from vil_bridge.world.occupancy.map_file import map_bytes

__all__ = ["map_router"]

_UNKNOWN: Final[dict[int | str, dict[str, Any]]] = {
    404: {"model": ErrorOut, "description": "No such map; the answer names them."}
}
_Name = Annotated[str, Path(examples=["hall"])]
_Form = Annotated[Literal["ot", "bt", "ply"], Path(examples=["bt"])]


def map_router(maps: Mapping[str, MapRunner]) -> APIRouter:
    """Return the routes ``/api/v1/maps`` of maps by name.

    GET reads states and files, POST ``reset`` empties a map.
    """
    router = APIRouter(prefix="/api/v1/maps", tags=["maps"])

    def known(name: str) -> MapRunner:
        if name not in maps:
            listed = ", ".join(sorted(maps)) or "none: add the section `maps` to the configuration"
            raise HTTPException(404, f"no map is named {name!r}; known: {listed}")
        return maps[name]

    @router.get("", operation_id="get_maps")
    async def get_maps() -> dict[str, MapView]:
        """Return the maps by name."""
        return {name: runner.view() for name, runner in maps.items()}

    @router.get("/{name}", operation_id="get_map", responses=_UNKNOWN)
    async def get_map(name: _Name) -> MapView:
        """Return one map's state."""
        return known(name).view()

    @router.post("/{name}/reset", operation_id="reset_map", responses=_UNKNOWN)
    async def reset_map(name: _Name) -> MapView:
        """Forget all voxels of a map."""
        runner = known(name)
        await run_in_threadpool(runner.map.reset)
        return runner.view()

    @router.get(
        "/{name}/map.{form}",
        operation_id="get_map_file",
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, **_UNKNOWN},
    )
    async def get_map_file(name: _Name, form: _Form) -> Response:
        """Return a map as OctoMap's full (ot) or binary (bt) tree, or its occupied voxels as
        points (ply).
        """
        runner = known(name)
        content = await run_in_threadpool(lambda: map_bytes(runner.map.occupancy_map(), f".{form}"))
        attachment = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
        return Response(content, media_type="application/octet-stream", headers=attachment)

    return router
