"""Autopilots for hours of simulated time.

``python -m tests.soak.autopilots px4 --simulated 10000 --out out/soak/px4``.

A strict stand-in flies a box again and again at the highest speed. At seeded moments the world
pauses, makes single steps or is slowed down; the stand-in stands still for a moment, hangs, or is
killed; the bridge is restarted. ArduPilot loses datagrams too. Exit code 0 = no violation, no
deadlock, corners within 0.10 m; 1 = said on stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final, Literal

import httpx

from tests.support.common import free_port, wait_until
from tests.support.harness import rss_mb
from tests.support.programs import Program
from tests.support.sitl import SitlBridge, counters, sitl_bridge, stand_in
from vil_simulation.sitl.options import SitlOptions

Kind = Literal["px4", "ardupilot"]

LARGEST_MB: Final = 10.0
"""Growth of a bridge, from a third of its life."""
_CORNER_M: Final = 0.10
_LOSS: Final = 3e-5
_PATIENCE_S: Final = 120.0
"""Without a step of a world that is not paused."""
_TIMEOUT_MS: Final = 5000.0
_RATE_HZ: Final = {"px4": 250, "ardupilot": 400}
_STEP_HZ: Final = {"px4": 1000, "ardupilot": 1200}
_EVENTS: Final = {"pause": 6, "steps": 6, "slow": 3, "halt": 6, "kill": 6, "hang": 1, "restart": 1}
"""Relative frequency of each."""
_LONGEST_GAP_S: Final = 40.0
_LEAST_EVENTS: Final = 5
_SHORTEST_LIFE: Final = 60
"""Tens of simulated seconds after which a bridge's memory is judged."""
_STANDS_S: Final = {"px4": 0.3, "ardupilot": 1.3}
"""A world that makes no step for so long stands: a lost datagram is sent again after 1 s."""
_SETTLED_MS: Final = 20.0
_SETTLED: Final = 10
"""Steps within which a count of them is reported."""


class AutopilotSoak:
    """One bridge and one stand-in, and what becomes of both.

    Attributes:
        events: how often each happened. problems: what went wrong. corners_m: errors at corners of
            boxes.
        grown_mb: growth of each bridge that lived for long. lost: datagrams.
    """

    def __init__(
        self, kind: Kind, folder: Path, rng: random.Random, stack: contextlib.ExitStack
    ) -> None:
        self.events = Counter[str]()
        self.problems: list[str] = []
        self.corners_m: list[float] = []
        self.grown_mb: list[float] = []
        self.lost = 0
        self._kind = kind
        self._folder = folder
        self._random = rng
        self._stack = stack
        self._port = free_port(socket.SOCK_STREAM if kind == "px4" else socket.SOCK_DGRAM)
        self._options = SitlOptions(
            program=kind,
            indoors=kind == "px4",
            speed=100.0,
            rate_hz=_RATE_HZ[kind],
            seed=rng.randrange(1000),
        )
        self._steps_before = 0
        self._open_bridge()
        self._program = self._start()

    def seconds(self) -> float:
        """Return the simulated time of all bridges."""
        return (self._steps_before + self._bridge.steps()) / _STEP_HZ[self._kind]

    def go_on(self, until_s: float) -> None:
        """Wait for simulated time. Raises AssertionError: no step for too long, or an end."""
        newest_s, changed_s = self.seconds(), time.monotonic()
        while newest_s < until_s:
            time.sleep(0.05)
            assert self._program.poll() is None, (
                f"the stand-in ended: {self._program.text()[-800:]}"
            )
            now_s = self.seconds()
            self._weigh()
            if now_s > newest_s:
                newest_s, changed_s = now_s, time.monotonic()
            stood_s = time.monotonic() - changed_s
            assert stood_s < _PATIENCE_S, (
                f"no step for {stood_s:.0f} s: {self._bridge.link(self._kind)}"
            )

    def happen(self) -> None:
        """Let one thing go wrong."""
        name = self._random.choices(list(_EVENTS), list(_EVENTS.values()))[0]
        self.events[name] += 1
        getattr(self, f"_{name}")()

    def close(self) -> None:
        """End the stand-in, and judge it."""
        if self._program.poll() is None:
            self._program.send_signal(signal.SIGCONT)
        self._end_program()
        self._grown()

    # --- what goes wrong --------------------------------------------------------------------------

    def _pause(self) -> None:
        with self._paused():
            before = self._bridge.steps()
            time.sleep(self._random.uniform(0.1, 3.0))
            if self._bridge.steps() != before:
                self.problems.append("a paused world made steps")

    def _steps(self) -> None:
        with self._paused():
            for _ in range(self._random.randrange(1, 5)):
                self._make_steps(self._random.choice((1, 2, 5, 10, 50, 200, 500)))

    def _make_steps(self, wanted: int) -> None:
        before, seconds = self._bridge.steps(), wanted / _STEP_HZ[self._kind]
        self._bridge.web.post(
            "/api/v1/simulation/step", json={"seconds": seconds}
        ).raise_for_status()
        wait_until(
            lambda: self._bridge.steps() >= before + wanted - _SETTLED, _PATIENCE_S, period_s=0.05
        )
        self._stand()
        made = self._bridge.steps() - before
        if abs(made - wanted) > _SETTLED:
            self.problems.append(f"{made} steps were made of {wanted}")

    def _slow(self) -> None:
        self._simulation(speed=self._random.choice((0.1, 0.5, 1.0, 3.0)))
        time.sleep(self._random.uniform(0.5, 3.0))
        self._simulation(speed=100.0)

    def _halt(self) -> None:
        """Stop the stand-in for less than its time-out: no effect."""
        for _ in range(self._random.randrange(1, 4)):
            self._program.send_signal(signal.SIGSTOP)
            time.sleep(self._random.uniform(0.05, 0.5))
            self._program.send_signal(signal.SIGCONT)

    def _kill(self) -> None:
        if self._random.random() < 0.5:
            self._end_program()
        self._program.kill()
        self._lose("ended" if self._kind == "px4" else "silent")

    def _hang(self) -> None:
        self._program.send_signal(signal.SIGSTOP)
        self._await_link("silent")
        self._advance_alone()
        self._program.kill()
        self._lose("ended" if self._kind == "px4" else "silent")

    def _restart(self) -> None:
        """Restart the bridge; the stand-in boots again when it finds it."""
        self._grown()
        self._steps_before += self._bridge.steps()
        self._bridge_life.close()
        self._open_bridge()
        self._await_link("running")

    # --- the processes ----------------------------------------------------------------------------

    def _lose(self, state: str) -> None:
        """Let the world go on without the killed stand-in, put the vehicle back, and start
        another.
        """
        self._await_link(state)
        self._advance_alone()
        if self._bridge.height(self._kind) > 0.5:
            self.problems.append("the vehicle does not fall")
        command = f"/api/v1/vehicles/{self._kind}/command"
        self._bridge.web.post(command, json={"action": "reset"}).raise_for_status()
        self._program = self._start()
        self._await_link("running")

    def _advance_alone(self) -> None:
        until_s = self.seconds() + 2.0
        wait_until(lambda: self.seconds() >= until_s, _PATIENCE_S, period_s=0.05)

    def _await_link(self, state: str) -> None:
        wanted = f"{self._kind} {state}"
        wait_until(
            lambda: self._bridge.link(self._kind) == wanted, _PATIENCE_S, wanted, period_s=0.05
        )

    def _open_bridge(self) -> None:
        self._bridge_life = self._stack.enter_context(contextlib.ExitStack())
        opened = sitl_bridge(self._folder, self._options, port=self._port, timeout_ms=_TIMEOUT_MS)
        self._bridge: SitlBridge = self._bridge_life.enter_context(opened)
        self._sizes_mb: list[float] = []

    def _start(self) -> Program:
        more: list[object] = ["--flight", "boxes", "--reconnect"]
        if self._kind == "ardupilot":
            more += ["--command-port", 0, "--speedup", 0, "--rate", _RATE_HZ[self._kind]]
            more += ["--loss", _LOSS, "--seed", self._random.randrange(1000)]
        return self._stack.enter_context(stand_in(self._kind, self._port, *more))

    def _end_program(self) -> None:
        self._program.send_signal(signal.SIGTERM)
        found = counters(self._program)
        if found["violation"]:
            self.problems.append(f"violation: {found['violation']}")
        self.lost += found.get("lost", 0)
        self.corners_m += found["corners_m"]
        self.problems += [
            f"a corner is {e:.3f} m away" for e in found["corners_m"] if e > _CORNER_M
        ]

    @contextlib.contextmanager
    def _paused(self) -> Any:
        self._simulation(paused=True)
        self._stand()
        yield
        self._simulation(paused=False)

    def _simulation(self, **values: object) -> None:
        self._bridge.web.patch("/api/v1/simulation", json=values).raise_for_status()

    def _stand(self) -> None:
        """Wait until the steps that were due when the world paused are made, and reported."""
        seconds = _STANDS_S[self._kind]
        wait_until(
            lambda: self._bridge.stands(seconds) and self._bridge.behind_ms() < _SETTLED_MS,
            _PATIENCE_S,
        )

    # --- memory -----------------------------------------------------------------------------------

    def _weigh(self) -> None:
        """Measure the bridge and its workers, once in ten seconds of simulated time."""
        now_s = self._bridge.steps() / _STEP_HZ[self._kind]
        if now_s > 10.0 * len(self._sizes_mb):
            size_mb = sum(map(rss_mb, self._bridge.processes()))
            self._sizes_mb += [size_mb] * (int(now_s / 10.0) + 1 - len(self._sizes_mb))

    def _grown(self) -> None:
        """Compare the memory at a third of a bridge's life with that at its end.

        Short lives say nothing.
        """
        sizes_mb = self._sizes_mb
        if len(sizes_mb) > _SHORTEST_LIFE:
            grown_mb = sizes_mb[-1] - sizes_mb[len(sizes_mb) // 3]
            self.grown_mb.append(round(grown_mb, 2))
            if grown_mb > LARGEST_MB:
                self.problems.append(f"the bridge grew by {grown_mb:.1f} MB")


def soak(kind: Kind, folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Run and judge; returns the summary with its ``problems``."""
    rng, longest_s = random.Random(seed), min(_LONGEST_GAP_S, seconds / _LEAST_EVENTS)
    begun_s, reported_s, now_s = time.monotonic(), 0.0, 0.0
    with contextlib.ExitStack() as stack:
        run = AutopilotSoak(kind, folder, rng, stack)
        try:
            while (now_s := run.seconds()) < seconds:
                if now_s >= reported_s:
                    reported_s = now_s + 100.0
                    print(
                        f"{now_s:.0f} s in {time.monotonic() - begun_s:.0f} s {dict(run.events)}",
                        flush=True,
                    )
                run.go_on(min(now_s + rng.uniform(1.0, longest_s), seconds))
                if run.seconds() < seconds:
                    run.happen()
        except (AssertionError, OSError, httpx.HTTPError) as exc:
            run.problems.append(f"after {run.events}: {exc!r}")
        except KeyboardInterrupt:
            print(f"interrupted after {now_s:.0f} s", flush=True)
        run.close()
        return {
            "simulated_s": round(now_s, 1),
            "wall_s": round(time.monotonic() - begun_s, 1),
            "events": dict(run.events),
            "lost": run.lost,
            "corners": len(run.corners_m),
            "worst_corner_m": max(run.corners_m, default=None),
            "grown_mb": run.grown_mb,
            "problems": run.problems,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("px4", "ardupilot"))
    parser.add_argument("--simulated", type=float, default=10_000.0, help="simulated seconds")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--out", type=Path, required=True, help="where the configuration and the summary stay"
    )
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"{options.kind}, {options.simulated:.0f} simulated s, seed {seed}", flush=True)
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was flown is judged
    summary = soak(options.kind, options.out.resolve(), options.simulated, seed)
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps({key: value for key, value in summary.items() if key != "problems"}))
    for problem in summary["problems"]:
        print(problem, file=sys.stderr)
    return 1 if summary["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
