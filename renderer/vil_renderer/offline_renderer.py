"""The embedded renderer for work without a clock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vil_renderer.embedded import EmbeddedRenderer, Scene


def open_renderer(scene: str | Scene, profile: str = "low") -> EmbeddedRenderer:
    """Open the embedded renderer.

    Llvmpipe's own threads stay off unless the environment asks for them.

    Args:
        scene: name, file or scene.
        profile: quality.

    Raises:
        RendererError: no such scene or profile, or no OpenGL; the message names what to install.
    """
    os.environ.setdefault("LP_NUM_THREADS", "1")
    from vil_renderer.embedded import EmbeddedRenderer

    return EmbeddedRenderer(scene, profile)
