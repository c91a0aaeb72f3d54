"""Which lines hold ever more memory: a switch for those who look for a leak, off unless asked for.

``VIL_TRACEMALLOC=900 vil-bridge run lab.yaml`` notes what each line of the program holds 900 s after the
start, and every 900 s from then on logs one JSON line with those that hold most more than then. Tracing
costs up to half of the speed of Python code.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import threading
import time
import tracemalloc
from typing import Any, Final

__all__ = ["growth_since", "watch_heap"]

logger = logging.getLogger(__name__)

VARIABLE: Final = "VIL_TRACEMALLOC"
_STARTING: Final = 0.25
"""Share of the first period that is not traced: what a start makes stays anyway."""
_LINES: Final = 5


def watch_heap() -> None:
    """Watch this process from a thread of its own, if the environment asks for it."""
    period_s = os.environ.get(VARIABLE, "")
    if not period_s:
        return
    try:
        wanted_s = float(period_s)
    except ValueError:
        wanted_s = 0.0
    if not 0.0 < wanted_s < threading.TIMEOUT_MAX:
        logger.warning("%s=%s: write seconds, such as 900; memory is not traced", VARIABLE, period_s)
        return
    threading.Thread(target=_watch, args=(wanted_s,), name="heap", daemon=True).start()


def growth_since(first: tracemalloc.Snapshot, now: tracemalloc.Snapshot) -> list[dict[str, Any]]:
    """The lines that hold most more than they did, with kB and allocations more."""
    own = (tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__))
    found = now.filter_traces(own).compare_to(first.filter_traces(own), "lineno")
    found.sort(key=lambda s: -s.size_diff)
    return [
        {"at": str(s.traceback), "kb": round(1e-3 * s.size_diff, 1), "count": s.count_diff}
        for s in found[:_LINES]
        if s.size_diff > 0
    ]


def _watch(period_s: float) -> None:
    time.sleep(_STARTING * period_s)
    tracemalloc.start()
    time.sleep((1.0 - _STARTING) * period_s)
    first, t_first_s = _picture(), time.monotonic()
    while True:
        time.sleep(period_s)
        told = {"since_s": round(time.monotonic() - t_first_s, 1), "lines": growth_since(first, _picture())}
        logger.warning("heap growth: %s", json.dumps(told))


def _picture() -> tracemalloc.Snapshot:
    gc.collect()
    return tracemalloc.take_snapshot()
