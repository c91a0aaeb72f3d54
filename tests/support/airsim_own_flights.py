"""Flights that AirSim's own code made, as records to compare with.

tests/golden/airsim/moves.csv.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.support.common import ROOT
from vil_bridge.core.types import FloatArray

_END = re.compile(r"# (.+): ([01]) after ([0-9.]+) s")


@dataclass(frozen=True)
class OwnFlight:
    """A move of AirSim.

    Its result, when it ended, and positions (n, 3), NED, at times (n,) since it began.
    """

    reached: bool
    took_s: float
    t_s: FloatArray
    p_ned_m: FloatArray


@cache
def own_flights() -> dict[str, OwnFlight]:
    """Return all of them by their names."""
    ends: dict[str, tuple[bool, float]] = {}
    rows: dict[str, list[list[float]]] = {}
    for line in (ROOT / "tests" / "golden" / "airsim" / "moves.csv").read_text().splitlines():
        found = _END.fullmatch(line)
        if found:
            name, reached, took_s = found.groups()
            ends[name] = reached == "1", float(took_s)
            rows[name] = []
        elif not line.startswith(("#", "name,")):
            *words, t_s, north_m, east_m, down_m = line.split(",")
            rows[",".join(words)].append([float(t_s), float(north_m), float(east_m), float(down_m)])
    tracks = {name: np.array(track) for name, track in rows.items()}
    return {name: OwnFlight(*ends[name], tracks[name][:, 0], tracks[name][:, 1:]) for name in ends}
