"""Impacts as inertial sensors feel them.

Over some milliseconds, as bodies give way, not within a step.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.contact import with_contacts
from vil_simulation.vehicles.model import TrueState

_IMPACT_S: Final = 0.01
"""An impact is felt for this long, or for a step where that is longer.

Its beginning is that of its step.
"""
_SUPPORT_MPS2: Final = 50.0
"""A contact that pushes no harder bears a vehicle, or presses against it.

That is felt in its own step.
"""


class _Impact(NamedTuple):
    """Impacts of one step.

    Its number, the vehicles' rows, changes of velocities and body rates (k, 6).
    """

    step: int
    rows: npt.NDArray[np.int64]
    change: FloatArray


class Impacts:
    """Changes of velocity that the inertial sensors of a group's vehicles have not felt yet.

    A vehicle's velocity changes within the step of an impact. What its sensors feel is the same
    change, spread evenly.

    Args:
        vehicles: how many. dt_s: a step.
    """

    def __init__(self, vehicles: int, dt_s: float) -> None:
        self._vehicles: Final = vehicles
        self._dt_s: Final = dt_s
        self._share: Final = min(dt_s / _IMPACT_S, 1.0)
        self._least_mps: Final = _SUPPORT_MPS2 * dt_s
        self._under_way: list[_Impact] = []

    def add(self, change: FloatArray, step: int) -> None:
        """Take changes of velocities and body rates (n, 6) by the contacts of the step that ends
        as number ``step``.
        """
        if self._share == 1.0 or not change.any():
            return
        speed_mps = np.sqrt((change[:, :3] ** 2).sum(axis=1))
        rows = np.flatnonzero(speed_mps > self._least_mps)
        if len(rows):
            self._drop_felt(step)  # vehicles without inertial sensors never ask what is felt
            self._under_way.append(_Impact(step, rows, change[rows]))

    def forget(self, row: int) -> None:
        """Forget the impacts of a vehicle that was put elsewhere."""
        for impact in self._under_way:
            impact.change[impact.rows == row] = 0.0

    def felt(self, truth: TrueState, step: int) -> TrueState:
        """Return what inertial sensors feel after a step, from the truth, contacts of the step
        included.
        """
        self._drop_felt(step)
        if not self._under_way:
            return truth
        unfelt, change = np.zeros((2, self._vehicles, 6))
        for impact in self._under_way:
            age = step - impact.step
            left = self._left(age)
            before = self._left(age - 1) if age else 0.0  # the truth of its own step has all of it
            unfelt[impact.rows] += left * impact.change
            change[impact.rows] += (before - left) * impact.change
        felt = truth._replace(
            v_world_mps=truth.v_world_mps - unfelt[:, :3],
            w_body_radps=truth.w_body_radps - unfelt[:, 3:],
            a_world_mps2=truth.a_world_mps2.copy(),
            alpha_body_radps2=truth.alpha_body_radps2.copy(),
            f_body_mps2=truth.f_body_mps2.copy(),
        )
        return with_contacts(felt, change, self._dt_s)

    def _drop_felt(self, step: int) -> None:
        """Remove the impacts that were felt to their end before a step."""
        self._under_way = [
            impact for impact in self._under_way if self._left(step - impact.step - 1) > 0.0
        ]

    def _left(self, age: int) -> float:
        """Return the share of an impact that is not felt yet, so many steps after its own."""
        return max(1.0 - (age + 1) * self._share, 0.0)
