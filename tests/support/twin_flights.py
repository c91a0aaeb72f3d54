"""A simulated "real" vehicle that is not what its pilot takes it for, tracked with noise, and
its commands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vil_bridge.core.geometry import q_exp, q_mul
from vil_bridge.interfaces.trajectory import Trajectory
from vil_bridge.world.twin.pose_series import PoseSeries
from vil_simulation.twins.rollouts import CommandLog
from vil_simulation.vehicles.control.models import tracking
from vil_simulation.vehicles.fleet import Fleet
from vil_simulation.vehicles.model import Model
from vil_simulation.vehicles.trajectories.waypoints import minimum_snap

STEPS_PER_S = 960
_LEG_S = 1.2


class TrackedFlight(NamedTuple):
    """Poses at 120 Hz and commands at 240 Hz, from the same zero."""

    poses: PoseSeries
    commands: CommandLog

    def cut(self, begin_s: float, end_s: float) -> TrackedFlight:
        """A part of the poses with all commands."""
        t_s, p_m, q = self.poses.t_s, self.poses.p_m, self.poses.q_xyzw
        rows = (t_s >= begin_s) & (t_s < end_s)
        return TrackedFlight(PoseSeries(t_s[rows], p_m[rows], q[rows]), self.commands)


def brisk_path(seed: int, seconds: float) -> Trajectory:
    """Random places of a room of 6 x 6 x 2 m, one every 1.2 s, with random headings."""
    rng = np.random.default_rng(seed)
    legs = int(seconds / _LEG_S)
    places = np.vstack(
        ([0.0, 0.0, 1.5], rng.uniform((-3.0, -3.0, 1.0), (3.0, 3.0, 3.0), (legs, 3)))
    )
    yaw_rad = np.cumsum(rng.uniform(-1.0, 1.0, legs + 1))
    return minimum_snap(places, times_s=_LEG_S * np.arange(legs + 1), yaw_rad=yaw_rad)


def fly(
    real: Model, known: Model, delay_steps: int, path: Trajectory, seconds: float, seed: int
) -> TrackedFlight:
    """Fly ``real`` with a controller for ``known``; 0.5 mm and 1 mrad of noise by axis."""
    controller = tracking(known, path)
    fleet = Fleet(real, 1, delay_s=delay_steps / STEPS_PER_S)
    fleet.place(p_world_m=(0.0, 0.0, 1.5))
    seen, obeyed = [], []
    for step in range(int(seconds * STEPS_PER_S)):
        if step % 4 == 0:
            u = controller(step / STEPS_PER_S, fleet.x)[0]
            fleet.command(u)
            obeyed.append((step / STEPS_PER_S, u))
        if step % 8 == 0:
            seen.append((step / STEPS_PER_S, fleet.x[0, :10].copy()))
        fleet.advance()
    rng = np.random.default_rng(1000 + seed)
    t_s, x = np.array([t for t, _ in seen]), np.array([row for _, row in seen])
    p_m = x[:, :3] + rng.normal(scale=5e-4, size=(len(x), 3))
    q = q_mul(x[:, 6:10], q_exp(rng.normal(scale=1e-3, size=(len(x), 3))))
    commands = CommandLog(np.array([t for t, _ in obeyed]), np.array([u for _, u in obeyed]))
    return TrackedFlight(PoseSeries(t_s, p_m, q), commands)
