"""Routes of the scene.

Everything in the world that does not move by itself, for pages that draw it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace

from fastapi import APIRouter, HTTPException, Response

from vil_bridge.runtime.pacing import CachedValue
from vil_bridge.web.schemas.scene import SceneView
from vil_bridge.web.schemas.status import ErrorOut


class SceneRevisions:
    """Numbers of the scene's changes; for the HTTP server's thread.

    The first number is random: a page that outlives the bridge does not mistake another scene for
    its own.

    Args:
        make: returns the scene of now.
    """

    def __init__(self, make: Callable[[], SceneView]) -> None:
        self._make = make
        self._first = secrets.randbits(31)
        self._scene: SceneView | None = None
        self._cached = CachedValue(self.current, 2.0)

    def current(self) -> SceneView:
        """Return the scene of now, with its number."""
        now = self._make()
        before = self._scene
        revision = self._first if before is None else before.revision
        if before is not None and replace(now, revision=revision) != before:
            revision += 1
        self._scene = replace(now, revision=revision)
        return self._scene

    def revision(self) -> int:
        """Return the number of the scene at most half a second ago."""
        self._cached.get()
        return 0 if self._scene is None else self._scene.revision


def scene_router(scene: SceneRevisions, glb: Callable[[], bytes | None]) -> APIRouter:
    """Return the routes ``/api/v1/scene``.

    Args:
        scene: the scene with its revisions.
        glb: returns the geometry that the renderer draws, None while it is not available.
    """
    router = APIRouter(prefix="/api/v1", tags=["bridge"])

    @router.get("/scene", operation_id="get_scene")
    async def get_scene() -> SceneView:
        """Return the scene: rooms, actors, cameras, gates, obstacles."""
        return scene.current()

    @router.get(
        "/scene/model.glb",
        operation_id="get_scene_model",
        response_class=Response,
        responses={200: {"content": {"model/gltf-binary": {}}}, 404: {"model": ErrorOut}},
    )
    async def get_scene_model() -> Response:
        """Return the geometry that the renderer draws, as glTF for browsers."""
        model = glb()
        if model is None:
            raise HTTPException(
                404, "no renderer draws a shipped scene, or its geometry is not ready yet"
            )
        return Response(model, media_type="model/gltf-binary")

    return router
