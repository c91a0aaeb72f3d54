"""``python -m tests.virtual.nightly`` runs the virtual world for one seed after another, and names
those that failed.

It ends after ``--seeds`` or ``--hours``, and says how many ran. The exit code is 1 when one failed.
Each seed runs in a process that is forked from this one, which has imported everything once.
``--planted NAME`` ends with the first seed that finds that fault.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from tests.virtual.repeatable import execute_again

_ROOT: Final = Path(__file__).resolve().parents[2]
_LIMIT_S: Final = 900
"""A run that takes longer has come to a standstill."""
_PR_SET_PDEATHSIG: Final = 1
_LOG_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class _Run:
    """A seed that runs in a process of its own, and the files in memory that its result and its
    log go to.
    """

    seed: int
    result: int
    log: int


def main() -> int:
    """Run the seeds; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run the virtual world for many seeds.")
    parser.add_argument("--first", type=int, default=1, help="seed")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of simulated time, each")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--planted", default="", help="fault of tests/virtual/planted.py")
    parser.add_argument("--json", default="", help="file for the results, a line each")
    options = parser.parse_args()
    execute_again("tests.virtual.nightly")
    monotonic_s = time.monotonic  # of the real machine
    words = ("git", "rev-parse", "--short", "HEAD")
    commit = subprocess.run(
        words, cwd=_ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    from tests.virtual.prepared import run_seed

    ends_s = monotonic_s() + 3600.0 * options.hours
    seeds = iter(range(options.first, options.first + options.seeds))
    running: dict[int, _Run] = {}
    ran = 0
    failed: list[int] = []
    used_s = 0.0
    lines: list[str] = []
    while True:
        while (
            len(running) < options.jobs
            and monotonic_s() < ends_s
            and not (options.planted and failed)
        ):
            seed = next(seeds, None)
            if seed is None:
                break
            pid, run = _fork(seed, lambda seed: run_seed(seed, options.seconds, options.planted))
            running[pid] = run
        if not running:
            break
        pid, status = os.wait()
        run = running.pop(pid)
        result = _result(run, os.waitstatus_to_exitcode(status))
        ran += 1
        lines.append(json.dumps({"seed": run.seed} | result) + "\n")
        used_s += result.get("processor_s", 0.0)
        if result["failures"]:
            failed.append(run.seed)
        for failure in result["failures"]:
            print(f"seed {run.seed} at {commit}: {failure}", flush=True)
    if options.json:
        Path(options.json).write_text("".join(lines), encoding="utf-8")
    print(
        f"{ran} of {options.seeds} seeds ran for {options.seconds:g} s each, {len(failed)} failed",
        flush=True,
    )
    print(f"each took {used_s / max(1, ran):.1f} s of a processor", flush=True)
    if failed:
        print(
            f"failed: {', '.join(map(str, sorted(failed)))}; make seed SEED=N repeats one",
            flush=True,
        )
    return int(bool(failed))


def _fork(seed: int, run: Callable[[int], dict[str, Any]]) -> tuple[int, _Run]:
    """Run a seed in a process of its own; return that process."""
    started = _Run(seed, os.memfd_create("result"), os.memfd_create("log"))
    pid = os.fork()
    if pid == 0:
        _be_a_run(started, run)
    return pid, started


def _be_a_run(started: _Run, run: Callable[[int], dict[str, Any]]) -> NoReturn:
    """Run the seed and end this process."""
    signal.alarm(_LIMIT_S)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(started.log, 2)
    try:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        os.write(started.result, json.dumps(run(started.seed)).encode())
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _result(run: _Run, exit_code: int) -> dict[str, Any]:
    """Return what a run wrote; a run that ended otherwise is a failure with the end of its log."""
    text = _content(run.result, 0)
    log = _content(run.log, max(0, os.fstat(run.log).st_size - _LOG_BYTES))
    if text:
        result: dict[str, Any] = json.loads(text)
        return result
    if exit_code == -signal.SIGALRM:
        return {"failures": [f"it did not end within {_LIMIT_S} s: {log}"]}
    return {"failures": [f"exit code {exit_code}: {log}"]}


def _content(fd: int, offset: int) -> str:
    with os.fdopen(fd, "rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
