"""The model: columns of state and commands, and equations of motion."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vil_bridge.core.geometry import cross, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT
from vil_simulation.vehicles.layout import RIGID_BODY, Field, StateLayout
from vil_simulation.vehicles.model import Model

__all__ = ["ExampleVehicle"]


class ExampleVehicle(Model):
    """A body that a force and a torque move through air."""  # TODO: name the vehicle.

    # TODO: further columns of the state, such as speeds of rotors, and the commands of each mode.
    state: StateLayout = StateLayout(*RIGID_BODY)
    commands: Mapping[str, StateLayout] = {
        "wrench": StateLayout(
            Field("force_body_n", 3, "N", "FLU"), Field("torque_body_nm", 3, "N m", "FLU")
        )
    }
    mode = "wrench"

    # TODO: the parameters; `parameters` of the configuration sets them.
    def __init__(
        self,
        *,
        mass_kg: float = 1.0,
        inertia_kgm2: tuple[float, float, float] = (0.01, 0.01, 0.01),
        drag_nspm: float = 0.5,
        damping_nmsprad: float = 0.05,
    ) -> None:
        if not min(mass_kg, *inertia_kgm2) > 0.0:
            raise ValueError(
                f"mass_kg is {mass_kg} and inertia_kgm2 {inertia_kgm2}. Set all of them above 0"
            )
        # Contacts read these two.
        self.mass_kg = mass_kg
        self.inertia_kgm2 = np.array(inertia_kgm2)
        self.drag_nspm = drag_nspm
        self.damping_nmsprad = damping_nmsprad

    def neutral(self, n: int) -> FloatArray:
        """Return commands that carry the weight of a level vehicle, (n, 6)."""
        return self.command.pack({"force_body_n": (0.0, 0.0, self.mass_kg * self.gravity_mps2)}, n)

    def derivative(self, x: FloatArray, u: FloatArray, around: FloatArray) -> FloatArray:
        """Return the time derivative of x, (n, 13)."""
        here = self.state.split(x)
        command = self.command.split(u)
        air = ENVIRONMENT.split(around)
        q_world_body = here["q_world_body"]
        w_radps = here["w_body_radps"]
        # TODO: the forces and torques of the vehicle.
        force_n = q_rotate(q_world_body, command["force_body_n"]) + air["force_world_n"]
        force_n -= self.drag_nspm * (here["v_world_mps"] - air["wind_world_mps"])
        force_n[:, 2:] -= self.mass_kg * air["gravity_mps2"]
        torque_nm = command["torque_body_nm"] + air["torque_body_nm"]
        torque_nm -= self.damping_nmsprad * w_radps
        torque_nm -= cross(w_radps, self.inertia_kgm2 * w_radps)

        rates = np.zeros_like(x)
        rates[:, self.state["p_world_m"]] = here["v_world_mps"]
        rates[:, self.state["v_world_mps"]] = force_n / self.mass_kg
        rates[:, self.state["q_world_body"]] = 0.5 * q_mul(
            q_world_body, np.pad(w_radps, ((0, 0), (0, 1)))
        )
        rates[:, self.state["w_body_radps"]] = torque_nm / self.inertia_kgm2
        return rates
