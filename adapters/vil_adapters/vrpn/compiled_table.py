"""Table of trackers in the compiled kernel (``vil_bridge/kernel/vrpn.c``), which reads poses
from the bytes too.

Twin of :mod:`~vil_adapters.vrpn.tracker_table`, which explains the rules.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from vil_adapters.sessions.plausible_range import FARTHEST_M
from vil_adapters.vrpn.convert import VrpnFrame
from vil_adapters.vrpn.tracker_table import MAX_SUBJECTS, UNKNOWN, PoseVerdict
from vil_bridge.core.types import SourceFrame
from vil_bridge.kernel.library import KERNEL
from vil_bridge.kernel.structs import VilVrpnTable
from vil_bridge.protocols.vrpn.codec import TrackerPose

IS_COMPILED: Final = KERNEL is not None
_I64: Final = ctypes.c_int64
_ADDRESS: Final = ctypes.c_void_p
_VERDICTS: Final = (
    PoseVerdict.ACCEPTED,
    PoseVerdict.DUPLICATE,
    PoseVerdict.UNUSABLE,
    PoseVerdict.CLOCK_JUMPED,
    PoseVerdict.IMPLAUSIBLE_STAMP,
)
_COUNTED: Final = ("unwanted", "duplicates", "unusable", "implausible_stamps")
_UNWANTED: Final = -1
_NO_TYPE: Final = -1
_POSE: Final = 7

_Columns = dict[str, Any]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function: Any = getattr(KERNEL, name, None)
    if function is not None:
        function.restype = result
        function.argtypes = (_ADDRESS, *arguments)
    return function


_judge: Final = _function("vil_vrpn_judge", ctypes.c_int, _I64, _ADDRESS, _I64, _I64)
_read: Final = _function("vil_vrpn_read", _I64, ctypes.c_char_p, _I64, _I64, _I64)
_select: Final = _function("vil_vrpn_select", _I64)
_frame: Final = _function("vil_vrpn_frame", _I64, _I64)
_silent: Final = _function("vil_vrpn_silent", ctypes.c_int, _I64)

_BY_ENTRY: Final = (
    *("group_t_ns", "group_arrival_ns", "group_start", "group_used"),
    *("entry_row", "entry_pose", "entry_tracked"),
)


def _columns() -> _Columns:
    """Return the arrays of ``vrpn.h``.

    A body that has not come yet has no stamp, no pose and stands nowhere.
    """
    by_type: dict[Any, tuple[str, ...]] = {
        np.int64: (
            "repeats",
            "messages",
            "t_arrival_ns",
            "group_t_ns",
            "group_arrival_ns",
            "group_start",
        ),
        np.int32: ("entry_row", "frame_row", "bound_sender", "bound_sensor", "bound_row"),
        np.bool_: ("tracked", "group_used", "entry_tracked", "frame_tracked"),
        np.uint8: ("covered",),
        np.float64: ("period_ns",),
    }
    columns: _Columns = {
        n: np.zeros(MAX_SUBJECTS, kind) for kind, names in by_type.items() for n in names
    }
    columns["t_ns"] = np.full(MAX_SUBJECTS, UNKNOWN, np.int64)
    columns["pose"] = np.full((MAX_SUBJECTS, _POSE), np.nan)
    columns["shown"] = np.tile((0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0), (MAX_SUBJECTS, 1))
    columns |= {name: np.zeros((MAX_SUBJECTS, _POSE)) for name in ("entry_pose", "frame_pose")}
    return columns


class CompiledTrackerTable:
    """Table that reads and judges poses and groups them into frames, as ``TrackerTable`` does.

    A body is bound to the ids of its messages when its first one was judged: :meth:`read` knows the
    following ones.

    Args:
        source: name of the source.
        frame: units and axes of the server.
        repeats_mean_lost: a body that repeats its pose is lost; False = it rests.
    """

    def __init__(self, source: str, frame: VrpnFrame, *, repeats_mean_lost: bool = True) -> None:
        self._source = source
        self._rows: dict[str, int] = {}
        self._bound: set[tuple[int, int]] = set()
        self._number = 0
        self._frame_rows = b""
        self._subjects: tuple[str, ...] = ()
        self._given = np.zeros(_POSE)
        self._columns = _columns()
        self._table = VilVrpnTable(
            most_entries=MAX_SUBJECTS,
            pose_type=_NO_TYPE,
            repeats_mean_lost=repeats_mean_lost,
            y_up=frame.up_axis == "y",
            scale_m=frame.scale_m,
            farthest_m=FARTHEST_M,
            **self._columns,
        )
        self._address = self._table.pointer
        self._pose_address = ctypes.c_void_p(self._given.ctypes.data)

    @property
    def superseded(self) -> int:
        """Return the frames that a newer one of the same bodies overtook before they were
        emitted.
        """
        return self._table.superseded

    @property
    def repeated(self) -> int:
        """Return the poses of bodies that count as lost because they repeat."""
        return self._table.repeated

    @property
    def names(self) -> tuple[str, ...]:
        """Return the bodies seen so far."""
        return tuple(self._rows)

    # --- messages ---------------------------------------------------------------------------------

    def unbind(self) -> None:
        """Forget the ids of all bodies: the peer describes them again."""
        self._bound.clear()
        self._table.bound = 0
        self._table.pose_type = _NO_TYPE

    def bind(self, pose_type: int, senders: Iterable[int], sensor: int, name: str | None) -> None:
        """Let :meth:`read` know the poses of a body.

        Args:
            pose_type: id of the messages.
            senders: ids of its device.
            sensor: number within that.
            name: of a body that was judged; None = one that is not wanted, whose poses are counted
                only.
        """
        row = _UNWANTED if name is None else self._rows.get(name)
        self._table.pose_type = pose_type
        for sender in senders:
            if row is None or (sender, sensor) in self._bound or len(self._bound) >= MAX_SUBJECTS:
                continue
            at = len(self._bound)
            self._bound.add((sender, sensor))
            numbers = {"bound_sender": sender, "bound_sensor": sensor, "bound_row": row}
            for column, number in numbers.items():
                self._columns[column][at] = number
            self._table.bound = at + 1

    def read(self, data: bytes, at: int, t_arrival_ns: int) -> int:
        """Judge the messages from an offset on that are poses of bound bodies.

        Return the offset of the first other.
        """
        return int(_read(self._address, data, len(data), at, t_arrival_ns))

    def drops(self) -> list[tuple[str, int]]:
        """Return how many poses :meth:`read` dropped since the call before, by counter."""
        drops = [(name, count) for name in _COUNTED if (count := getattr(self._table, name))]
        for name, _ in drops:
            setattr(self._table, name, 0)
        return drops

    def judge(self, name: str, pose: TrackerPose, t_ns: int, t_arrival_ns: int) -> PoseVerdict:
        """Judge one pose.

        All but ``ACCEPTED`` and ``UNUSABLE`` leave no trace in the next frames.
        """
        row = self._rows.get(name)
        if row is None:
            if len(self._rows) >= MAX_SUBJECTS:
                return PoseVerdict.TOO_MANY
            row = self._rows[name] = len(self._rows)
            self._table.trackers = row + 1
        self._reserve()
        self._given[:3] = pose.p
        self._given[3:] = pose.q_xyzw
        return _VERDICTS[_judge(self._address, row, self._pose_address, t_ns, t_arrival_ns)]

    # --- frames -----------------------------------------------------------------------------------

    def frames(self) -> list[SourceFrame]:
        """Return the frames since the call before, oldest first, without those that newer poses
        replace.
        """
        count = _select(self._address)
        used = self._columns["group_used"][:count].tolist()
        frames = [self._frame_of(group) for group, is_used in enumerate(used) if is_used]
        self._table.groups = self._table.entries = 0
        return frames

    def silent(self, t_now_ns: int) -> SourceFrame | None:
        """Return a frame without a tracked body when the last one has just fallen silent."""
        return self._make(-1, None, t_now_ns) if _silent(self._address, t_now_ns) else None

    def _frame_of(self, group: int) -> SourceFrame:
        columns = self._columns
        return self._make(
            group, columns["group_t_ns"].item(group), columns["group_arrival_ns"].item(group)
        )

    def _make(self, group: int, t_ns: int | None, t_arrival_ns: int) -> SourceFrame:
        columns = self._columns
        count = _frame(self._address, group)
        rows = columns["frame_row"][:count].tobytes()
        if rows != self._frame_rows:
            names = tuple(self._rows)
            self._frame_rows = rows
            self._subjects = tuple(names[row] for row in columns["frame_row"][:count].tolist())
        self._number += 1
        pose = columns["frame_pose"][:count].copy()
        tracked = columns["frame_tracked"][:count].copy()
        return SourceFrame(
            self._source,
            self._number,
            t_ns,
            t_arrival_ns,
            self._subjects,
            pose[:, :3],
            pose[:, 3:],
            tracked,
        )

    # --- all bodies -------------------------------------------------------------------------------

    def restart(self, *, clock: bool) -> None:
        """Mark all bodies as lost until they come again.

        Their stamps are void when the clock is another one.
        """
        self._table.groups = self._table.entries = self._table.has_suspect = 0
        self._columns["tracked"][:] = False
        self._columns["repeats"][:] = 0
        if clock:
            self._columns["t_ns"][:] = UNKNOWN

    def counts(self) -> dict[str, int]:
        """Return the number of poses of each body since the call before."""
        messages = self._columns["messages"]
        counts = dict(zip(self._rows, messages[: len(self._rows)].tolist(), strict=True))
        messages[:] = 0
        return counts

    def _reserve(self) -> None:
        """Make room for one more entry."""
        most = self._table.most_entries
        if self._table.entries < most:
            return
        for name in _BY_ENTRY:
            column = self._columns[name]
            larger = np.zeros((2 * most, *column.shape[1:]), column.dtype)
            larger[:most] = column
            self._columns[name] = larger
            self._table.assign(**{name: larger})
        self._table.most_entries = 2 * most
