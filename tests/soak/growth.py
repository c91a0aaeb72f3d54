"""Memory, descriptors and threads of processes over time, and their growth."""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.harness import rss_mb

LARGEST_GROWTH_MB: Final = 5.0
LARGEST_LINE_KB: Final = 200.0
LEAST_SAMPLES: Final = 24
"""Four in each of the two windows of :func:`growth`."""
COUNTED: Final = ("descriptors", "sockets", "threads", "tasks")
SLACK: Final = 2
"""A page that is just being asked for, a connection that is just being opened again."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at a time. ``tasks`` are those of the daemon's realtime loop, 0 for the others."""

    t_s: float
    rss_mb: float
    descriptors: int
    sockets: int
    threads: int
    cpu_s: float
    tasks: int = 0


def sampled(pid: int, t_s: float, tasks: int = 0) -> Sample | None:
    """Return the sample of a process now; None when it is gone."""
    with contextlib.suppress(OSError, ValueError):
        links = list(_links(Path(f"/proc/{pid}/fd")))
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        sockets = sum(link.startswith("socket:") for link in links)
        return Sample(
            round(t_s, 1),
            round(rss_mb(pid), 2),
            len(links),
            sockets,
            int(stat[17]),
            (int(stat[11]) + int(stat[12])) / 100,
            tasks,
        )
    return None


def _links(folder: Path) -> Iterator[str]:
    """Yield what the descriptors of a process lead to.

    One that is closed on the way is left out.
    """
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(entry.readlink())


@dataclass(frozen=True, slots=True)
class Growth:
    """A process at the beginning and at the end of a run: medians of two windows."""

    name: str
    first: dict[str, float]
    last: dict[str, float]

    @property
    def grown_mb(self) -> float:
        return round(self.last["rss_mb"] - self.first["rss_mb"], 2)

    def problems(self, largest_mb: float, counted: Sequence[str] = COUNTED) -> Iterator[str]:
        """Yield what grew, as sentences.

        Args:
            largest_mb: growth of the resident memory that is none.
            counted: what else must not grow.
        """
        if self.grown_mb > largest_mb:
            yield f"{self.name}: resident memory grew by {self.grown_mb} MB"
        for what in counted:
            if self.last[what] > self.first[what] + SLACK:
                yield (
                    f"{self.name}: {what} grew from {self.first[what]:.0f} to {self.last[what]:.0f}"
                )


def growth(name: str, samples: Sequence[Sample]) -> Growth:
    """Compare a sixth of the samples, after a warm-up of a quarter, with the last sixth.

    Of an hour that is sampled evenly these are the minutes 15 to 25 and the last ten. Shares of the
    samples, not of the time: a busy computer may take none for seconds.

    Raises:
        ValueError: fewer than ``LEAST_SAMPLES``.
    """
    count = len(samples)
    if count < LEAST_SAMPLES:
        raise ValueError(f"{name}: {count} samples, at least {LEAST_SAMPLES} are needed")
    first = samples[round(count / 4) : round(count * 5 / 12)]
    last = samples[round(count * 5 / 6) :]
    return Growth(name, _medians(first), _medians(last))


def _medians(samples: Sequence[Sample]) -> dict[str, float]:
    rows = [asdict(s) for s in samples]
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def heap_growth(log: str) -> list[dict[str, Any]]:
    """The last report of ``VIL_TRACEMALLOC`` in a log.

    The lines that hold most more than at first.
    """
    reports = [
        line.partition("heap growth: ")[2] for line in log.splitlines() if "heap growth: " in line
    ]
    if not reports:
        return []
    lines: list[dict[str, Any]] = json.loads(reports[-1])["lines"]
    return lines
