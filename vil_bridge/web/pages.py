"""Pages for browsers: the dashboard if it was built, else one static page."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import FastAPI, Response

PLAIN: Final = files("vil_bridge.web") / "fallback_page"
DASHBOARD: Final = files("vil_bridge.web") / "static"
"""Built by ``make web``; absent in a checkout without it."""

_MEDIA_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
_PLACES: Final = {
    "index.html": "/",
    "vr.html": "/vr",
    "arcade.html": "/arcade",
    "docs.html": "/docs",
}


def add_pages(app: FastAPI, folder: Traversable | None = None) -> None:
    """Serve every file of a folder of pages.

    Args:
        app: gets the routes.
        folder: None = the dashboard if it was built.
    """
    if folder is None:
        folder = DASHBOARD if (DASHBOARD / "index.html").is_file() else PLAIN
    for file in folder.iterdir():
        _serve(app, _PLACES.get(file.name, f"/{file.name}"), file)


def _serve(app: FastAPI, path: str, file: Traversable) -> None:
    content, media_type = file.read_bytes(), _MEDIA_TYPES[file.name.rpartition(".")[2]]

    @app.get(path, include_in_schema=False)
    async def get_file() -> Response:
        return Response(content, media_type=media_type)
