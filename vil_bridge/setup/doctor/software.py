"""Installed software: compiled kernel, codecs, OpenGL, SDKs and extras."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Final

from vil_bridge.core.installation import install_command
from vil_bridge.kernel import library
from vil_bridge.registry import EXTRA_OF_MODULE
from vil_bridge.setup.doctor.finding import Finding, fail, ok, warn

_GL_TIMEOUT_S: Final = 30.0
_OPEN_GL: Final = (
    "from vil_renderer.embedded.engine.context import describe, open_context\n"
    "print('context', describe(open_context())['gl_renderer'])\n"
)
_SOFTWARE_RENDERERS: Final = ("llvmpipe", "softpipe", "swrast")
_SDKS: Final = {"vicon_dssdk": "Vicon's own SDK", "pyvicon_datastream": "pyvicon-datastream"}


def check_gl(timeout_s: float = _GL_TIMEOUT_S) -> Finding:
    """Open a context as the embedded renderer does, in a process that may hang or crash."""
    name = "OpenGL"
    if importlib.util.find_spec("moderngl") is None:
        cure = f"{install_command('gl')} where the embedded renderer is wanted"
        return warn(name, "the extra `gl` is not installed: no embedded renderer", cure)
    command = [sys.executable, "-c", _OPEN_GL]
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return fail(
            name,
            f"the driver did not answer within {timeout_s:.0f} s",
            "restart this computer; update its GPU driver",
        )
    for line in done.stdout.splitlines():
        if line.startswith("context "):
            renderer = line.removeprefix("context ")
            slow = ""
            if any(s in renderer for s in _SOFTWARE_RENDERERS):
                slow = " (on the CPU: fine for small pictures)"
            return ok(name, renderer + slow)
    reason = (
        done.stderr.strip().rpartition("\n")[2] or f"the test ended with code {done.returncode}"
    )
    reason = reason.partition("RendererError: ")[2] or reason
    return fail(name, reason, f"{install_command('gl')}; on Debian: apt-get install libegl1 libgl1")


def check_jpeg() -> Finding:
    """Send a picture through the JPEG codec and back."""
    name = "JPEG codec"
    try:
        import numpy as np
        import simplejpeg

        picture = np.full((16, 16, 3), 128, np.uint8)
        back = simplejpeg.decode_jpeg(simplejpeg.encode_jpeg(picture))
    except Exception as exc:  # whatever a broken binary raises
        return fail(
            name, f"simplejpeg does not work: {exc}", "pip install --force-reinstall simplejpeg"
        )
    if back.shape == picture.shape:
        return ok(name, "simplejpeg works")
    return fail(
        name, "simplejpeg returns another picture", "pip install --force-reinstall simplejpeg"
    )


def check_compiled_kernel() -> Finding:
    """Check for the compiled kernel of the pose path."""
    name = "compiled kernel"
    if library.KERNEL is not None:
        return ok(name, library.PATH.name)
    return warn(name, library.description(), library.CURE)


def check_video() -> Finding:
    """Check for PyAV, which encodes H.264 and HEVC."""
    if importlib.util.find_spec("av") is None:
        return ok("video codec", "PyAV is not installed: JPEG and raw streams only")
    return ok("video codec", "PyAV is installed")


def check_extra(module: str, *, needed: bool = False) -> Finding:
    """Check that the module of an extra is installed."""
    extra = EXTRA_OF_MODULE[module]
    name = f"extra {extra}"
    if importlib.util.find_spec(module) is not None:
        return ok(name, f"{module} is installed")
    if needed:
        return fail(name, f"{module} is not installed", install_command(extra))
    return ok(name, f"{module} is not installed ({install_command(extra)} where it is wanted)")


def check_sdks() -> Finding:
    """List vendors' clients, which are used where they are found."""
    found = [text for module, text in _SDKS.items() if importlib.util.find_spec(module) is not None]
    return ok("vendor SDKs", ", ".join(found) or "none; the bridge's own clients need none")
