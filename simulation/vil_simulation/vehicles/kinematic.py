"""A body without mass that has the commanded twist: for cameras that programs place."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vil_bridge.core.geometry import q_exp, q_mul, q_normalize
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.layout import RIGID_BODY, Field, StateLayout
from vil_simulation.vehicles.model import Model


class KinematicBody(Model):
    """A rigid body with the commanded twist; it stays where it is without a command.

    Forces and wind leave it alone.
    """

    state: StateLayout = StateLayout(*RIGID_BODY)
    commands: Mapping[str, StateLayout] = {
        "twist": StateLayout(
            Field("v_world_mps", 3, "m/s", "ENU"), Field("w_body_radps", 3, "rad/s", "FLU")
        )
    }
    mode = "twist"

    def derivative(
        self,
        x: FloatArray,
        u: FloatArray,
        around: FloatArray,  # noqa: ARG002
    ) -> FloatArray:
        """Return the time derivative of x, (n, 13)."""
        rates = np.zeros_like(x)
        rates[:, 0:3] = u[:, 0:3]
        spin = np.concatenate((u[:, 3:6], np.zeros((len(u), 1))), axis=1)
        rates[:, 6:10] = 0.5 * q_mul(x[:, 6:10], spin)
        return rates

    def step(
        self,
        x: FloatArray,
        u: FloatArray,
        around: FloatArray,  # noqa: ARG002
        dt_s: float,
    ) -> FloatArray:
        """Return states one step later, (n, 13): exact for the twist held."""
        moved = x.copy()
        moved[:, 0:3] += dt_s * u[:, 0:3]
        moved[:, 3:6] = u[:, 0:3]
        moved[:, 6:10] = q_normalize(q_mul(x[:, 6:10], q_exp(dt_s * u[:, 3:6])))
        moved[:, 10:13] = u[:, 3:6]
        return moved
