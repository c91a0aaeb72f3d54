"""Methods of AirSim's drone racing lab that fly splines (AirSim-Drone-Racing-Lab, client 1.0)."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.vehicle_moves import MOST_SPLINE_POINTS, SplineMove, TrackerGains
from vil_simulation.airsim.flight_methods import FlightMethods
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import Duration, MetresPerSecond, MetresPerSecond2, Share
from vil_simulation.airsim.values import Points, TrackerGainList, Vector3r, Velocities
from vil_simulation.airsim.vehicles import ServedVehicles

_DEFAULTS: Final = (7.5, 5.0, 0.4, 0.04, 2.0)
"""The lab's gains of: cross track, its speed, along track, its speed, height."""


class SplineMethods:
    """Splines through points.

    Each begins with the vehicle's own motion, whatever constraints a call asks for.
    """

    def __init__(self, vehicles: ServedVehicles, flight: FlightMethods) -> None:
        self._vehicles = vehicles
        self._flight = flight
        self._gains: dict[str, TrackerGains] = {}

    @method("moveOnSpline")
    async def move_on_spline(
        self,
        waypoints: Points,
        add_position_constraint: bool = True,  # noqa: ARG002
        add_velocity_constraint: bool = True,  # noqa: ARG002
        add_acceleration_constraint: bool = True,  # noqa: ARG002
        vel_max: MetresPerSecond = 15.0,
        acc_max: MetresPerSecond2 = 7.5,
        viz_traj: bool = True,  # noqa: ARG002
        viz_traj_color_rgba: list[Share] = [],  # noqa: ARG002, B006
        replan_from_lookahead: bool = True,  # noqa: ARG002
        replan_lookahead_sec: Duration = 1.0,  # noqa: ARG002
        vehicle_name: str = "",
    ) -> bool:
        """Fly a smooth curve through points and stop at the last one."""
        return await self._fly(vehicle_name, waypoints, np.zeros((0, 3)), vel_max, acc_max)

    @method("moveOnSplineVelConstraints")
    async def move_on_spline_with_velocities(
        self,
        waypoints: Points,
        velocities: Velocities,
        add_position_constraint: bool = True,  # noqa: ARG002
        add_velocity_constraint: bool = True,  # noqa: ARG002
        add_acceleration_constraint: bool = True,  # noqa: ARG002
        vel_max: MetresPerSecond = 15.0,
        acc_max: MetresPerSecond2 = 7.5,
        viz_traj: bool = True,  # noqa: ARG002
        viz_traj_color_rgba: list[Share] = [],  # noqa: ARG002, B006
        replan_from_lookahead: bool = True,  # noqa: ARG002
        replan_lookahead_sec: Duration = 1.0,  # noqa: ARG002
        vehicle_name: str = "",
    ) -> bool:
        """Fly a smooth curve through points, with a velocity at each."""
        return await self._fly(vehicle_name, waypoints, velocities, vel_max, acc_max)

    @method("setTrajectoryTrackerGains")
    def set_tracker_gains(self, gains: TrackerGainList, vehicle_name: str = "") -> None:
        """Change how later splines are followed: the lab's gains count relative to its defaults."""
        _, subject = self._vehicles.commanded(vehicle_name)
        factors = (gain / default for gain, default in zip(gains[::2], _DEFAULTS, strict=False))
        self._gains[subject] = TrackerGains(*factors)

    async def _fly(
        self,
        name: str,
        waypoints: FloatArray,
        v_ned: FloatArray,
        speed_mps: float,
        most_mps2: float,
    ) -> bool:
        vehicle, subject = self._vehicles.commanded(name)
        most = max(len(waypoints), len(v_ned))
        if most > MOST_SPLINE_POINTS:
            raise ValueError(
                f"a spline has at most {MOST_SPLINE_POINTS} points, not {most}: fly it in parts"
            )
        points_m = tuple(self._flight.points(vehicle, waypoints))
        v_mps = tuple(self._flight.in_room(vehicle, Vector3r(*v)) for v in v_ned.tolist())
        gains = self._gains.get(subject, TrackerGains())
        return await self._flight.fly(
            name, SplineMove(points_m, speed_mps, most_mps2, v_mps, gains)
        )
