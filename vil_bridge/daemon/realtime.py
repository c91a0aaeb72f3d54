"""Settings of the interpreter and of the operating system for the daemon."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import Any, Final

from vil_bridge.kernel.library import description
from vil_bridge.monitoring.ptp_clocks import ptp_clocks
from vil_bridge.runtime.heap import exempt_from_collector

SWITCH_INTERVAL_S: Final = 0.0005
_COLLECT_EVERY: Final = (700, 10, 10)
"""Thresholds of the garbage collector of a running bridge.

The command line raises them until it has started.
"""


def prepare_process(fifo_priority: int) -> dict[str, Any]:
    """Short GIL slices, no collections of start-up objects, real-time scheduling.

    Says what succeeded.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    exempt_from_collector()
    gc.set_threshold(*_COLLECT_EVERY)
    facts: dict[str, Any] = {
        "switch_interval_s": sys.getswitchinterval(),
        "ptp_clocks": ptp_clocks(),
        "kernel": description(),
    }
    if fifo_priority and hasattr(os, "sched_setscheduler"):
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(fifo_priority))
            facts["scheduling"] = f"FIFO {fifo_priority}"
        except OSError as exc:
            facts["scheduling"] = f"normal (FIFO {fifo_priority} refused: {exc.strerror})"
    else:
        facts["scheduling"] = "normal"
    return facts


def exempt_from_scheduler(thread: threading.Thread) -> None:
    """Let no other program stop a thread that may hold the interpreter's lock, where ours are
    real-time ones.

    A thread of normal priority that is put aside while it holds the lock keeps the loop waiting for
    as long. The lowest real-time priority is enough; threads that it starts are normal again.
    """
    if (
        hasattr(os, "sched_setscheduler")
        and os.sched_getscheduler(0) == os.SCHED_FIFO
        and thread.native_id
    ):
        os.sched_setscheduler(
            thread.native_id,
            os.SCHED_FIFO | os.SCHED_RESET_ON_FORK,
            os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)),
        )
