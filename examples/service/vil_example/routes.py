"""Routes of the service."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, HTTPException

from vil_bridge.web.schemas.status import ErrorOut
from vil_example.view import ExampleView, View

__all__ = ["example_router"]


def example_router(view: Callable[[], View], forget: Callable[[str], None]) -> APIRouter:
    """Return the routes ``/api/v1/example``; the role `control` may change, `view` may read.

    Args:
        view: returns the watched actors.
        forget: counts an actor's episodes from zero.
    """
    router = APIRouter(prefix="/api/v1/example", tags=["example"])

    # TODO: what people may ask of the service.
    @router.post(
        "/{actor}/forget",
        operation_id="forget_example",
        responses={404: {"model": ErrorOut, "description": "This actor is not watched."}},
    )
    async def forget_example(actor: str) -> ExampleView:
        """Count the episodes of an actor from zero."""
        if actor not in view():
            raise HTTPException(404, f"{actor!r} is not watched; known: {', '.join(view())}")
        forget(actor)
        return view()[actor]

    return router
