"""EGL's devices: matched to CUDA's, and never the CPU in silence where a GPU was asked for."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from tests.support.common import needs_gl
from tests.support.programs import run as run_program
from vil_bridge.core.errors import RendererError
from vil_renderer.embedded.engine.context import describe, open_context
from vil_renderer.embedded.engine.devices import (
    EglDevice,
    check_renderer,
    chosen_device,
    egl_devices,
    gpu_wanted,
    is_software,
)
from vil_renderer.embedded.servers.main import run

CPU = EglDevice(3, software=True)
HIDDEN = EglDevice(0, software=False, nvidia=True)
FIRST, SECOND = (EglDevice(index, software=False, nvidia=True, cuda=2 - index) for index in (2, 1))
LAPTOP = EglDevice(4, software=False)
ALL = [HIDDEN, SECOND, FIRST, CPU, LAPTOP]
VISIBLE = {"CUDA_VISIBLE_DEVICES": "5,GPU-4a3f"}


@pytest.mark.parametrize(
    ("device", "devices", "environment", "index"),
    [
        (None, ALL, VISIBLE, 2),
        (0, ALL, VISIBLE, 2),
        (1, ALL, VISIBLE, 1),
        (2, ALL, VISIBLE, 4),
        (None, [HIDDEN, CPU], {"CUDA_VISIBLE_DEVICES": ""}, 3),
        (None, [HIDDEN, CPU], {"CUDA_VISIBLE_DEVICES": "-1"}, 3),
        (None, [HIDDEN, CPU], {}, 0),
        (None, [CPU, LAPTOP], {}, 4),
        (None, [CPU], {}, 3),
        (None, [], {}, 0),
        (2, [], VISIBLE, 2),
        (1, [CPU], {"GLCONTEXT_DEVICE_INDEX": "3"}, 1),
    ],
)
def test_gpus_are_counted_as_cuda_counts(
    device: int | None, devices: list[EglDevice], environment: dict[str, str], index: int
) -> None:
    assert chosen_device(device, devices, environment) == index


@pytest.mark.parametrize(
    ("device", "environment", "asked"),
    [
        (None, VISIBLE, "CUDA_VISIBLE_DEVICES=5,GPU-4a3f"),
        (0, {}, "--device 0"),
        (7, VISIBLE, "--device 7"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_the_cure(
    device: int | None, environment: dict[str, str], asked: str
) -> None:
    with pytest.raises(
        RendererError, match=f"{asked} asks for a GPU, and EGL shows 0 of them"
    ) as refused:
        chosen_device(device, [HIDDEN, CPU] if environment else [CPU], environment)
    assert "libnvidia-gl" in str(refused.value)
    assert "leave --device out" in str(refused.value)


def test_a_driver_that_falls_back_to_the_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert is_software("llvmpipe (LLVM 15.0.6, 256 bits)")
    assert not is_software("NVIDIA H100 80GB HBM3/PCIe/SSE2")
    check_renderer("llvmpipe (LLVM 15.0.6, 256 bits)", None)
    check_renderer("NVIDIA H100 80GB HBM3/PCIe/SSE2", 0)
    with pytest.raises(RendererError, match="draws on the CPU"):
        check_renderer("llvmpipe (LLVM 15.0.6, 256 bits)", 0)
    assert not gpu_wanted(None, {"CUDA_VISIBLE_DEVICES": " "})


@pytest.mark.gl
def test_the_cpu_is_not_taken_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    needs_gl()
    if not all(device.software for device in egl_devices()):
        pytest.skip("this computer has a GPU")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with caplog.at_level(logging.ERROR):
        assert run() == 3
    assert "CUDA_VISIBLE_DEVICES=0 asks for a GPU" in caplog.text
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    context = open_context()
    with context:
        assert is_software(describe(context)["gl_renderer"])
    context.release()


EGL = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
static char software, hidden, shown;
static unsigned devices(int most, void **list, int *count) {
    void *all[] = {&software, &hidden, &shown};
    memcpy(list, all, sizeof all);
    *count = 3;
    return most >= 3;
}
static const char *text(void *device, int name) {
    if (name != 0x3055) return NULL;
    return device == &software ? "EGL_MESA_device_software EGL_X"
        : "EGL_NV_device_cuda EGL_EXT_device_drm";
}
static unsigned attribute(void *device, int name, intptr_t *value) {
    if (device != &shown || name != 0x323A) return 0;
    *value = 0;
    return 1;
}
void *eglGetProcAddress(const char *name) {
    if (!strcmp(name, "eglQueryDevicesEXT")) return devices;
    if (!strcmp(name, "eglQueryDeviceStringEXT")) return text;
    return strcmp(name, "eglQueryDeviceAttribEXT") ? NULL : attribute;
}
"""


@pytest.mark.process
def test_devices_are_read_as_nvidia_describes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: apt-get install gcc")
    source, library = tmp_path / "egl.c", tmp_path / "libegl.so"
    source.write_text(EGL)
    done = run_program(compiler, "-shared", "-fPIC", str(source), "-o", str(library))
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("GLCONTEXT_LINUX_LIBEGL", str(library))
    assert egl_devices() == [
        EglDevice(0, software=True),
        EglDevice(1, software=False, nvidia=True),
        EglDevice(2, software=False, nvidia=True, cuda=0),
    ]


def test_without_egl_there_are_no_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCONTEXT_LINUX_LIBEGL", str(tmp_path / "absent.so"))
    assert egl_devices() == []
