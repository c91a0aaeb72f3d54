"""Structs of the kernel: fields by name, and libraries with other structs."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import shutil
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

from hatch_build import c_compiler
from tests.mutants.c_source import library as compiled
from tests.support.common import ROOT
from vil_bridge.kernel import library
from vil_bridge.kernel.structs import (
    VilClock,
    VilFrame,
    VilNatNetStream,
    VilObjectsBinding,
    VilRoom,
    VilStamps,
)

KERNEL: Final = "vil_bridge/kernel"
ROOM: Final[dict[str, Any]] = {"is_world": 0, "turn": np.eye(7), "shift": np.zeros(7)}

needs_compiler = pytest.mark.skipif(c_compiler() is None, reason="no C compiler")


def loader(folder: Path, built: bytes) -> ModuleType:
    """Return the loader of a folder with another library."""
    copy = Path(shutil.copy2(library.__file__, folder / "library.py"))
    copy.with_name(library.PATH.name).write_bytes(built)
    spec = importlib.util.spec_from_file_location(f"loader_{folder.name}", copy)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(file: str, old: str, new: str) -> bytes:
    """Return a library of the sources, one of them with another text."""
    path = f"{KERNEL}/{file}"
    source = (ROOT / path).read_text(encoding="utf-8")
    assert source.count(old) == 1
    made = compiled(ROOT, path, source.replace(old, new))
    assert made is not None
    return made


# --- the library ---------------------------------------------------------------------------------


@pytest.mark.skipif(not library.PATH.exists(), reason=f"{library.PATH.name} was not built")
def test_the_library_next_to_its_sources_has_these_structs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(library.SWITCH, raising=False)
    found = loader(tmp_path, library.PATH.read_bytes())
    assert found.ABSENT == ""
    assert found.KERNEL is not None
    assert found.description() == "compiled"


@needs_compiler
@pytest.mark.process
@pytest.mark.parametrize(
    ("file", "old", "new", "difference"),
    [
        (
            "clock.h",
            "int64_t fit_ref_ns, fit_offset_ns;",
            "int64_t fit_offset_ns, fit_ref_ns;",
            "VilClock.fit_ref_ns is `int64_t` at byte 48, not `int64_t` at byte 40",
        ),
        (
            "clock.h",
            "double line_drift;",
            "int64_t line_drift;",
            "VilClock.line_drift is `int64_t` at byte 32, not `double` at byte 32",
        ),
        ("clock.h", "count, sum_ns;", "count, sum_ns, more;", "VilClock is 120 bytes, not 112"),
        ("layout.c", "FIELD(suspected),", "", "VilStamps.suspected is absent, not `int64_t` at"),
        (
            "layout.c",
            "FIELD(suspected),",
            'FIELD(suspected), {"VilStamps.more", "double", 8},',
            "VilStamps.more is `double` at byte 8, not absent",
        ),
    ],
)
def test_a_library_with_another_struct_is_refused(
    file: str,
    old: str,
    new: str,
    difference: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(library.SWITCH, raising=False)
    found = loader(tmp_path, built(file, old, new))
    assert found.KERNEL is None
    assert f"libvil_kernel.so was built from other sources: {difference}" in found.description()


@needs_compiler
@pytest.mark.process
def test_a_library_with_other_functions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(library.SWITCH, raising=False)
    found = loader(
        tmp_path, built("version.c", "VIL_KERNEL_VERSION = 10", "VIL_KERNEL_VERSION = 9")
    )
    assert found.KERNEL is None
    assert "libvil_kernel.so has version 9, not 10" in found.description()


# --- fields --------------------------------------------------------------------------------------


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^VilRoom is given no shift: "):
        VilRoom(is_world=0, turn=np.eye(7))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^VilStamps is given no t_arrival_ns, t_capture_ns: "):
        VilStamps()  # type: ignore[call-arg]


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^VilRoom has no scale: "):
        VilRoom(**ROOM, scale=1.0)  # type: ignore[call-arg]
    room = VilRoom(**ROOM)
    with pytest.raises(TypeError, match=r"^VilRoom has no scale: "):
        room.assign(scale=1.0)


def test_a_doubled_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="multiple values for keyword argument 'turn'"):
        VilRoom(**ROOM, turn=np.eye(7))


@pytest.mark.parametrize(
    ("value", "given"),
    [
        (np.eye(7, dtype=np.float32), "an array of float32"),
        (np.zeros((14, 7))[::2], "an array of float64"),
        ([0.0] * 49, "a value of type list"),
        (None, "a value of type NoneType"),
        (VilStamps(t_capture_ns=0, t_arrival_ns=0), "a value of type VilStamps"),
    ],
)
def test_an_array_of_other_elements_is_an_error(value: Any, given: str) -> None:
    with pytest.raises(TypeError, match=rf"^VilRoom.turn is given {given}: give it a `double \*`"):
        VilRoom(**ROOM | {"turn": value})


def test_another_struct_is_an_error() -> None:
    room = VilRoom(**ROOM)
    fields: dict[str, Any] = {
        "count": 0,
        "markers_turned": 0,
        "columns": np.zeros(0, np.int64),
        "rows": np.zeros(0, np.int64),
        "markers": np.zeros((0, 7)),
        "poses": np.zeros((0, 7)),
    }
    assert ctypes.c_void_p.from_buffer(VilFrame(room=room, **fields), 16).value == room.address
    others: list[Any] = [VilStamps(t_capture_ns=0, t_arrival_ns=0), ROOM["turn"]]
    for other in others:
        with pytest.raises(TypeError, match=r"^VilFrame.room is given a.*: give it a `VilRoom \*`"):
            VilFrame(room=other, **fields)


def test_a_number_of_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match="int"):
        VilStamps(t_capture_ns=0.5, t_arrival_ns=0)  # type: ignore[arg-type]


def test_fields_lie_where_their_names_say() -> None:
    clock = VilClock(oldest_ns=5, line_drift=0.25, sum_ns=7)
    integers = np.frombuffer(memoryview(clock), np.int64)
    doubles = np.frombuffer(memoryview(clock), np.float64)
    assert integers.tolist()[:4] == [0, 5, 0, 0]
    assert doubles[4] == 0.25
    assert integers[-1] == 7
    clock.assign(ready=1)
    assert integers[0] == 1
    assert ctypes.cast(clock.pointer, ctypes.c_void_p).value == integers.ctypes.data


def test_a_field_with_a_default_may_be_left_out() -> None:
    buffers = np.zeros(8, np.uint8)
    stream = VilNatNetStream(
        server_ip=1, most_skipped=2, fastest_hz=3, bytes=buffers, held=1, shown=2
    )
    assert stream.taken == 0
    assert stream.binding is None
    assert stream.bytes == buffers.ctypes.data


def test_bytes_may_be_those_of_any_elements() -> None:
    names = np.zeros(2, "S24")
    seen = np.zeros(2, np.bool_)
    binding = VilObjectsBinding(
        objects=2,
        rows_out=2,
        repeats=5,
        names=names,
        rows=np.zeros(2, np.int32),
        last=np.zeros(2, "V72"),
        times=np.zeros(2, np.int64),
        pose=np.zeros((2, 7)),
        tracked=seen,
        farthest_m=1e4,
        largest_rad=100.0,
    )
    assert binding.names == names.ctypes.data
    assert binding.tracked == seen.ctypes.data


def test_arrays_live_as_long_as_their_struct() -> None:
    turn = np.eye(7)
    gone = weakref.ref(turn)
    room = VilRoom(**ROOM | {"turn": turn})
    del turn
    gc.collect()
    assert gone() is not None
    room.assign(turn=np.zeros((7, 7)))
    gc.collect()
    assert gone() is None
