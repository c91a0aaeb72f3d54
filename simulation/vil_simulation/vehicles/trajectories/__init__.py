"""Trajectories: position and yaw with their derivatives, over time."""

from vil_bridge.interfaces.trajectory import Polynomials, Reference, Trajectory
from vil_simulation.vehicles.trajectories.composed import (
    Concatenated,
    Retimed,
    Transformed,
    WithHeading,
    hover,
    slowed,
)
from vil_simulation.vehicles.trajectories.curves import circle, lemniscate
from vil_simulation.vehicles.trajectories.lines import line, polyline
from vil_simulation.vehicles.trajectories.table import Table
from vil_simulation.vehicles.trajectories.waypoints import minimum_jerk, minimum_snap

__all__ = [
    "Concatenated",
    "Polynomials",
    "Reference",
    "Retimed",
    "Table",
    "Trajectory",
    "Transformed",
    "WithHeading",
    "circle",
    "hover",
    "lemniscate",
    "line",
    "minimum_jerk",
    "minimum_snap",
    "polyline",
    "slowed",
]
