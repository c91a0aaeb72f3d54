"""OpenGL that the renderers of one process share.

Each program is compiled once, not once for each picture.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.support.common import needs_gl
from vil_renderer.embedded import EmbeddedRenderer
from vil_renderer.embedded.engine.opengl import OpenGL
from vil_renderer.embedded.engine.profiles import Profile
from vil_renderer.embedded.scene import Scene


@cache
def opengl() -> OpenGL:
    """Return it; skips where the system has no OpenGL."""
    needs_gl()
    return OpenGL()


def drawing(
    scene: str | Path | Scene, profile: str | Profile = "low", *, baked: bool = False
) -> EmbeddedRenderer:
    """Return a new renderer on it.

    A case about contexts, devices or programs makes an EmbeddedRenderer of its own.
    """
    return EmbeddedRenderer(scene, profile, device=opengl(), baked=baked)
