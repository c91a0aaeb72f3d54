"""Planned flights as files: samples as CSV, or waypoints and samples as JSON.

World ENU, metres, seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_simulation.planning.smoothing import PlannedFlight

COLUMNS: Final = (
    "t_s",
    "x_m",
    "y_m",
    "z_m",
    "vx_mps",
    "vy_mps",
    "vz_mps",
    "ax_mps2",
    "ay_mps2",
    "az_mps2",
    "yaw_rad",
)
_RATE_HZ: Final = 20.0


def check_flight_file(path: Path) -> None:
    """Check the suffix of a file before the work begins.

    Raises:
        ConfigError: it is neither ``.csv`` nor ``.json``.
    """
    if path.suffix not in (".csv", ".json"):
        raise ConfigError(
            f"{path}: a flight is written as .csv or .json, choose one of these suffixes"
        )


def write_flight(path: Path, flight: PlannedFlight) -> None:
    """Write a flight as its suffix says: ``.csv`` or ``.json``.

    Raises:
        ConfigError: another suffix.
        OSError: it cannot be written.
    """
    check_flight_file(path)
    rows = _samples(flight)
    if path.suffix == ".csv":
        lines = [",".join(COLUMNS), *map(_csv_line, rows.tolist())]
        path.write_text("\n".join(lines) + "\n")
        return
    content = {
        "frame": "ENU",
        "smooth": flight.smooth,
        "duration_s": flight.trajectory.duration_s,
        "waypoints_m": flight.waypoints_m.round(6).tolist(),
        "columns": COLUMNS,
        "samples": rows.round(6).tolist(),
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def _csv_line(row: list[float]) -> str:
    return ",".join(f"{value:.6g}" for value in row)


def _samples(flight: PlannedFlight) -> FloatArray:
    """Return rows (n, 11) at 20 Hz, the end included."""
    end_s = flight.trajectory.duration_s
    times = np.append(np.arange(0.0, end_s, 1.0 / _RATE_HZ), end_s)
    found = flight.trajectory.at(times)
    return np.column_stack(
        (times, found.p_world_m, found.v_world_mps, found.a_world_mps2, found.yaw_rad)
    )
