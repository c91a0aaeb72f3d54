"""Contacts of vehicles with the floor and with surfaces that a renderer reports, at every step."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_adapters.simulated.ipc import ContactReport
from vil_adapters.simulated.vehicle_config import ContactConfig
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.vehicles.contact import Collider, WorldContact, collide
from vil_bridge.vehicles.layout import StateLayout
from vil_bridge.vehicles.model import Model

_VALID_S: Final = 2.0
"""Surfaces are forgotten this long after the picture that showed them."""
_APART_S: Final = 0.1
"""Contacts closer in time than this are one collision."""
_RESTING_MPS: Final = 0.1
"""Slower than this nothing bounces."""
_SPIN_FACTOR: Final = 0.9
"""Share of the body rates that a step on the floor leaves, as AirSim has it."""

_UP: Final = np.array((0.0, 0.0, 1.0))


@dataclass(slots=True, eq=False)
class _Around:
    """Tangent planes near a vehicle: points and normals (m, 3), and the step after which they are old."""

    points_m: FloatArray
    normals: FloatArray
    until: int


class ContactModel:
    """Floor and surfaces that the vehicles of a group collide with.

    Attributes:
        collisions: begun so far, by row.
    """

    def __init__(self, config: ContactConfig, model: Model, rows: int) -> None:
        self._fast: Final = _collider(model, config)
        self._slow: Final = self._fast._replace(restitution=0.0)
        self.collisions = np.zeros(rows, dtype=np.int64)
        self._config = config
        self._bounces = config.response == "bounce"
        self._around: dict[int, _Around] = {}
        self._reset_at = np.zeros(rows, dtype=np.int64)
        self._touched_at = np.full(rows, -(1 << 60), dtype=np.int64)

    @property
    def watches(self) -> bool:
        """True if :meth:`respond` has anything to do."""
        return self._config.floor_m is not None or bool(self._around)

    def reset(self, row: int, step: int) -> None:
        """Discard surfaces of pictures taken before the vehicle was moved."""
        self._around.pop(row, None)
        self._reset_at[row] = step

    def on_contact(self, row: int, report: ContactReport, step_of_picture: int, dt_s: Fraction) -> bool:
        """Apply what a renderer reports; return True if the vehicle returns to its start, disarmed."""
        if self._config.response == "none" or step_of_picture <= self._reset_at[row]:
            return False
        if self._bounces and report.has_surfaces:
            self._around.pop(row, None)
            if report.points_m:
                until = step_of_picture + round(_VALID_S / dt_s)
                self._around[row] = _Around(np.array(report.points_m), np.array(report.normals), until)
            return False
        return report.hit

    def respond(self, x: FloatArray, state: StateLayout, active: BoolArray, step: int, dt_s: float) -> int:
        """Keep vehicles out of what is solid; changes x (n, dx). Returns how many collisions began."""
        before = int(self.collisions.sum())
        place = state["p_world_m"]
        floor_m = self._config.floor_m
        if floor_m is not None:
            below = active & (x[:, place.start + 2] < floor_m)
            if below.any():
                self._on_floor(x, state, np.flatnonzero(below), floor_m, step, dt_s)
        for row, around in list(self._around.items()):
            if step > around.until:
                del self._around[row]
            elif active[row]:
                self._among(row, around, x, state, step, dt_s)
        return int(self.collisions.sum()) - before

    def _on_floor(
        self, x: FloatArray, state: StateLayout, rows: npt.NDArray[np.int64], floor_m: float, step: int, dt_s: float
    ) -> None:
        """Lift vehicles whose origins are below the floor: upright ones land, others bounce and come to rest."""
        p = x[rows, state["p_world_m"]]
        up = np.broadcast_to(_UP, p.shape)
        self._count(rows, step, dt_s)
        x[rows] = collide(x[rows], state, self._slow, WorldContact(p, up, floor_m - p[:, 2]), ground_lock=True)
        x[rows, state["w_body_radps"]] *= _SPIN_FACTOR

    def _among(self, row: int, around: _Around, x: FloatArray, state: StateLayout, step: int, dt_s: float) -> None:
        """Collide one vehicle with the surfaces near it."""
        radius_m = self._config.radius_m
        for point_m, normal in zip(around.points_m, around.normals, strict=True):
            p = x[row, state["p_world_m"]]
            away = p - point_m
            height = float(away @ normal)
            if height >= radius_m or np.linalg.norm(away - height * normal) > self._config.reach_m:
                continue
            self._count(np.array([row]), step, dt_s)
            if height < 0.0:
                self._reset_at[row] = step  # pictures from behind the surface would push it through
            slow = -float(x[row, state["v_world_mps"]] @ normal) < _RESTING_MPS
            touched = (p - radius_m * normal)[None]
            contact = WorldContact(touched, normal[None], np.array([radius_m - height]))
            x[row] = collide(x[row : row + 1], state, self._slow if slow else self._fast, contact)[0]

    def _count(self, rows: npt.NDArray[np.int64], step: int, dt_s: float) -> None:
        """Record contacts; those that do not continue another are collisions."""
        self.collisions[rows] += (step - self._touched_at[rows]) * dt_s > _APART_S
        self._touched_at[rows] = step


def _collider(model: Model, config: ContactConfig) -> Collider:
    """Return mass and surface of a model's vehicles; a solid ball of 1 kg where the model does not say."""
    parameters = getattr(model, "parameters", getattr(model, "airframe", None))
    mass_kg = float(getattr(parameters, "mass_kg", 1.0))
    known = getattr(model, "inertia_kgm2", getattr(parameters, "inertia_kgm2", None))
    ball = np.full(3, 0.4 * mass_kg * config.radius_m**2)
    inertia = ball if known is None else np.asarray(known, dtype=np.float64)
    principal = np.diag(inertia) if inertia.ndim == 2 else inertia
    return Collider(mass_kg, principal, config.restitution, config.friction)
