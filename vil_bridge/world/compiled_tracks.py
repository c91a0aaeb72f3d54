"""Tracks in the compiled kernel (``kernel/tracks.c``, ``twist_filter.c``), on the arrays
of their twin.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray, SourceFrame
from vil_bridge.kernel.library import function
from vil_bridge.kernel.structs import VilBank, VilFilter, VilFrame, VilRoom
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.frame_binding import Binding, RoomFrame, indices
from vil_bridge.world.tracks import CAPACITY, TrackBank
from vil_bridge.world.twist_filter import TwistFilter, first_gains, steady_gains

_CHANGED: Final = 1
_STORED: Final = 2
_REFUSED: Final = 4
_OUT_OF_ORDER_SHIFT: Final = 4


class FrameArrays:
    """Arrays between Python and the kernel of one binding's frames; the struct :class:`VilFrame`.

    Attributes:
        room: shape (columns, 7), poses in the room. seen: shape (columns,). poses: shape (count,
            7), in the world.
    """

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        columns = len(binding.subjects)
        self.room = np.zeros((columns, 7))
        self.seen: BoolArray = np.zeros(columns, dtype=np.bool_)
        self.poses = np.zeros((binding.count, 7))
        markers = np.concatenate((binding.p_markers_body_m, binding.q_markers_body), axis=1)
        self.struct = VilFrame(
            count=binding.count,
            markers_turned=binding.markers_turned,
            room=room_struct(binding.room),
            columns=indices(binding.columns),
            rows=indices(binding.rows),
            markers=markers,
            poses=self.poses,
        )
        self.pointers = self.struct.pointer, self.room.ctypes.data, self.seen.ctypes.data


class CompiledTrackBank(TrackBank):
    """Tracks whose usual frames and poses the kernel computes.

    Frames with a body where it cannot be, and all while one is suspected, are judged by
    :class:`TrackBank`.
    """

    def __init__(self, limits: Sequence[TrackingLimits]) -> None:
        super().__init__(limits)
        self._ahead = np.zeros((len(limits), 7))
        self._frames: dict[str, FrameArrays] = {}
        self.structs = self._bank_struct(len(limits)), _filter_struct(self._filter)
        self._pointers = tuple(of.pointer for of in self.structs)
        self._out = ctypes.c_void_p(self._ahead.ctypes.data)
        self._place = function("vil_frame_to_world", *[ctypes.c_void_p] * 2)
        self._append = function(
            "vil_bank_append",
            *[ctypes.c_void_p] * 4,
            ctypes.c_int64,
            ctypes.c_int64,
            returns=ctypes.c_int64,
        )
        self._filter_rest = function("vil_bank_advance", *[ctypes.c_void_p] * 2)
        self._move = function(
            "vil_bank_shift", *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64
        )
        self._sure = function(
            "vil_bank_sure", ctypes.c_void_p, ctypes.c_int64, returns=ctypes.c_int
        )
        self._compute = function(
            "vil_bank_poses", *[ctypes.c_void_p] * 2, ctypes.c_int64, ctypes.c_void_p
        )

    def _bank_struct(self, rows: int) -> VilBank:
        repeats = self.repeats
        slowest_mps, slowest_radps = self._slowest
        return VilBank(
            rows=rows,
            capacity=CAPACITY,
            noisy=self._noisy,
            slowest_mps=slowest_mps,
            slowest_radps=slowest_radps,
            t=self._t,
            moved_ns=self._moved_ns,
            poses=self._poses,
            count=self._count,
            newest=self._newest,
            gate_ns=self._gate_ns,
            max_speed_mps=self._max_speed_mps,
            max_rate_radps=self._max_rate_radps,
            limit_ns=self._limit_ns,
            coast_ns=self._coast_ns,
            t_capture_ns=self.t_capture_ns,
            t_arrival_ns=self.t_arrival_ns,
            tracked=self.tracked,
            repeats=repeats.count,
            repeats_first_ns=repeats.first_ns,
            repeats_newest_ns=repeats.newest_ns,
            done=self._done,
            filtered=self._filtered,
            turned_rad=self._turned_rad,
        )

    def store(self, frame: SourceFrame, binding: Binding, t_ns: int) -> bool:
        """Store the bound bodies of a frame captured at ``t_ns``.

        True when one was lost or found.
        """
        arrays = self.frame_arrays(frame.source, binding)
        pointer, room, seen = arrays.pointers
        arrays.room[:, :3] = frame.p_m
        arrays.room[:, 3:] = frame.q_xyzw
        arrays.seen[...] = frame.tracked
        self._place(pointer, room)
        if self._suspects:
            return super().store(frame, binding, t_ns)
        found = self._append(*self._pointers, pointer, seen, t_ns, frame.t_arrival_ns)
        return self.account(found, frame, binding, t_ns)

    @property
    def suspects(self) -> bool:
        """True while a body is where it cannot be, so that the twin judges each frame."""
        return bool(self._suspects)

    def frame_arrays(self, source: str, binding: Binding) -> FrameArrays:
        """Return the arrays of a source's frames."""
        arrays = self._frames.get(source)
        if arrays is None or arrays.binding is not binding:
            arrays = self._frames[source] = FrameArrays(binding)
        return arrays

    def account(self, found: int, frame: SourceFrame, binding: Binding, t_ns: int) -> bool:
        """Account the kernel's answer, and store what it refused.

        True when a body was lost or found.
        """
        if found & _REFUSED:
            return super().store(frame, binding, t_ns)
        if found & _STORED:
            self._changed()
        self._counted("out_of_order", found >> _OUT_OF_ORDER_SHIFT)
        return bool(found & _CHANGED)

    def _bodies(self, frame: SourceFrame, binding: Binding) -> FloatArray:
        """Return what the kernel has computed.

        Another way to round would hide that a pose repeats.
        """
        arrays = self._frames[frame.source]
        assert arrays.binding is binding, "store() has bound them"
        return arrays.poses.copy()

    def shift(self, rows: npt.NDArray[np.int64], by_ns: int) -> None:
        """Move the capture times of some rows.

        The clock that they come from is known better now.
        """
        rows = np.ascontiguousarray(rows)
        self._move(*self._pointers, rows.ctypes.data, len(rows), by_ns)
        self._changed()

    def all_surely_tracked(self, t_ns: int) -> bool:
        """Return whether all rows were seen lately, and none repeats its poses."""
        return bool(self._sure(self._pointers[0], t_ns))

    def poses(self, t_ns: int) -> FloatArray:
        """Return the poses (n, 7) of all rows at an instant.

        As measured in the past, else carried on.
        """
        self._advance()
        self._compute(*self._pointers, t_ns, self._out)
        return self._ahead.copy()

    def _advance(self) -> None:
        if self._pending:  # what the twin stored
            self._pending = 0
            self._filter_rest(*self._pointers)


def room_struct(room: RoomFrame) -> VilRoom:
    """Return the struct of a room."""
    return VilRoom(is_world=room.is_world, turn=room.turn, shift=room.shift)


def _filter_struct(f: TwistFilter) -> VilFilter:
    steady = steady_gains()
    damping = f.damping
    return VilFilter(
        rows=len(f.t_ns),
        columns=steady.shape[1],
        steady=steady,
        first=first_gains(),
        t_ns=f.t_ns,
        state=f.state,
        newest=f.newest,
        step_s=f.step_s,
        age=f.age,
        variance=f.variance,
        log_jerk=f.log_jerk,
        surprises=f.surprises,
        whitened=f.whitened,
        learnt_ns=f.learnt_ns,
        learnt=f.learnt,
        unlearnt=f.unlearnt,
        held_ns=damping.held_ns,
        held=damping.held,
        sums=damping.sums,
        lag_s=damping.lag_s,
        log_parts=damping.log,
    )
