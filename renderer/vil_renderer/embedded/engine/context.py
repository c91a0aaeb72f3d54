"""The OpenGL context: headless through EGL, no X server and no GPU needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vil_bridge.core.errors import RendererError

if TYPE_CHECKING:
    import moderngl

_REQUIRED_GL = 330


def open_context(device: int = 0) -> moderngl.Context:
    """Create a context on the EGL device of that number; it belongs to the calling thread.

    Raises:
        RendererError: moderngl or the system's OpenGL libraries are absent; the message names the cure.
    """
    try:
        import moderngl
    except ImportError as exc:
        raise RendererError("the embedded renderer needs the extra `gl`: pip install 'vil-bridge[gl]'") from exc
    try:
        settings: dict[str, Any] = {"standalone": True, "require": _REQUIRED_GL, "backend": "egl"}
        if device:
            settings["device_index"] = device
        return moderngl.create_context(**settings)
    except Exception as exc:  # glcontext raises bare Exception, ImportError or OSError for a missing library
        raise RendererError(
            f"no OpenGL 3.3 context through EGL on device {device} ({exc}); on Debian: apt-get install libegl1 libgl1"
        ) from exc


def describe(ctx: moderngl.Context) -> dict[str, Any]:
    """Return renderer and version strings of OpenGL and the limits that matter."""
    info = ctx.info
    return {
        "gl_renderer": str(info["GL_RENDERER"]),
        "gl_vendor": str(info["GL_VENDOR"]),
        "gl_version": str(info["GL_VERSION"]),
        "max_texture_px": int(info["GL_MAX_TEXTURE_SIZE"]),
        "max_texture_layers": int(info["GL_MAX_ARRAY_TEXTURE_LAYERS"]),
    }
