"""EGL's devices, and which of them to draw with: GPUs are counted as CUDA counts them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from typing import Any, Final

from vil_bridge.core.errors import RendererError

CUDA_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
INDEX_VARIABLE: Final = "GLCONTEXT_DEVICE_INDEX"
_LIBRARY_VARIABLE: Final = "GLCONTEXT_LINUX_LIBEGL"
_SOFTWARE_NAMES: Final = ("llvmpipe", "softpipe", "swrast", "software")
_NO_CUDA: Final = ("", "-1", "NoDevFiles")
_MOST: Final = 64
_EXTENSIONS: Final = 0x3055  # EGL_EXTENSIONS
_CUDA_DEVICE: Final = 0x323A  # EGL_CUDA_DEVICE_NV
_ON_CPU: Final = (
    "Install the driver's EGL part (NVIDIA: libnvidia-gl; in a container "
    "NVIDIA_DRIVER_CAPABILITIES=all), or draw on "
    f"the CPU: leave --device out and set {CUDA_VARIABLE} to nothing"
)


@dataclass(frozen=True, slots=True)
class EglDevice:
    """One of EGL's devices.

    Attributes:
        index: its number as EGL counts. software: it draws on the CPU. nvidia: CUDA may know it.
        cuda: its number among those that CUDA shows to this process; None = CUDA does not show it.
    """

    index: int
    software: bool
    nvidia: bool = False
    cuda: int | None = None


def is_software(gl_renderer: str) -> bool:
    """Return True when OpenGL's renderer string names a program that draws on the CPU."""
    return any(name in gl_renderer.lower() for name in _SOFTWARE_NAMES)


def gpu_wanted(device: int | None, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a GPU was asked for: by its number, or by CUDA's variable."""
    return device is not None or environment.get(CUDA_VARIABLE, "").strip() not in _NO_CUDA


def chosen_device(
    device: int | None, devices: Sequence[EglDevice], environment: Mapping[str, str] = os.environ
) -> int:
    """Return the number of the EGL device to draw with.

    Args:
        device: which GPU, in CUDA's order; None = the first one, else the CPU unless
            CUDA_VISIBLE_DEVICES names a GPU.
        devices: EGL's; none if EGL cannot list them.
        environment: the process's variables. ``GLCONTEXT_DEVICE_INDEX`` overrules everything.

    Raises:
        RendererError: a GPU was asked for, and there is none of that number.
    """
    if environment.get(INDEX_VARIABLE) or not devices:
        return device or 0
    shown = [
        d for d in devices if d.cuda is not None or not (d.nvidia and CUDA_VARIABLE in environment)
    ]
    gpus = sorted(
        (d for d in shown if not d.software), key=lambda d: (d.cuda is None, d.cuda or 0, d.index)
    )
    if len(gpus) > (device or 0):
        return gpus[device or 0].index
    if gpu_wanted(device, environment):
        asked = f"--device {device}"
        if device is None:
            asked = f"{CUDA_VARIABLE}={environment[CUDA_VARIABLE]}"
        raise RendererError(f"{asked} asks for a GPU, and EGL shows {len(gpus)} of them. {_ON_CPU}")
    return next((d.index for d in shown if d.software), 0)


def check_renderer(gl_renderer: str, device: int | None) -> None:
    """Check that a GPU draws where one was asked for.

    Raises:
        RendererError: OpenGL draws on the CPU.
    """
    if gpu_wanted(device) and is_software(gl_renderer):
        raise RendererError(
            f"a GPU was asked for, and OpenGL draws on the CPU ({gl_renderer}). {_ON_CPU}"
        )


def egl_library() -> ctypes.CDLL | None:
    """Return EGL's library, None where it is absent."""
    try:
        egl = ctypes.CDLL(os.environ.get(_LIBRARY_VARIABLE) or find_library("EGL") or "libEGL.so.1")
        egl.eglGetProcAddress.restype = ctypes.c_void_p
        egl.eglGetProcAddress.argtypes = [ctypes.c_char_p]
    except (OSError, AttributeError):
        return None
    return egl


def egl_devices() -> list[EglDevice]:
    """Return EGL's devices in its order; none where EGL is absent or cannot list them."""
    egl = egl_library()
    if egl is None:
        return []
    handle = ctypes.c_void_p
    number = ctypes.c_int
    list_devices = gl_function(
        egl,
        b"eglQueryDevicesEXT",
        ctypes.c_uint,
        number,
        ctypes.POINTER(handle),
        ctypes.POINTER(number),
    )
    describe = gl_function(egl, b"eglQueryDeviceStringEXT", ctypes.c_char_p, handle, number)
    attribute = gl_function(
        egl,
        b"eglQueryDeviceAttribEXT",
        ctypes.c_uint,
        handle,
        number,
        ctypes.POINTER(ctypes.c_ssize_t),
    )
    handles = (handle * _MOST)()
    count = number(0)
    if (
        list_devices is None
        or describe is None
        or not list_devices(_MOST, handles, ctypes.byref(count))
    ):
        return []
    return [_described(index, handles[index], describe, attribute) for index in range(count.value)]


def gl_function(egl: ctypes.CDLL, name: bytes, result: Any, *arguments: Any) -> Any:
    """Return a function of EGL's extensions or of OpenGL, None where EGL does not have it."""
    address = egl.eglGetProcAddress(name)
    return ctypes.CFUNCTYPE(result, *arguments)(address) if address else None


def _described(index: int, handle: Any, describe: Any, attribute: Any) -> EglDevice:
    extensions = (describe(handle, _EXTENSIONS) or b"").split()
    nvidia = b"EGL_NV_device_cuda" in extensions
    cuda = ctypes.c_ssize_t(-1)
    known = nvidia and attribute is not None and attribute(handle, _CUDA_DEVICE, ctypes.byref(cuda))
    visible = known and cuda.value >= 0
    return EglDevice(
        index, b"EGL_MESA_device_software" in extensions, nvidia, cuda.value if visible else None
    )
