"""Methods of a remote control.

Its sticks, and moves that follow them (microsoft/AirSim, MultirotorApiBase.cpp).
"""

from __future__ import annotations

from typing import Final

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.interfaces.vehicle_commands import MoveCommand, SticksCommand
from vil_bridge.interfaces.vehicle_moves import (
    AttitudeMove,
    ManualMove,
    MoveEnd,
    StickPositions,
    YawGoal,
)
from vil_simulation.airsim.flight_methods import FlightMethods, yaw_goal
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import Duration, StickScale
from vil_simulation.airsim.values import RCData, YawMode
from vil_simulation.airsim.vehicles import ServedVehicles
from vil_simulation.vehicles.airsim.simple_flight import FOREVER_S, SimpleFlight

_FULL: Final = 1e4
"""Stick for which AirSim's manual move reaches its limits."""
_LASTS_NS: Final = 100 * NS_PER_MS
"""Age at which sticks with a time stamp are ignored."""
_LATEST_NS: Final = 1 << 62


class RemoteMethods:
    """Remote controls.

    Their sticks fly a vehicle that no program commands, and move it during a manual move.

    Args:
        flight: knows who commands a vehicle, and waits for moves.
    """

    def __init__(self, vehicles: ServedVehicles, flight: FlightMethods) -> None:
        self._vehicles = vehicles
        self._flight = flight
        self._held: set[str] = set()

    def release_sticks(self) -> None:
        """Turn every remote control off, as ``reset`` does."""
        for subject in self._held:
            self._vehicles.bus.send(subject, SticksCommand(None))
        self._held.clear()

    @method("moveByRC")
    async def move_by_rc(self, rcdata: RCData, vehicle_name: str = "") -> None:
        """Set the sticks.

        Without API control they are angles, a yaw rate and the throttle until the next ones.
        """
        vehicle, subject = self._vehicles.commanded(vehicle_name)
        bus = self._vehicles.bus
        sticks: StickPositions | None = None
        if rcdata.is_valid:
            sticks = StickPositions(rcdata.roll, rcdata.pitch, rcdata.throttle, rcdata.yaw)
        until_ns: int | None = None
        if rcdata.timestamp:
            until_ns = rcdata.timestamp - self._vehicles.utc_ns(0) + _LASTS_NS
        if until_ns is not None and not 0 <= until_ns <= _LATEST_NS:
            raise ValueError(
                f"the time stamp {rcdata.timestamp} is not one of the simulation's clock; 0 = now"
            )
        bus.send(subject, SticksCommand(sticks, until_ns))
        self._held.add(subject)
        if sticks is not None and not self._flight.commands(vehicle.name):
            bus.send(subject, MoveCommand(_angles(sticks), _ignore))

    @method("moveByManual")
    async def move_by_manual(
        self,
        vx_max: StickScale,
        vy_max: StickScale,
        z_min: StickScale,
        duration: Duration,
        drivetrain: int,
        yaw_mode: YawMode,
        vehicle_name: str = "",
    ) -> bool:
        """Fly as the sticks say.

        A share of the largest velocities, and of the height above the vehicle.
        """
        yaw = yaw_goal(self._vehicles.find(vehicle_name), yaw_mode, drivetrain)
        move = ManualMove(vy_max / _FULL, vx_max / _FULL, -z_min / _FULL, duration, yaw)
        return await self._flight.fly(vehicle_name, move)


def _angles(sticks: StickPositions) -> AttitudeMove:
    limits = SimpleFlight()
    roll = limits.max_angle_rad * sticks.roll
    pitch = limits.max_angle_rad * sticks.pitch
    throttle = min(max(sticks.throttle, 0.0), 1.0)
    return AttitudeMove(
        roll, pitch, YawGoal(-limits.max_rate_radps * sticks.yaw), FOREVER_S, throttle=throttle
    )


def _ignore(_end: MoveEnd) -> None:
    """Take the end of a move that no call waits for."""
