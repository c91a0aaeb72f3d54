"""Methods of cars: throttle, steering and brake in, speed and gear out."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_conj, q_rotate
from vil_bridge.interfaces.vehicle_commands import VehicleCommand
from vil_simulation.airsim.methods import NoSuchVehicle, method
from vil_simulation.airsim.values import CarControls, CarState
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles, kinematics_of

_FASTEST_MPS: Final = 20.0
"""Speed at full throttle; the model's own limit (BicycleParameters)."""
_BACKWARDS_MPS: Final = 3.0
_STEERING_RAD: Final = 0.6
_ROLLS_MPS: Final = 0.01
_MOST_RPM: Final = 7500.0
_RPM_PER_MPS: Final = 300.0
_GEAR_MPS: Final = 6.0
_GEARS: Final = 5


class CarMethods:
    """Cars of the simulation.

    The model follows a speed: throttle sets its share of the highest one, brakes let it fall to
    zero.
    """

    def __init__(self, vehicles: ServedVehicles) -> None:
        self._vehicles = vehicles
        self._controls: dict[str, CarControls] = {}

    def release_controls(self) -> None:
        """Drop the controls of every car, as ``reset`` does."""
        self._controls.clear()

    @method("setCarControls")
    def set_controls(self, controls: CarControls, vehicle_name: str = "") -> None:
        """Drive a car until the next call."""
        vehicle, subject = self._car(vehicle_name)
        self._controls[vehicle.name] = controls
        steering_rad = -_STEERING_RAD * max(-1.0, min(1.0, controls.steering))
        values = (_speed(controls), steering_rad)
        self._vehicles.bus.send(subject, VehicleCommand("fly", "speed", values))

    @method("getCarControls")
    def controls(self, vehicle_name: str = "") -> CarControls:
        """Return the controls of the last call."""
        vehicle, _ = self._car(vehicle_name)
        return self._controls.get(vehicle.name, CarControls())

    @method("getCarState")
    def state(self, vehicle_name: str = "") -> CarState:
        """Return speed and motion of a car."""
        vehicle, _ = self._car(vehicle_name)
        motion = self._vehicles.motion(vehicle)
        speed_mps = float(q_rotate(q_conj(motion.T_world_body.q_xyzw), motion.v_world_mps)[0])
        controls = self._controls.get(vehicle.name, CarControls())
        return CarState(
            speed=speed_mps,
            gear=_gear(speed_mps),
            rpm=min(_MOST_RPM, _RPM_PER_MPS * abs(speed_mps)),
            maxrpm=_MOST_RPM,
            handbrake=controls.handbrake,
            kinematics_estimated=kinematics_of(motion, vehicle.origin_m),
            timestamp=self._vehicles.utc_ns(motion.t_ns),
        )

    def _car(self, name: str) -> tuple[ServedVehicle, str]:
        vehicle, subject = self._vehicles.commanded(name)
        if vehicle.kind != "car":
            raise NoSuchVehicle(
                f"Vehicle API for '{vehicle.name}' is not available: it is a "
                f"{vehicle.kind}, not a car"
            )
        return vehicle, subject


def _speed(controls: CarControls) -> float:
    """Return the speed that controls ask for, m/s.

    Reverse is a negative throttle in the manual gear -1.
    """
    if controls.brake > 0.0 or controls.handbrake:
        return 0.0
    throttle = float(np.clip(controls.throttle, -1.0, 1.0))
    backwards = throttle < 0.0 or (controls.is_manual_gear and controls.manual_gear < 0)
    return -_BACKWARDS_MPS * abs(throttle) if backwards else _FASTEST_MPS * throttle


def _gear(speed_mps: float) -> int:
    """Return the gear of an automatic box: -1 backwards, 0 at rest."""
    if speed_mps < -_ROLLS_MPS:
        return -1
    return 0 if speed_mps < _ROLLS_MPS else min(_GEARS, 1 + int(speed_mps / _GEAR_MPS))
