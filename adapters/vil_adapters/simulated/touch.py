"""Contacts: the floor, and the surfaces that a renderer tells of, felt at every step."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from vil_adapters.simulated.config import ContactConfig
from vil_adapters.simulated.wire import Felt
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.vehicles.layout import Layout

__all__ = ["Touch"]

_VALID_S: Final = 0.5
"""Surfaces are forgotten this long after the picture that showed them."""
_APART_S: Final = 0.1
"""Contacts closer in time than this are one collision."""
_RESTING_MPS: Final = 0.1
"""Slower than this nothing bounces."""
_SPIN_KEPT: Final = 0.9
"""Share of the body rates that a step on the floor leaves, as AirSim has it."""


@dataclass(slots=True, eq=False)
class _Around:
    """Tangent planes near a vehicle: points and normals (m, 3), and the step after which they are old."""

    points_m: FloatArray
    normals: FloatArray
    until: int


class Touch:
    """What the vehicles of a group bump into.

    Attributes:
        collisions: begun so far, by row.
    """

    def __init__(self, config: ContactConfig, rows: int) -> None:
        self.collisions = np.zeros(rows, dtype=np.int64)
        self._config = config
        self._bounces = config.response == "bounce"
        self._around: dict[int, _Around] = {}
        self._reset_at = np.zeros(rows, dtype=np.int64)
        self._touched_at = np.full(rows, -(1 << 60), dtype=np.int64)

    @property
    def watches(self) -> bool:
        """Whether :meth:`respond` has anything to do."""
        return self._config.floor_m is not None or bool(self._around)

    def forget(self, row: int, step: int) -> None:
        """The vehicle was put elsewhere: what pictures from before told is void."""
        self._around.pop(row, None)
        self._reset_at[row] = step

    def felt(self, row: int, told: Felt, step_of_picture: int, dt_s: Fraction) -> bool:
        """Take what a renderer tells; True = the vehicle is to be put back to its start, disarmed."""
        if self._config.response == "none" or step_of_picture <= self._reset_at[row]:
            return False
        if self._bounces and told.told:
            self._around.pop(row, None)
            if told.points_m:
                until = step_of_picture + round(_VALID_S / dt_s)
                self._around[row] = _Around(np.array(told.points_m), np.array(told.normals), until)
            return False
        return told.hit

    def respond(self, x: FloatArray, state: Layout, active: BoolArray, step: int, dt_s: float) -> int:
        """Keep vehicles out of what is solid; changes x (n, dx). Returns how many collisions began."""
        before = int(self.collisions.sum())
        p, v = x[:, state["p_world_m"]], x[:, state["v_world_mps"]]
        floor_m = self._config.floor_m
        if floor_m is not None:
            below = active & (p[:, 2] < floor_m)
            if below.any():
                for row in np.flatnonzero(below).tolist():
                    self._bounce(row, p, v, np.array((0.0, 0.0, 1.0)), floor_m - p[row, 2], step, dt_s)
                x[below, state["w_body_radps"]] *= _SPIN_KEPT
        for row, around in list(self._around.items()):
            if step > around.until:
                del self._around[row]
            elif active[row]:
                self._among(row, around, p, v, step, dt_s)
        return int(self.collisions.sum()) - before

    def _among(self, row: int, around: _Around, p: FloatArray, v: FloatArray, step: int, dt_s: float) -> None:
        """One vehicle and the surfaces near it."""
        for point_m, normal in zip(around.points_m, around.normals, strict=True):
            away = p[row] - point_m
            height = float(away @ normal)
            beside = np.linalg.norm(away - height * normal)
            if height < self._config.radius_m and beside <= self._config.reach_m:
                self._bounce(row, p, v, normal, self._config.radius_m - height, step, dt_s)

    def _bounce(
        self, row: int, p: FloatArray, v: FloatArray, normal: FloatArray, depth_m: float, step: int, dt_s: float
    ) -> None:
        """Out of the surface, and the velocity as rigid contact with Coulomb friction leaves it."""
        if (step - self._touched_at[row]) * dt_s > _APART_S:
            self.collisions[row] += 1
        self._touched_at[row] = step
        p[row] += depth_m * normal
        into = float(v[row] @ normal)
        if into >= 0.0:
            return
        along = v[row] - into * normal
        speed = float(np.linalg.norm(along))
        kept = self._config.restitution if -into > _RESTING_MPS else 0.0
        lost = self._config.friction * (1.0 + kept) * -into
        v[row] = -kept * into * normal + along * (max(0.0, 1.0 - lost / speed) if speed > 0.0 else 0.0)
