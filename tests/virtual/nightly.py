"""``python -m tests.virtual.nightly`` runs the virtual world for one seed after another, and names those that failed.

It ends after ``--seeds`` or ``--hours``, and says how many ran. The exit code is 1 when one failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[2]
_LIMIT_S: Final = 900.0
"""A run that takes longer has come to a standstill."""


def main() -> int:
    """Run the seeds; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run the virtual world for many seeds.")
    parser.add_argument("--first", type=int, default=1, help="seed")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=60.0, help="of simulated time, each")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    commit = _output("git", "rev-parse", "--short", "HEAD").strip()
    ends_s = time.monotonic() + 3600.0 * options.hours
    failed = 0
    ran = 0

    def run(seed: int) -> dict[str, Any] | None:
        return _result(seed, options.seconds) if time.monotonic() < ends_s else None

    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(run, range(options.first, options.first + options.seeds)):
            if result is None:
                continue
            ran += 1
            failed += bool(result["failures"])
            for failure in result["failures"]:
                print(f"seed {result['seed']} at {commit}: {failure}", flush=True)
    print(f"{ran} of {options.seeds} seeds ran for {options.seconds:g} s each, {failed} failed", flush=True)
    if failed:
        print("make seed SEED=N repeats one", flush=True)
    return int(failed > 0)


def _result(seed: int, seconds: float) -> dict[str, Any]:
    """Return what a run printed; a run that ended otherwise is a failure with the end of its log."""
    command = [sys.executable, "-m", "tests.virtual.run", "--seed", str(seed), "--seconds", str(seconds)]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"seed": seed, "failures": [f"it did not end within {_LIMIT_S:.0f} s"]}
    if not done.stdout.strip():
        return {"seed": seed, "failures": [f"exit code {done.returncode}: {done.stderr[-500:]}"]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _output(*words: str) -> str:
    return subprocess.run(words, cwd=_ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
