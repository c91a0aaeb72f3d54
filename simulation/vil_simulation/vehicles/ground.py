"""Level ground under vehicles, which stops their origins."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.contact import (
    Collider,
    WorldContact,
    collide,
    contact_kernel,
    grounded_column,
)
from vil_simulation.vehicles.layout import StateLayout

_SPIN_FACTOR: Final = 0.9
"""Share of the body rates that a step on the ground leaves, as AirSim has it."""
_ROUNDING_M: Final = 1e-12
_UP: Final = np.array([0.0, 0.0, 1.0])


class Ground:
    """Level ground on which upright vehicles land; others bounce and come to rest.

    Args:
        height_m: of the ground. body: mass and surface of every vehicle. layout: of their states.
        compiled: with numba where it is installed; False = the reference of NumPy.
    """

    def __init__(
        self, height_m: float, body: Collider, layout: StateLayout, *, compiled: bool = True
    ) -> None:
        self.height_m: Final = height_m
        self._body = body
        self._packed = body.packed()
        self._layout = layout
        self._kernel = contact_kernel(layout) if compiled else None
        self._lowest_m = height_m - _ROUNDING_M

    def lift(
        self, x: FloatArray, active: BoolArray, levels_rad: float = math.inf
    ) -> npt.NDArray[np.int64]:
        """Lift active vehicles that are below the ground, in place; return which.

        Those that land turn level by at most ``levels_rad``, see
        :func:`~vil_simulation.vehicles.contact.collide`.
        """
        if self._kernel is not None:
            rows = np.empty(len(x), np.int64)
            surface = grounded_column(self._layout), self._packed, _SPIN_FACTOR, levels_rad
            count = self._kernel.lift(x, active, self.height_m, self._lowest_m, *surface, rows)
            found: npt.NDArray[np.int64] = rows[:count]
            return found
        layout = self._layout
        below = np.flatnonzero(active & (x[:, layout["p_world_m"].start + 2] < self._lowest_m))
        if len(below):
            p = x[below, layout["p_world_m"]]
            contact = WorldContact(p, np.broadcast_to(_UP, p.shape), self.height_m - p[:, 2])
            x[below] = collide(
                x[below],
                layout,
                self._body,
                contact,
                ground_lock=True,
                levels_rad=levels_rad,
                compiled=False,
            )
            x[below, layout["w_body_radps"]] *= _SPIN_FACTOR
        return below

    def fall_s(self, x: FloatArray, active: BoolArray, hardest_mps2: float) -> float:
        """Return the time for which no active vehicle reaches the ground, accelerated by at most
        so much.
        """
        if self._kernel is not None:
            return float(self._kernel.fall_s(x, active, self.height_m, hardest_mps2))
        rows = x[active]
        height_m = np.maximum(rows[:, self._layout["p_world_m"].start + 2] - self.height_m, 0.0)
        climb = rows[:, self._layout["v_world_mps"].start + 2]
        return (
            float((climb + np.sqrt(climb * climb + 2.0 * hardest_mps2 * height_m)).min())
            / hardest_mps2
        )
