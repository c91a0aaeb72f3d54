"""Judges every input: which errors escape, how long it takes, how much memory it asks for."""

from __future__ import annotations

import os
import resource
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target

__all__ = ["LIMIT_BYTES", "TooMuchMemoryError", "TooSlowError", "Watch"]

LIMIT_BYTES: Final = 64 << 20
_MEASURABLE_BYTES: Final = 4 * LIMIT_BYTES  # what one input may ask for while it is measured
_AGAIN: Final = 4
_TRACED: Final = 256  # every so many inputs one is measured to the byte
_BOUNDED: Final = 1024  # every so many inputs the kernel's limit follows the process's size


class TooSlowError(Exception):
    """One input took longer than its codec may take, every time."""


class TooMuchMemoryError(Exception):
    """One input asked for more than 64 MiB."""


@dataclass
class Watch:
    """Judges the inputs of one target.

    Attributes:
        executions: inputs so far.
        worst_ns: processor time of the slowest input, the shortest of several measurements.
        peak_bytes: largest that one input held, of those that were measured.
    """

    target: Target
    executions: int = 0
    worst_ns: int = 0
    peak_bytes: int = 0

    def warm_up(self) -> None:
        """Read the seeds twice unjudged, so that what is imported and compiled once is not
        judged.
        """
        for _ in range(2):
            for seed in self.target.seeds():
                self.target.take(seed)

    def judge(self, data: bytes) -> bool:
        """Read one input; True when it was the slowest or the largest so far.

        Raises:
            TooSlowError: it took too long. TooMuchMemoryError: it asked for too much. Or whatever
                escaped.
        """
        if self.executions % _BOUNDED == 0:
            _bound(_data_bytes() + LIMIT_BYTES)
        self.executions += 1
        larger = self.executions % _TRACED == 0 and self._measure(data)
        try:
            took_ns = self._time(data)
        except MemoryError:
            self._measure(data)
            _bound(_data_bytes() + LIMIT_BYTES)
            return True
        if took_ns <= self.worst_ns:
            return larger
        took_ns = min(took_ns, *(self._time(data) for _ in range(_AGAIN)))
        if took_ns > self.target.limit_ms * 1e6:
            raise TooSlowError(f"{took_ns / 1e6:.1f} ms for {len(data)} bytes")
        slower = took_ns > self.worst_ns
        self.worst_ns = max(self.worst_ns, took_ns)
        return slower or larger

    def _time(self, data: bytes) -> int:
        begun_ns = time.thread_time_ns()
        self.target.take(data)
        return time.thread_time_ns() - begun_ns

    def _measure(self, data: bytes) -> bool:
        """Memory to the byte.

        The kernel's limit is raised so far that only what is far too much meets it.
        """
        _bound(_data_bytes() + _MEASURABLE_BYTES)
        tracemalloc.start()
        try:
            self.target.take(data)
            _, peak_bytes = tracemalloc.get_traced_memory()
        except MemoryError:
            raise TooMuchMemoryError(
                f"over {_MEASURABLE_BYTES >> 20} MiB for {len(data)} bytes"
            ) from None
        finally:
            tracemalloc.stop()
        _bound(_data_bytes() + LIMIT_BYTES)
        if peak_bytes > LIMIT_BYTES:
            raise TooMuchMemoryError(f"{peak_bytes >> 20} MiB for {len(data)} bytes")
        larger = peak_bytes > self.peak_bytes
        self.peak_bytes = max(self.peak_bytes, peak_bytes)
        return larger


def _data_bytes() -> int:
    """Private memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def _bound(limit_bytes: int) -> None:
    """Let an allocation beyond the limit fail at once, as MemoryError."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, hard))
