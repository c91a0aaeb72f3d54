"""Limits of a vehicle, the share that a trajectory takes of them, and the fastest uniform pace
within them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import ORDERS, Reference, Trajectory
from vil_simulation.vehicles.control.airframe import RotorAirframe
from vil_simulation.vehicles.control.flatness import flat
from vil_simulation.vehicles.trajectories.composed import slowed

_SAMPLES: Final = 2000
_SLOWEST: Final = 2.0**20
_HALVINGS: Final = 40


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a vehicle; what is left out does not limit.

    Attributes:
        speed_mps, acceleration_mps2: lengths of the vectors.
        thrust_mps2: least and most collective thrust over mass.
        drag_1pm: quadratic drag over mass, which ``thrust_mps2`` works against.
        rates_radps: about body x, y, z; needs ``airframe``.
        airframe: rotors' limits and drag; None = not regarded.
        gravity_mps2: of ``thrust_mps2``.

    Raises:
        ValueError: limits that leave nothing, hovering included.
    """

    speed_mps: float = math.inf
    acceleration_mps2: float = math.inf
    thrust_mps2: tuple[float, float] = (0.0, math.inf)
    rates_radps: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    airframe: RotorAirframe | None = None
    gravity_mps2: float = 9.81
    drag_1pm: float = 0.0

    def __post_init__(self) -> None:
        if not (
            self.speed_mps > 0.0 and self.acceleration_mps2 > 0.0 and min(self.rates_radps) > 0.0
        ):
            raise ValueError("limits of speed, acceleration and rates must be positive")
        if not 0.0 <= self.drag_1pm < math.inf:
            raise ValueError(f"drag_1pm must be finite and not negative, got {self.drag_1pm}")
        if not 0.0 <= self.thrust_mps2[0] < self.gravity_mps2 < self.thrust_mps2[1]:
            raise ValueError(
                f"thrust_mps2 {self.thrust_mps2} does not include hovering at {self.gravity_mps2}"
            )
        if self.airframe is None and math.isfinite(min(self.rates_radps)):
            raise ValueError("rates_radps need an airframe: rates follow from its drag as well")


def usage(reference: Reference, limits: Limits) -> FloatArray:
    """Return the share (n,) of the limit that is nearest to being reached, by each of n references.

    Above 1 = exceeded.
    """
    speed = np.linalg.norm(reference.v_world_mps, axis=1)
    shares = [
        speed / limits.speed_mps,
        np.linalg.norm(reference.a_world_mps2, axis=1) / limits.acceleration_mps2,
    ]
    least, most = limits.thrust_mps2
    drag = limits.drag_1pm * speed[:, None] * reference.v_world_mps
    thrust = np.linalg.norm(
        reference.a_world_mps2 + drag + np.array([0.0, 0.0, limits.gravity_mps2]), axis=1
    )
    shares += [thrust / most, least / np.maximum(thrust, 1e-12)]
    if limits.airframe is not None:
        wanted = flat(limits.airframe, reference)
        shares += list((np.abs(wanted.w_body_radps) / limits.rates_radps).T)
        rotors = limits.airframe.thrusts(wanted.thrust_n, wanted.torque_body_nm)
        middle = 0.5 * (limits.airframe.most + limits.airframe.least)
        shares += list(np.abs(rotors - middle).T / (limits.airframe.most - middle))
    return np.asarray(np.max(shares, axis=0), dtype=np.float64)


def fastest(trajectory: Trajectory, limits: Limits) -> Trajectory:
    """Return the same curve, its time stretched or shortened by one factor until it just stays
    within limits.

    Raises:
        ValueError: it exceeds them however slowly it is flown.
    """
    rows = sampled(trajectory)
    worst = rows[:1]

    def shares(some: FloatArray, factor: float) -> FloatArray:
        scaled = some / np.cumprod([1.0, *(ORDERS - 1) * [factor]])[None, :, None]
        return usage(Reference.of(scaled), limits)

    def feasible(factor: float) -> bool:
        nonlocal worst
        if shares(worst, factor)[0] > 1.0:  # at similar paces the same sample exceeds
            return False
        found = shares(rows, factor)
        at = int(found.argmax())
        if found[at] <= 1.0:
            return True
        worst = rows[at : at + 1]
        return False

    slow = 1.0
    while not feasible(slow):
        slow *= 2.0
        if slow > _SLOWEST:
            raise ValueError(
                "this curve exceeds the limits however slowly it is flown: does the airframe hover?"
            )
    fast = 0.5 * slow
    while feasible(fast):
        slow = fast
        fast = 0.5 * fast
        if fast < 1.0 / _SLOWEST:
            raise ValueError("nothing limits this curve")
    for _ in range(_HALVINGS):
        middle = 0.5 * (slow + fast)
        slow, fast = (middle, fast) if feasible(middle) else (slow, middle)
    return slowed(trajectory, slow)


def sampled(trajectory: Trajectory, samples: int = _SAMPLES) -> FloatArray:
    """Return derivatives (n, 5, 4) evenly over a curve and on both sides of its knots."""
    knots = trajectory.knots_s
    times = np.concatenate(
        (np.linspace(0.0, trajectory.duration_s, samples), knots, np.nextafter(knots[1:], -np.inf))
    )
    return trajectory.derivatives(times)
