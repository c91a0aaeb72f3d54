"""The model of a multicopter that a controller has: mass, inertia, abilities of the rotors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.matrices import product, right_inverse
from vil_bridge.core.types import FloatArray

_NO_DRAG: Final = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class RotorAirframe:
    """A rigid body with rotors that push along body z.

    Attributes:
        mass_kg: all of it.
        inertia_kgm2: (3, 3), about the centre of gravity, body FLU.
        effects: (4, rotors): thrust along body z, and torque about x, y, z, of each rotor's unit.
        least, most: of each rotor, in its unit: newton, or whatever the model is commanded in that
            thrust is proportional to.
        gravity_mps2: downwards.
        drag_linear_nspm: (3,), force -d v per body axis (Faessler et al. 2018).
        drag_quadratic_ns2pm2: force -d |v| v, the same in all directions.
        shares: (rotors, 4), of the rotors' units for 1 N or 1 N m of each effect.

    Raises:
        ValueError: shapes that do not fit, a mass or range of thrust that is not positive, or
            rotors that cannot make thrust and the three torques independently.
    """

    mass_kg: float
    inertia_kgm2: FloatArray
    effects: FloatArray
    least: float
    most: float
    gravity_mps2: float = 9.81
    drag_linear_nspm: npt.ArrayLike = _NO_DRAG
    drag_quadratic_ns2pm2: float = 0.0
    shares: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        if self.inertia_kgm2.shape != (3, 3) or self.effects.ndim != 2 or len(self.effects) != 4:
            raise ValueError(
                "wanted inertia (3, 3) and effects (4, rotors), got "
                f"{self.inertia_kgm2.shape}, {self.effects.shape}"
            )
        if not (self.mass_kg > 0.0 and self.least < self.most):
            raise ValueError("the mass must be positive, and `least` less than `most`")
        if np.linalg.matrix_rank(self.effects) < 4:
            raise ValueError("these rotors cannot make thrust and three torques independently")
        object.__setattr__(self, "shares", right_inverse(self.effects))

    @property
    def rotors(self) -> int:
        """The number of rotors."""
        return int(self.effects.shape[1])

    def thrusts(self, thrust_n: FloatArray, torque_body_nm: FloatArray) -> FloatArray:
        """Return each rotor's command, (n, rotors), for thrust (n,) and torque (n, 3).

        Limits not regarded.
        """
        thrusts: FloatArray = product(np.column_stack((thrust_n, torque_body_nm)), self.shares.T)
        return thrusts

    def within_limits(self, thrust_n: FloatArray, torque_body_nm: FloatArray) -> FloatArray:
        """Return :meth:`thrusts` where they are within the rotors' limits, else the nearest
        feasible ones.

        Where they do not, yaw gives way first, then the collective thrust, roll and pitch last
        (Faessler, Falanga and Scaramuzza 2017, section IV).
        """
        tilt = product(torque_body_nm[:, :2], self.shares[:, 1:3].T)
        spread = np.maximum(np.ptp(tilt, axis=1), _TINY)
        tilt *= np.minimum(1.0, (self.most - self.least) / spread)[:, None]
        wanted = thrust_n[:, None] * self.shares[:, 0] + tilt
        lift = np.maximum(self.least - wanted.min(axis=1), 0.0)
        drop = np.maximum(wanted.max(axis=1) - self.most, 0.0)
        wanted = np.clip(wanted + (lift - drop)[:, None], self.least, self.most)
        turn = torque_body_nm[:, 2:] * self.shares[:, 3]
        room = np.where(turn > 0.0, self.most - wanted, wanted - self.least) / np.maximum(
            np.abs(turn), _TINY
        )
        within: FloatArray = wanted + turn * np.minimum(1.0, room.min(axis=1))[:, None]
        return within


_TINY: Final = 1e-12
