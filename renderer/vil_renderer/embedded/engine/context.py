"""The OpenGL context: headless through EGL, no X server and no GPU needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vil_bridge.core.errors import RendererError
from vil_bridge.core.installation import install_command
from vil_renderer.embedded.engine.devices import check_renderer, chosen_device, egl_devices

if TYPE_CHECKING:
    import moderngl

_REQUIRED_GL: Final = 330
_WANTED_GL: Final = 430
"""With indirect draws. NVIDIA gives the version that is asked for, Mesa the newest."""


def open_context(device: int | None = None) -> moderngl.Context:
    """Create a context on a GPU, or on the CPU; it belongs to the calling thread.

    Args:
        device: which GPU, in CUDA's order; None = the first one, else the CPU unless
            CUDA_VISIBLE_DEVICES names a GPU.

    Raises:
        RendererError: moderngl or the system's OpenGL libraries are absent, or there is no such
            GPU; the message names the cure.
    """
    try:
        import moderngl
    except ImportError as exc:
        raise RendererError(
            f"the embedded renderer needs the extra `gl`: {install_command('gl')}"
        ) from exc
    index = chosen_device(device, egl_devices())
    settings: dict[str, Any] = {"standalone": True, "backend": "egl", "device_index": index}
    try:
        try:
            ctx = moderngl.create_context(require=_WANTED_GL, **settings)
        except Exception:
            ctx = moderngl.create_context(require=_REQUIRED_GL, **settings)
    # Glcontext raises bare Exception, ImportError or OSError for a missing library.
    except Exception as exc:
        raise RendererError(
            f"no OpenGL 3.3 context through EGL on device {index} ({exc}); on Debian: "
            "apt-get install libegl1 libgl1"
        ) from exc
    try:
        check_renderer(str(ctx.info["GL_RENDERER"]), device)
    except RendererError:
        ctx.release()
        raise
    return ctx


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
