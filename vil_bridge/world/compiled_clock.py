"""Foreign clock whose usual stamps the compiled kernel judges (``kernel/clock.c``)."""

from __future__ import annotations

import ctypes
from typing import Final

from vil_bridge.kernel.library import function
from vil_bridge.kernel.structs import VilClock
from vil_bridge.world.clock_sync import OLDEST_NS, ClockModel

_LARGEST: Final = 2**53
"""Up to here a double holds every whole number."""
_LAST_NS: Final = 2**63


class CompiledClock(ClockModel):
    """A clock that leaves to the kernel what changes nothing but counts; all else is its twin's."""

    def __init__(self) -> None:
        super().__init__()
        self._state = VilClock(oldest_ns=OLDEST_NS)
        self._pointer = self._state.pointer
        self._stamp = function(
            "vil_clock_stamp", ctypes.c_void_p, *[ctypes.c_int64] * 3, returns=ctypes.c_int64
        )

    def usual(self, t_foreign_ns: int, t_arrival_ns: int, latency_ns: int) -> int | None:
        """Account a stamp that changes no line, and return its bridge time.

        None where it may be another.
        """
        t_ns: int = self._stamp(self._pointer, t_foreign_ns, t_arrival_ns, latency_ns)
        return None if t_ns < 0 else t_ns

    def settle(self) -> None:
        """Let the kernel judge from here on: the line is in force."""
        line = self.line
        judged = self._envelope.usual()
        if line is None or judged is None:
            return
        values = line.t_ref_ns, line.offset_ns, line.drift, *judged
        whole = all(abs(v) < _LAST_NS for v in values)
        if whole and abs(judged.most_over_ns) < _LARGEST:
            state = self._state
            state.line_ref_ns = line.t_ref_ns
            state.line_offset_ns = line.offset_ns
            state.line_drift = line.drift
            state.fit_ref_ns = judged.t_ref_ns
            state.fit_offset_ns = judged.offset_ns
            state.fit_drift = judged.drift
            state.most_over_ns = judged.most_over_ns
            state.least_over_ns = judged.least_over_ns
            state.second_start_ns = judged.start_ns
            state.second_offset_ns = judged.largest_ns
            state.ready = 1

    def reset(self) -> None:
        """Forget everything: the foreign clock restarted."""
        self._take_over()
        super().reset()

    def add_exchange(self, t_sent_ns: int, t_foreign_ns: int, t_received_ns: int) -> None:
        """Account a peer's answer ``t_foreign_ns`` to a request.

        Sent and received in bridge time.
        """
        self._take_over()
        super().add_exchange(t_sent_ns, t_foreign_ns, t_received_ns)

    def add_stamp(self, t_foreign_ns: int, t_arrival_ns: int) -> None:
        """Account a one-way stamp, which may be no usual one."""
        self._take_over()
        super().add_stamp(t_foreign_ns, t_arrival_ns)

    def _take_over(self) -> None:
        """Account what the kernel has judged, and let it judge no more."""
        state = self._state
        if state.count:
            self._envelope.add_usual(state.count, state.sum_ns)
        state.ready = state.count = state.sum_ns = 0
