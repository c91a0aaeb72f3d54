"""Environment of a vehicle during one step, and disturbances that change it."""

from __future__ import annotations

from typing import Final, Protocol

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.layout import Field, StateLayout

SEA_LEVEL_DENSITY_KGPM3: Final = 1.225

ENVIRONMENT: Final = StateLayout(
    Field("wind_world_mps", 3, "m/s", "velocity of the air, ENU"),
    Field(
        "force_world_n",
        3,
        "N",
        "further force at the centre of gravity, ENU: process noise, downwash, contact",
    ),
    Field("torque_body_nm", 3, "N m", "further torque, body FLU"),
    Field("density_kgpm3", 1, "kg/m^3", "of the air"),
    Field("gravity_mps2", 1, "m/s^2", "downwards"),
    Field("thrust_factor", 1, "1", "of every rotor, its torque stays: ground effect"),
)
"""Columns of the array ``around`` (n, 12), constant within a step."""


def calm(n: int, gravity_mps2: float) -> FloatArray:
    """Return still air at sea level, shape (n, 12)."""
    return ENVIRONMENT.pack(
        {
            "density_kgpm3": SEA_LEVEL_DENSITY_KGPM3,
            "gravity_mps2": gravity_mps2,
            "thrust_factor": 1.0,
        },
        n,
    )


class Disturbance(Protocol):
    """Wind, gusts, process noise, ground effect, downwash.

    Something that changes the environment of vehicles.
    """

    def apply(self, step: int, dt_s: float, x: FloatArray, around: FloatArray) -> None:
        """Add to ``around`` (n, 12), calm air or as other disturbances left it.

        Args:
            step: number of the step about to be made, from 0.
            dt_s: its length.
            x: states (n, dx) before it; not to be changed.
            around: environment (n, 12), changed in place.
        """
        ...
