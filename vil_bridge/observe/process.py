"""What this process uses, as the system counts it."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessView", "process_view"]

_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True, slots=True)
class ProcessView:
    """The daemon as a process.

    Attributes:
        rss_mb, descriptors: resident memory and open files; None where the system does not tell.
        cpu_s: used since the start, all threads.
        tasks: of the realtime loop.
    """

    pid: int
    cpu_s: float
    threads: int
    tasks: int
    rss_mb: float | None = None
    descriptors: int | None = None


def process_view(tasks: int) -> ProcessView:
    """This process now; ``tasks`` as its loop counted them."""
    try:
        rss_mb: float | None = round(int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MB, 1)
        descriptors: int | None = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        rss_mb = descriptors = None
    return ProcessView(os.getpid(), round(time.process_time(), 2), threading.active_count(), tasks, rss_mb, descriptors)
