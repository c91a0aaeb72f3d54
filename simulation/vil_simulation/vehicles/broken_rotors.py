"""Rotors that have lost a part of their blades."""

from __future__ import annotations

from typing import Final

from vil_bridge.core.geometry import cross, q_rotate
from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.layout import RIGID_BODY, StateLayout
from vil_simulation.vehicles.model import Model

_Q: Final = StateLayout(*RIGID_BODY)["q_world_body"]
_FORCE = ENVIRONMENT["force_world_n"]
_TORQUE = ENVIRONMENT["torque_body_nm"]


class BrokenRotors:
    """Rotors that lose a share of thrust and torque at any speed.

    The last of a fleet's disturbances.

    What is lost in a step is that at the step's beginning.

    Args:
        model: of the vehicles; states the places of its rotors.
        lost_shares: (n, rotors), 0 to 1, read at every step.
    """

    def __init__(self, model: Model, lost_shares: FloatArray) -> None:
        self._model = model
        self._lost_shares = lost_shares
        hubs_m, self._axes = model.rotor_places()
        self._levers_m = cross(hubs_m, self._axes)

    # The port.
    def apply(
        self,
        step: int,  # noqa: ARG002
        dt_s: float,  # noqa: ARG002
        x: FloatArray,
        around: FloatArray,
    ) -> None:
        """Add the opposite of what is lost."""
        outputs = self._model.rotor_outputs(x, around)
        thrusts = self._lost_shares * outputs[:, :, 0]
        torques = self._lost_shares * outputs[:, :, 1]
        around[:, _FORCE] -= q_rotate(x[:, _Q], product(thrusts, self._axes))
        around[:, _TORQUE] -= product(thrusts, self._levers_m) + product(torques, self._axes)
