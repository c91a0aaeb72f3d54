"""Methods of the gains of AirSim's flight controller, simple_flight.

microsoft/AirSim, SimpleFlightApi.hpp.
"""

from __future__ import annotations

from vil_bridge.interfaces.vehicle_commands import GainsCommand
from vil_bridge.interfaces.vehicle_moves import Loop, LoopGains
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.values import AxisGains
from vil_simulation.airsim.vehicles import ServedVehicles


class ControllerMethods:
    """Gains of a vehicle's loops along three axes: proportional, integral and derivative ones."""

    def __init__(self, vehicles: ServedVehicles) -> None:
        self._vehicles = vehicles

    @method("setAngleRateControllerGains")
    async def set_rate_gains(
        self, kp: AxisGains, ki: AxisGains, kd: AxisGains, vehicle_name: str = ""
    ) -> None:
        """Set gains from rates to rotors: roll, pitch, yaw."""
        self._set(vehicle_name, "rate", LoopGains(kp, ki, kd))

    @method("setAngleLevelControllerGains")
    async def set_angle_gains(
        self, kp: AxisGains, ki: AxisGains, kd: AxisGains, vehicle_name: str = ""
    ) -> None:
        """Set gains from angles to rates: roll, pitch, yaw."""
        self._set(vehicle_name, "angle", LoopGains(kp, ki, kd))

    @method("setVelocityControllerGains")
    async def set_velocity_gains(
        self, kp: AxisGains, ki: AxisGains, kd: AxisGains, vehicle_name: str = ""
    ) -> None:
        """Set gains from velocities to angles and throttle: ahead, to the right, down."""
        self._set(vehicle_name, "velocity", LoopGains(kp, ki, kd))

    @method("setPositionControllerGains")
    async def set_position_gains(
        self, kp: AxisGains, ki: AxisGains, kd: AxisGains, vehicle_name: str = ""
    ) -> None:
        """Set gains from positions to velocities: north, east, down."""
        self._set(vehicle_name, "position", LoopGains(_enu(kp), _enu(ki), _enu(kd)))

    def _set(self, vehicle_name: str, loop: Loop, gains: LoopGains) -> None:
        _, subject = self._vehicles.commanded(vehicle_name)
        self._vehicles.bus.send(subject, GainsCommand(loop, gains))


def _enu(gains: AxisGains) -> AxisGains:
    north, east, down = gains
    return east, north, down
