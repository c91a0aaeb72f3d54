"""The machine's graphics, for benchmarks that draw."""

from __future__ import annotations

import os

from vil_bridge.tools.bench.report import Row
from vil_renderer.embedded.engine.context import describe, open_context

__all__ = ["gl_machine", "one_drawing_thread"]


def one_drawing_thread() -> Row:
    """Make llvmpipe draw with one thread, as the renderer's process does; call it before any context is made."""
    os.environ["LP_NUM_THREADS"] = "1"
    return Row("llvmpipe_threads", 1.0, "", 1)


def gl_machine() -> dict[str, str]:
    """Return name and version of OpenGL's renderer.

    Raises:
        RendererError: no OpenGL.
    """
    context = open_context()
    try:
        with context:
            found = describe(context)
    finally:
        context.release()
    return {key: str(found[key]) for key in ("gl_renderer", "gl_version")}
