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
from vil_bridge.kernel.structs import Struct, double_bits, function
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.frame_binding import Binding, RoomFrame, indices
from vil_bridge.world.tracks import CAPACITY, TrackBank
from vil_bridge.world.twist_filter import TwistFilter, first_gains, steady_gains

_CHANGED: Final = 1
_STORED: Final = 2
_REFUSED: Final = 4
_OUT_OF_ORDER_SHIFT: Final = 4


class FrameArrays:
    """Arrays between Python and the kernel of one binding's frames; the struct ``vil_frame``.

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
        self.struct = Struct(
            [binding.count, binding.markers_turned, room_struct(binding.room)],
            [indices(binding.columns), indices(binding.rows), markers, self.poses],
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

    def _bank_struct(self, rows: int) -> Struct:
        repeats = self.repeats
        arrays = (
            *(
                self._t,
                self._moved_ns,
                self._poses,
                self._count,
                self._newest,
                self._gate_ns,
                self._max_speed_mps,
            ),
            *(
                self._max_rate_radps,
                self._limit_ns,
                self._coast_ns,
                self.t_capture_ns,
                self.t_arrival_ns,
                self.tracked,
            ),
            *(
                repeats.count,
                repeats.first_ns,
                repeats.newest_ns,
                self._done,
                self._filtered,
                self._turned_rad,
            ),
        )
        return Struct([rows, CAPACITY, self._noisy, *double_bits(*self._slowest)], arrays)

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


def room_struct(room: RoomFrame) -> Struct:
    """Return the struct ``vil_room``."""
    return Struct([room.is_world], [room.turn, room.shift])


def _filter_struct(f: TwistFilter) -> Struct:
    steady = steady_gains()
    first = first_gains()
    damping = f.damping
    arrays = (
        *(
            steady,
            first,
            f.t_ns,
            f.state,
            f.newest,
            f.step_s,
            f.age,
            f.variance,
            f.log_jerk,
            f.surprises,
        ),
        *(f.whitened, f.learnt_ns, f.learnt, f.unlearnt),
        *(damping.held_ns, damping.held, damping.sums, damping.lag_s, damping.log),
    )
    return Struct([len(f.t_ns), steady.shape[1]], arrays)
