"""Lines of code that hold more and more memory: a switch to find a leak, off by default.

``VIL_TRACEMALLOC=900 vil-bridge run lab.yaml`` notes what each line of the program holds 900 s
after the start, and every 900 s from then on logs one JSON line with those that hold most more than
then. Tracing costs up to half of the speed of Python code.
"""

from __future__ import annotations

import gc
import heapq
import json
import logging
import os
import threading
import time
import tracemalloc
from typing import Any, Final

logger = logging.getLogger(__name__)

VARIABLE: Final = "VIL_TRACEMALLOC"
_STARTING: Final = 0.25
"""Share of the first period that is not traced: what a start makes stays anyway."""
_LINES: Final = 5
_OWN: Final = (tracemalloc.__file__, __file__)

Held = dict[str, tuple[int, int]]
"""Place to bytes and allocations."""


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
        logger.warning(
            "%s=%s: write seconds, such as 900; memory is not traced", VARIABLE, period_s
        )
        return
    threading.Thread(target=_watch, args=(wanted_s,), name="heap", daemon=True).start()


def held() -> Held:
    """Return bytes and allocations of each traced line now.

    A snapshot itself would hold as much again.
    """
    gc.collect()
    found = tracemalloc.take_snapshot().statistics("lineno")
    return {
        str(s.traceback): (s.size, s.count) for s in found if s.traceback[0].filename not in _OWN
    }


def growth_since(first: Held, now: Held) -> list[dict[str, Any]]:
    """Return the lines that grew most, with the growth in kB and allocations."""
    more = [
        (size - first.get(at, (0, 0))[0], count - first.get(at, (0, 0))[1], at)
        for at, (size, count) in now.items()
    ]
    return [
        {"at": at, "kb": round(1e-3 * size, 1), "count": count}
        for size, count, at in heapq.nlargest(_LINES, more)
        if size > 0
    ]


def _watch(period_s: float) -> None:
    time.sleep(_STARTING * period_s)
    tracemalloc.start()
    time.sleep((1.0 - _STARTING) * period_s)
    first = held()
    t_first_s = time.monotonic()
    while True:
        time.sleep(period_s)
        growth = {
            "since_s": round(time.monotonic() - t_first_s, 1),
            "lines": growth_since(first, held()),
        }
        logger.warning("heap growth: %s", json.dumps(growth))
