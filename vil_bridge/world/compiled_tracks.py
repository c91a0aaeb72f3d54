"""Tracks in the compiled kernel (``world/kernel/tracks.c``, ``twist_filter.c``), on the arrays of their twin."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from vil_bridge.core.types import BoolArray, FloatArray, SourceFrame
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.frame_binding import Binding
from vil_bridge.world.kernel.library import KERNEL
from vil_bridge.world.tracks import CAPACITY, TrackBank
from vil_bridge.world.twist_filter import TwistFilter, first_gains, steady_gains

_CHANGED: Final = 1
_STORED: Final = 2
_OUT_OF_ORDER_SHIFT: Final = 2


class _FrameArrays:
    """Arrays between Python and the kernel of one source's frames; the struct ``vil_frame``."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        columns = len(binding.subjects)
        self.p_m, self.q_xyzw = np.zeros((columns, 3)), np.zeros((columns, 4))
        self.seen: BoolArray = np.zeros(columns, dtype=np.bool_)
        self.poses = np.zeros((binding.count, 7))
        room = binding.room
        indices = [np.arange(1 << 20)[rows] for rows in (binding.columns, binding.rows)]
        markers = np.concatenate((binding.p_markers_body_m, binding.q_markers_body), axis=1)
        self._arrays = *indices, room.turn, room.shift, markers, self.p_m, self.q_xyzw, self.seen, self.poses
        self._struct = struct([binding.count, room.is_world, binding.markers_turned], self._arrays)
        self.pointer = pointer(self._struct)


def struct(numbers: Sequence[int], arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    """Return a C struct of 64-bit integers and the addresses of arrays, which must outlive it and stay in place."""
    addresses = [array.ctypes.data for array in arrays]
    return (ctypes.c_int64 * (len(numbers) + len(addresses)))(*numbers, *addresses)


def pointer(of: Any) -> ctypes.c_void_p:
    """Return the address of a struct as an argument of the kernel."""
    return ctypes.c_void_p(ctypes.addressof(of))


class CompiledTrackBank(TrackBank):
    """Tracks whose usual frames and poses the kernel computes.

    Frames with a body where it cannot be, and all while one is suspected, are judged by :class:`TrackBank`.
    """

    def __init__(self, limits: Sequence[TrackingLimits]) -> None:
        super().__init__(limits)
        self._ahead = np.zeros((len(limits), 7))
        self._frames: dict[str, _FrameArrays] = {}
        self._structs = self._bank_struct(len(limits)), _filter_struct(self._filter)
        self._pointers = tuple(map(pointer, self._structs))
        self._out = ctypes.c_void_p(self._ahead.ctypes.data)
        self._place = _function("vil_frame_to_world")
        self._append = _function("vil_bank_append")
        self._compute = _function("vil_bank_poses")

    def _bank_struct(self, rows: int) -> Any:
        speeds = np.array(self._slowest).view(np.int64).tolist()  # the bits of two doubles
        repeats = self.repeats
        arrays = (
            *(self._t, self._poses, self._count, self._newest, self._gate_ns, self._max_speed_mps),
            *(self._max_rate_radps, self._limit_ns, self.t_capture_ns, self.t_arrival_ns, self.tracked),
            *(repeats.count, repeats.first_ns, repeats.newest_ns, self._done, self._filtered, self._turned_rad),
        )
        return struct([rows, CAPACITY, self._noisy, *speeds], arrays)

    def store(self, frame: SourceFrame, binding: Binding, t_ns: int) -> bool:
        """Store the bound bodies of a frame captured at ``t_ns``; True when one was lost or found."""
        arrays = self._frames.get(frame.source)
        if arrays is None or arrays.binding is not binding:
            arrays = self._frames[frame.source] = _FrameArrays(binding)
        arrays.p_m[...], arrays.q_xyzw[...], arrays.seen[...] = frame.p_m, frame.q_xyzw, frame.tracked
        self._place(arrays.pointer)
        if self._suspects:
            return super().store(frame, binding, t_ns)
        found = self._append(*self._pointers, arrays.pointer, t_ns, frame.t_arrival_ns)
        if found < 0:
            return super().store(frame, binding, t_ns)
        if found & _STORED:
            self._changed()
        self._counted("out_of_order", found >> _OUT_OF_ORDER_SHIFT)
        return bool(found & _CHANGED)

    def _bodies(self, frame: SourceFrame, binding: Binding) -> FloatArray:
        """Return what the kernel has computed: another way to round would hide that a pose repeats."""
        arrays = self._frames[frame.source]
        assert arrays.binding is binding, "store() has bound them"
        return arrays.poses.copy()

    def poses(self, t_ns: int) -> FloatArray:
        """Return the poses (n, 7) of all rows at an instant: as measured in the past, else carried on."""
        self._advance()
        self._compute(*self._pointers, t_ns, self._out)
        return self._ahead.copy()

    def _advance(self) -> None:
        if self._pending:  # what the twin stored
            self._pending = 0
            _function("vil_bank_advance")(*self._pointers)


def _filter_struct(f: TwistFilter) -> Any:
    steady, first, damping = steady_gains(), first_gains(), f.damping
    arrays = (
        *(steady, first, f.t_ns, f.state, f.newest, f.step_s, f.age, f.log_variance, f.log_jerk, f.surprises),
        *(f.whitened, f.learnt_ns, f.learnt, f.unlearnt),
        *(damping.held_ns, damping.held, damping.sums, damping.lag_s, damping.log),
    )
    return struct([len(f.t_ns), steady.shape[1]], arrays)


def _function(name: str) -> Any:
    function = getattr(cast("Any", KERNEL), name)
    function.restype = ctypes.c_int64 if name == "vil_bank_append" else None
    if name == "vil_bank_append":
        function.argtypes = (*[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)
    elif name == "vil_bank_poses":
        function.argtypes = (*[ctypes.c_void_p] * 2, ctypes.c_int64, ctypes.c_void_p)
    return function
