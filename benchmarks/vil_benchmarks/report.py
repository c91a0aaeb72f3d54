"""Benchmark results: rows with stable names, as a table or as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; ``samples`` is how many measurements are behind it."""

    name: str
    value: float | None
    unit: str
    samples: int


def percentile_row(name: str, values: Sequence[float], percent: float, unit: str) -> Row:
    """Return a percentile of measurements; no value when there are none."""
    return Row(
        name, float(np.percentile(values, percent)) if len(values) else None, unit, len(values)
    )


def ratio_row(name: str, ours: Sequence[float], reference: Sequence[float]) -> Row:
    """Return the median of ours over median of the reference, from interleaved repetitions."""
    if not len(ours) or not len(reference):
        return Row(name, None, "ratio", 0)
    return Row(name, float(np.median(ours) / np.median(reference)), "ratio", len(ours))


def as_json(bench: str, rows: Sequence[Row], machine: Mapping[str, str]) -> str:
    """Return the machine-readable form (design: benchmarks).

    ``machine`` adds to what is said of it.
    """
    about = {**_machine(), **machine}
    return json.dumps(
        {"bench": bench, "machine": about, "rows": [asdict(r) for r in rows]}, indent=2
    )


def as_table(rows: Sequence[Row]) -> str:
    """Return the form for people."""
    width = max(len(r.name) for r in rows)
    return "\n".join(
        f"{r.name:{width}}  {'-' if r.value is None else f'{r.value:10.3f}':>10} "
        f"{r.unit:6} n={r.samples}"
        for r in rows
    )


def _machine() -> dict[str, Any]:
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "load_1min": os.getloadavg()[0],
    }
