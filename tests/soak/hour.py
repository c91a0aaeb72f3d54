"""An hour in the life of a bridge: everything at work, everything going wrong, nothing growing.

``python -m tests.soak.hour --seconds 3600 --out out/soak`` runs the whole product
(:mod:`tests.soak.plant`) under random troubles (:mod:`tests.soak.troubles`), whose seed is printed
and may be given again. Samples go to ``samples.jsonl``, the judgement to ``summary.json``. Exit
code 0 = nothing grew and all counts agree; 1 = said on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import httpx

from tests.soak.books import Books, Page, balance
from tests.soak.growth import (
    LARGEST_GROWTH_MB,
    LARGEST_LINE_KB,
    LEAST_SAMPLES,
    Growth,
    Sample,
    growth,
    heap_growth,
    sampled,
)
from tests.soak.plant import FRONT_HZ, NAMES, SURVIVORS, Plant
from tests.soak.troubles import Troubles
from tests.support.common import wait_until

SETTLE_S: Final = 120.0
"""Until all works again after the last trouble."""
START_S: Final = 300.0


class Run:
    """One soak.

    Attributes:
        samples: of each survivor. problems: what went wrong.
    """

    def __init__(self, plant: Plant, seconds: float, seed: int, largest_mb: float) -> None:
        self.samples: dict[str, list[Sample]] = {name: [] for name in SURVIVORS}
        self.problems: list[str] = []
        self.troubles = Troubles(plant, seed)
        self._plant = plant
        self._seconds = seconds
        self._largest_mb = largest_mb

    async def run(self) -> dict[str, Any]:
        """Run and judge; returns the summary."""
        plant = self._plant
        async with contextlib.AsyncExitStack() as stack:
            for link in plant.links.values():
                await stack.enter_async_context(link)
            await asyncio.to_thread(self._start)
            recording = await self._record()
            pids = {name: plant.pid(name) for name in SURVIVORS}
            first = await self._page()
            await self._live(pids)
            last = await self._settled_page()
            self._still_alive(pids)
            books = balance(first, last, FRONT_HZ)
            heaps = {name: heap_growth(plant.log(name)) for name in SURVIVORS}
            ends = await asyncio.to_thread(self._end)
        return self._judged(books, heaps, ends, last, recording)

    def _start(self) -> None:
        for name in NAMES:  # one by one: a busy machine starts ten at once for minutes
            self._plant.start(name)
            self._plant.await_ready(name)
        self._wait_whole(START_S)

    def _wait_whole(self, limit_s: float) -> None:
        wait_until(lambda: not self._plant.trouble(), limit_s, self._plant.trouble, 0.1)

    async def _record(self) -> str:
        """Record all the time, where the bridge can."""
        async with httpx.AsyncClient(timeout=5.0) as client:
            url = f"http://127.0.0.1:{self._plant.http_port}/api/v1/recording"
            answer = await client.put(url, json={"name": "soak"})
            return "recording" if answer.is_success else f"not recorded: {answer.status_code}"

    async def _live(self, pids: dict[str, int]) -> None:
        """The hour."""
        begun_s = time.monotonic()
        with (self._plant.folder / "samples.jsonl").open("w") as file:
            making = asyncio.create_task(self.troubles.run())
            period_s = min(5.0, self._seconds / 60.0)
            for turn in itertools.count():
                t_s = time.monotonic() - begun_s
                if (t_s >= self._seconds and turn >= LEAST_SAMPLES) or making.done():
                    break
                await asyncio.sleep(period_s)
                tasks = await asyncio.to_thread(self._tasks)
                for name, pid in pids.items():
                    found = sampled(pid, t_s, tasks if name == "daemon" else 0)
                    if found is not None:
                        self.samples[name].append(found)
                        file.write(json.dumps({"name": name, **asdict(found)}) + "\n")
                file.flush()
            self.troubles.stop()
            await making
            self.problems += [
                f"{name}: {len(samples)} samples"
                for name, samples in self.samples.items()
                if len(samples) < LEAST_SAMPLES
            ]

    def _tasks(self) -> int:
        newest = self.samples["daemon"][-1:]
        with contextlib.suppress(OSError):  # it may be stopped right now
            return int(self._plant.get().get("process", {}).get("tasks", 0))
        return newest[0].tasks if newest else 0

    def _status(self) -> dict[str, Any]:
        """The bridge's, asked for until it answers: on a busy machine it may take its time."""
        found: dict[str, Any] = {}

        def answered() -> bool:
            with contextlib.suppress(OSError):
                found.update(self._plant.get())
            return bool(found)

        wait_until(answered, START_S, "an answer of the bridge")
        return found

    async def _page(self) -> Page:
        plant = self._plant
        status = await asyncio.to_thread(self._status)
        links = {
            f"{name} {way}": Counter(direction.counters)
            for name, link in plant.links.items()
            for way, direction in (("up", link.up), ("down", link.down))
            if link.spec.protocol
            == "udp"  # on TCP nothing is lost, and its bytes are the kernel's affair
        }
        return Page(status, await asyncio.to_thread(plant.told, "lab"), links)

    async def _settled_page(self) -> Page:
        try:
            await asyncio.to_thread(self._wait_whole, SETTLE_S)
        except AssertionError as exc:
            self.problems.append(str(exc))
        return await self._page()

    def _still_alive(self, pids: dict[str, int]) -> None:
        self.problems += [
            f"{name} ended by itself: {self._plant.log(name)[-1500:]}"
            for name, pid in pids.items()
            if not self._plant.alive(name) or self._plant.pid(name) != pid
        ]
        for name in NAMES:
            if "Traceback" in self._plant.log(name):
                self.problems.append(f"a traceback in {self._plant.folder / name}.log")

    def _end(self) -> dict[str, tuple[int, float]]:
        """Stop those that have something to say as people do; exit codes and seconds."""
        ends = {
            name: self._plant.end(name, number)
            for name, number in (
                ("daemon", signal.SIGTERM),
                ("client", signal.SIGINT),
                ("seat", signal.SIGINT),
            )
        }
        self.problems += [f"{name} ended with {code}" for name, (code, _) in ends.items() if code]
        return {name: (code, round(took_s, 1)) for name, (code, took_s) in ends.items()}

    def _judged(
        self,
        books: Books,
        heaps: dict[str, list[dict[str, Any]]],
        ends: dict[str, tuple[int, float]],
        last: Page,
        recording: str,
    ) -> dict[str, Any]:
        grown = {
            name: growth(name, samples)
            for name, samples in self.samples.items()
            if len(samples) >= LEAST_SAMPLES
        }
        self.problems += [p for g in grown.values() for p in g.problems(self._largest_mb)]
        self.problems += books.problems
        self.problems += [
            f"{name}: {line['at']} holds {line['kb']} kB more"
            for name, lines in heaps.items()
            for line in lines
            if line["kb"] > LARGEST_LINE_KB
        ]
        front = last.status["cameras"]["front"]
        return {
            "seconds": self._seconds,
            "troubles": dict(sorted(self.troubles.made.items())),
            "growth": {name: _told(g) for name, g in grown.items()},
            "heap": {name: lines[:1] for name, lines in heaps.items()},
            "books": books.entries,
            "recording": recording,
            "readers": self._plant.told("readers"),
            "dropped": {
                "front": front["dropped"],
                "stream": last.status["streams"]["front"]["dropped"],
            },
            "faults": last.status["faults"],
            "ends": ends,
            "uptime_s": round(last.status["uptime_s"]),
            "problems": self.problems,
        }


def _told(g: Growth) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rss_mb": [g.first["rss_mb"], g.last["rss_mb"]],
        "grown_mb": g.grown_mb,
    }
    return found | {
        what: [g.first[what], g.last[what]]
        for what in ("descriptors", "sockets", "threads", "tasks")
    }


@contextlib.contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    out.mkdir(parents=True, exist_ok=True)
    yield out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", type=Path, help="where logs, samples and the summary stay")
    parser.add_argument("--noise", action="store_true", help="draw noise instead of the hall")
    parser.add_argument("--trace", action="store_true", help="trace memory line by line; slow")
    parser.add_argument(
        "--largest-mb", type=float, default=LARGEST_GROWTH_MB, help="of a process's growth"
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"{options.seconds:.0f} s, seed {seed}", flush=True)
    trace_s = 0.33 * options.seconds if options.trace else 0.0
    with (
        _folder(options.out) as folder,
        Plant(folder, embedded=not options.noise, trace_s=trace_s) as plant,
    ):
        summary = asyncio.run(Run(plant, options.seconds, seed, options.largest_mb).run())
        (folder / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps({k: v for k, v in summary.items() if k != "problems"}))
    for problem in summary["problems"]:
        print(problem, file=sys.stderr)
    return 1 if summary["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
