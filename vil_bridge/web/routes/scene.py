"""What stands in the world, for pages that draw it: everything that does not move by itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from fastapi import APIRouter, HTTPException, Response

from vil_bridge.core.pacing import CachedValue
from vil_bridge.web.schemas.scene import (
    SceneView,
)
from vil_bridge.web.schemas.status import ErrorOut

__all__ = ["SceneRevisions", "scene_router"]


class SceneRevisions:
    """Numbers the scene's changes; for the HTTP server's thread.

    The first number is drawn by lot: a page that outlives the bridge takes no other scene for the one it has.

    Args:
        make: the scene now.
    """

    def __init__(self, make: Callable[[], SceneView]) -> None:
        self._make = make
        self._first = secrets.randbits(31)
        self._scene: SceneView | None = None
        self._looked = CachedValue(self.look, 2.0)

    def look(self) -> SceneView:
        """The scene as it is."""
        now, before = self._make(), self._scene
        revision = self._first if before is None else before.revision
        if before is not None and replace(now, revision=revision) != before:
            revision += 1
        self._scene = replace(now, revision=revision)
        return self._scene

    def revision(self) -> int:
        """Of the scene as it was at most half a second ago."""
        self._looked.get()
        return 0 if self._scene is None else self._scene.revision


def scene_router(book: SceneRevisions, glb: Callable[[], bytes | None]) -> APIRouter:
    """``/api/v1/scene``.

    Args:
        book: the scene.
        glb: the geometry that the renderer draws, None while it cannot be had.
    """
    router = APIRouter(prefix="/api/v1", tags=["bridge"])

    @router.get("/scene", operation_id="get_scene")
    async def get_scene() -> SceneView:
        """What stands in the world: rooms, actors, cameras, gates, obstacles."""
        return book.look()

    @router.get(
        "/scene/model.glb",
        operation_id="get_scene_model",
        response_class=Response,
        responses={200: {"content": {"model/gltf-binary": {}}}, 404: {"model": ErrorOut}},
    )
    async def get_scene_model() -> Response:
        """The geometry that the renderer draws, as glTF for browsers."""
        model = glb()
        if model is None:
            raise HTTPException(404, "no renderer draws a scene that comes with the bridge, or it is not made yet")
        return Response(model, media_type="model/gltf-binary")

    return router
