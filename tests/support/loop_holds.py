"""Longest steps of a loop.

``python -m tests.support.loop_holds ARGUMENTS`` runs ``vil-bridge`` and measures.

Each line on its standard input asks for the longest steps since the last one: JSON, milliseconds of
processor time of the loop's thread, with what ran. A step is what the loop runs before it looks at
anything else.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import sys
import threading
import time
from typing import Any, Final

_KEPT: Final = 20
_LONG_S: Final = 0.001


class LoopHolds:
    """The longest steps of the loop of this process."""

    def __init__(self) -> None:
        self._run = asyncio.events.Handle._run
        self._steps: list[tuple[float, int, str]] = []
        self._count = 0
        self._over = 0
        self._spent_s = 0.0
        self._collecting_s = 0.0
        self._collections: list[float] = []

    def install(self) -> None:
        """Measure every step from now on."""
        asyncio.events.Handle._run = self._measured()  # type: ignore[method-assign]
        gc.callbacks.append(self._on_collection)

    def report(self) -> dict[str, Any]:
        """Return the longest steps since the last report, their number, and the time of all."""
        steps = self._steps
        self._steps = []
        count = self._count
        self._count = 0
        spent_s = self._spent_s
        self._spent_s = 0.0
        over = self._over
        self._over = 0
        longest = [[round(1e3 * cpu_s, 3), what] for cpu_s, _, what in sorted(steps, reverse=True)]
        collections = self._collections
        self._collections = []
        collected = [round(1e3 * cpu_s, 3) for cpu_s in sorted(collections)[-3:]]
        return {
            "collections_ms": collected,
            "longest_ms": longest,
            "steps": count,
            "over_1_ms": over,
            "spent_s": round(spent_s, 3),
        }

    def _measured(self) -> Any:
        run = self._run
        cpu_s = time.thread_time

        def measured(handle: asyncio.Handle) -> None:
            begun_s = cpu_s()
            run(handle)
            self._note(cpu_s() - begun_s, handle)

        return measured

    def _on_collection(self, phase: str, _info: dict[str, int]) -> None:
        """Note how long the garbage collector takes, in whatever thread."""
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            self._collections.append(time.thread_time() - self._collecting_s)

    def _note(self, spent_s: float, handle: asyncio.Handle) -> None:
        self._count += 1
        self._over += spent_s > _LONG_S
        self._spent_s += spent_s
        if len(self._steps) < _KEPT or spent_s > self._steps[0][0]:
            heapq.heappush(self._steps, (spent_s, self._count, repr(handle)[:200]))
            if len(self._steps) > _KEPT:
                heapq.heappop(self._steps)


def _answer(holds: LoopHolds) -> None:
    for _ in sys.stdin:
        print("holds " + json.dumps(holds.report()), flush=True)


def main() -> None:
    """Run the command line of the bridge."""
    holds = LoopHolds()
    holds.install()
    threading.Thread(target=_answer, args=(holds,), daemon=True).start()
    from vil_bridge.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
