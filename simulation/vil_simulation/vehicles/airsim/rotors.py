"""The rotors of an airframe as arrays.

Where they are, where they push, what they add to roll, pitch and yaw.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.matrices import dot, length, product
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.airsim.airframes import AirsimAirframe, AirsimRotor, Tilt
from vil_simulation.vehicles.disturbances import ENVIRONMENT, SEA_LEVEL_DENSITY_KGPM3


class RotorTable:
    """N rotors, K tilt servos.

    A vector fixed to a servo is, at its angle t, ``fixed + cosine cos t + sine sin t`` (Rodrigues);
    of rotors fixed to the body the latter two are 0.

    Attributes:
        positions_m, axes: (N, 3, 3), last axis body FLU, the one before fixed, cosine, sine.
        max_thrust_n, max_torque_nm, max_radps: (N,); the torque acts about the axis, positive for
            clockwise rotors.
        control_max, tau_s: (N,), largest control and its lag.
        servo: (N,) index of the servo; 0 for rotors fixed to the body.
        mixing: (N, 3), what roll, pitch and yaw demands add. Four rotors: +-1 as AirSim; else in
            proportion to the arms, so that one demand does not cause another.
        tilt_tau_s, tilt_low_rad, tilt_high_rad: (K,).
    """

    def __init__(self, airframe: AirsimAirframe) -> None:
        rotors = airframe.rotors
        tilts = airframe.tilts
        self.positions_m: Final = np.array(
            [_turning(rotor.position_m, rotor, tilts, about=True) for rotor in rotors]
        )
        self.axes: Final = np.array(
            [_turning(rotor.axis, rotor, tilts, about=False) for rotor in rotors]
        )
        thrusts_n = np.array([rotor.propeller.max_thrust_n for rotor in rotors])
        torques_nm = np.array([-rotor.spin * rotor.propeller.max_torque_nm for rotor in rotors])
        self.max_thrust_n: Final = thrusts_n * airframe.of_motors("thrust_scale")
        self.max_torque_nm: Final = torques_nm * airframe.of_motors("torque_scale")
        self.control_max: Final = airframe.of_motors("control_max")
        self.tau_s: Final = airframe.of_motors("rotor_tau_s")
        self.max_radps: Final = np.array([rotor.propeller.max_radps for rotor in rotors])
        self.servo: Final = np.array([0 if rotor.tilt is None else rotor.tilt for rotor in rotors])
        self.mixing: Final = _mixing(rotors)
        self.tilt_tau_s: Final = np.array([tilt.tau_s for tilt in tilts])
        self.tilt_low_rad: Final = np.array([tilt.low_rad for tilt in tilts])
        self.tilt_high_rad: Final = np.array([tilt.high_rad for tilt in tilts])

    def wrench(
        self, controls: FloatArray, tilts: FloatArray, around: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Force and torque (n, 3) of all rotors, body FLU.

        Args:
            controls: (n, N), 0 to 1.
            tilts: angles of the servos, (n, K).
            around: (n, 12); density and thrust factor count.
        """
        air = controls * (around[:, ENVIRONMENT["density_kgpm3"]] / SEA_LEVEL_DENSITY_KGPM3)
        angles = tilts[:, self.servo] if tilts.shape[1] else np.zeros_like(controls)
        turn = np.stack((np.ones_like(angles), np.cos(angles), np.sin(angles)), axis=2)[
            :, :, None, :
        ]
        positions, axes = (product(turn, part)[:, :, 0] for part in (self.positions_m, self.axes))
        thrust = air * around[:, ENVIRONMENT["thrust_factor"]] * self.max_thrust_n
        forces = thrust[:, :, None] * axes
        torques = cross(positions, forces) + (air * self.max_torque_nm)[:, :, None] * axes
        return forces.sum(axis=1), torques.sum(axis=1)


def _turning(
    vector: tuple[float, float, float], rotor: AirsimRotor, tilts: tuple[Tilt, ...], *, about: bool
) -> FloatArray:
    """Return fixed, cosine and sine part (3, 3) of a point (``about`` the servo's pivot) or a
    direction.
    """
    if rotor.tilt is None:
        return np.array([vector, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    tilt = tilts[rotor.tilt]
    pivot = np.asarray(tilt.pivot_m if about else (0.0, 0.0, 0.0))
    axis = np.asarray(tilt.axis) / length(np.asarray(tilt.axis))
    arm = np.asarray(vector) - pivot
    along = axis * dot(axis, arm)
    return np.array([pivot + along, arm - along, np.cross(axis, arm)])


def _mixing(rotors: tuple[AirsimRotor, ...]) -> FloatArray:
    arms = np.array([rotor.position_m[:2] for rotor in rotors]).round(9)
    if len(rotors) == 4:
        arms = np.sign(arms)
    arms = arms / np.maximum(np.abs(arms).max(axis=0), 1e-9)
    spins = [float(rotor.spin) for rotor in rotors]
    return np.column_stack((arms[:, 1], -arms[:, 0], np.negative(spins)))
