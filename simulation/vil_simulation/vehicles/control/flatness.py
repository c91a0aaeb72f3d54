"""Differential flatness: the attitude, rates, thrust and torque that a trajectory demands of a
multicopter.

Mellinger and Kumar, "Minimum snap trajectory generation and control for quadrotors" (ICRA 2011),
with the rotor drag of Faessler, Franchi and Scaramuzza, "Differential flatness of quadrotor
dynamics subject to rotor drag" (RA-L 2018). Rates and accelerations come from the product rule:
every vector is carried with its first and second derivative, an array (3, n, 3).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from vil_bridge.core.elementary import sin_cos
from vil_bridge.core.geometry import cross, q_from_matrix
from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Reference
from vil_simulation.vehicles.control.airframe import RotorAirframe

_TINY: Final = 1e-9


class Flat(NamedTuple):
    """State and wrench that n references demand.

    Attributes:
        R_world_body: (n, 3, 3). w_body_radps, alpha_body_radps2: (n, 3).
        thrust_n: (n,), all rotors together along body z. torque_body_nm: (n, 3).
    """

    R_world_body: FloatArray
    w_body_radps: FloatArray
    alpha_body_radps2: FloatArray
    thrust_n: FloatArray
    torque_body_nm: FloatArray

    @property
    def q_world_body(self) -> FloatArray:
        """Attitudes, (n, 4)."""
        return q_from_matrix(self.R_world_body)


def flat(airframe: RotorAirframe, reference: Reference) -> Flat:
    """Return state and wrench with which an airframe follows references exactly, in still air at
    sea level.

    The nose lies above the heading: the body's y axis stands across it. Near free fall, and with
    the thrust along that axis, no such attitude exists; the result is finite and useless.
    """
    velocity = np.stack((reference.v_world_mps, reference.a_world_mps2, reference.j_world_mps3))
    force = airframe.mass_kg * np.stack(
        (reference.a_world_mps2, reference.j_world_mps3, reference.s_world_mps4)
    )
    force[0, :, 2] += airframe.mass_kg * airframe.gravity_mps2
    if airframe.drag_quadratic_ns2pm2:
        force += airframe.drag_quadratic_ns2pm2 * _times(_norm(velocity), velocity)
    # Linear drag acts per body axis: of the sum that each axis sees, only its own coefficient
    # counts.
    of_x, of_y, of_z = np.asarray(airframe.drag_linear_nspm, dtype=np.float64)
    x = _unit(_cross(_across(reference), force + of_x * velocity))
    y = _unit(_cross(force + of_y * velocity, x))
    z = _cross(x, y)
    w = np.column_stack((_dot(z[0], y[1]), _dot(x[0], z[1]), _dot(y[0], x[1])))
    alpha = np.column_stack((_dot(z[0], y[2]), _dot(x[0], z[2]), _dot(y[0], x[2])))
    alpha -= w[:, [1, 0, 0]] * w[:, [2, 2, 1]]
    inertia = airframe.inertia_kgm2
    return Flat(
        np.stack((x[0], y[0], z[0]), axis=-1),
        w,
        alpha,
        _dot(z[0], force[0] + of_z * velocity[0]),
        product(alpha, inertia) + cross(w, product(w, inertia)),
    )


def attitude(force_world: FloatArray, yaw_rad: FloatArray) -> FloatArray:
    """Return rotation matrices (n, 3, 3) whose z axis lies along forces (n, 3), with headings.

    N,.
    """
    sine, cosine = sin_cos(yaw_rad)
    across = np.stack((-sine, cosine, np.zeros_like(yaw_rad)), axis=-1)
    x = _normalized(cross(across, force_world))
    z = _normalized(force_world)
    return np.stack((x, cross(z, x), z), axis=-1)


def _across(reference: Reference) -> FloatArray:
    """Return the level direction to the left of the heading."""
    yaw = reference.yaw_rad
    rate = reference.yaw_radps
    acceleration = reference.yaw_radps2
    zero = np.zeros_like(yaw)
    sine, cosine = sin_cos(yaw)
    ahead = np.stack((cosine, sine, zero), axis=-1)
    left = np.stack((-ahead[:, 1], ahead[:, 0], zero), axis=-1)
    return np.stack(
        (left, -rate[:, None] * ahead, -acceleration[:, None] * ahead - rate[:, None] ** 2 * left)
    )


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    products = cross(a[_LEFT], b[_RIGHT])
    return np.stack(
        (products[0], products[1] + products[2], products[3] + 2.0 * products[4] + products[5])
    )


_LEFT: Final = np.array([0, 1, 0, 2, 1, 0])
_RIGHT: Final = np.array([0, 0, 1, 0, 1, 2])


def _times(scale: FloatArray, a: FloatArray) -> FloatArray:
    """Return products of numbers (3, n, 1) and vectors (3, n, 3)."""
    s0, s1, s2 = scale
    return np.stack((s0 * a[0], s1 * a[0] + s0 * a[1], s2 * a[0] + 2.0 * s1 * a[1] + s0 * a[2]))


def _norm(a: FloatArray) -> FloatArray:
    """Return lengths (3, n, 1); their derivatives are 0 where the length is."""
    square = (a[:1] * a).sum(axis=-1, keepdims=True)  # a.a, a.a', a.a''
    length = np.sqrt(square[0])
    inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > _TINY)
    slope = square[1] * inverse
    bend = ((a[1] * a[1]).sum(axis=-1, keepdims=True) + square[2] - slope * slope) * inverse
    return np.stack((length, slope, bend))


def _unit(a: FloatArray) -> FloatArray:
    length, slope, bend = _norm(a)
    inverse = 1.0 / np.maximum(length, _TINY)
    u = a[0] * inverse
    du = (a[1] - slope * u) * inverse
    return np.stack((u, du, (a[2] - 2.0 * slope * du - bend * u) * inverse))


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    dots: FloatArray = (a * b).sum(axis=-1)
    return dots


def _normalized(a: FloatArray) -> FloatArray:
    unit: FloatArray = a / np.maximum(np.linalg.norm(a, axis=-1, keepdims=True), _TINY)
    return unit
