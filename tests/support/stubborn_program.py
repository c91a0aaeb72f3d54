"""A program that ignores the request to end, and what it wrote: how long it was still there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

STUBBORN = """
import os, signal, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic_ns()))
print(os.getpid(), flush=True)
while True:
    time.sleep(0.01)
    if asked:
        print(asked[0], flush=True)
        asked[0] = time.monotonic_ns()
"""
"""Writes its process number, and after the request the time of that, then every 10 ms the time."""


def numbers_in(output: Path) -> list[int]:
    """Return the numbers that the program has written in whole."""
    lines = output.read_text(encoding="ascii").splitlines(keepends=True) if output.exists() else []
    return [int(line) for line in lines if line.endswith("\n")]


def most_at_once(lives_ns: Sequence[Sequence[int]]) -> int:
    """Return how many programs lived on together.

    One after another, each is gone before the next is asked.

    Args:
        lives_ns: of each program, the times that it wrote. One that stood still may have written
            none.
    """
    lives = [(times[0], times[-1]) for times in lives_ns if times]
    return max(sum(a <= t <= b for a, b in lives) for t, _ in lives)


def is_gone(pid: int) -> bool:
    """Return True once a process has ended; one whose end nothing has read counts too."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
            == "Z"
        )
    except (FileNotFoundError, ProcessLookupError):
        return True
