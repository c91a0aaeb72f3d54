"""Tracking of trajectories by geometric control.

Lee, Leok and McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)" (CDC 2010), with
the attitude error of Lee, "Exponential stability of an attitude tracking control system on SO(3)
for large-angle rotational maneuvers" (2012), which does not fade towards half a turn, and with the
feed-forward of :mod:`~vil_simulation.vehicles.control.flatness`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.compile import has_numba
from vil_bridge.core.geometry import cross, q_from_matrix, q_to_matrix
from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import Reference, Trajectory
from vil_simulation.vehicles.control.airframe import RotorAirframe
from vil_simulation.vehicles.control.flatness import attitude, flat
from vil_simulation.vehicles.trajectories.table import Table

_P: Final = slice(0, 3)
_V: Final = slice(3, 6)
_Q: Final = slice(6, 10)
_W: Final = slice(10, 13)


@dataclass(frozen=True, slots=True)
class Gains:
    """Stiffness with which a vehicle is held on its trajectory; gains are accelerations by error.

    Attributes:
        position_per_s2, velocity_per_s: of the position loop.
        attitude_per_s2, rate_per_s: of the attitude loop.
        most_yaw_radps: how fast an error of heading is turned away: rotors have little torque about
            z.
        most_feedback_mps2: what errors of position and velocity may add to the acceleration.
        rate_lag_s: about x, y, z, with which commanded body rates are followed; the command leads
            by it.

    Raises:
        ValueError: a gain that is not positive.
    """

    position_per_s2: float = 9.0
    velocity_per_s: float = 5.0
    attitude_per_s2: float = 200.0
    rate_per_s: float = 22.0
    most_yaw_radps: float = 1.0
    most_feedback_mps2: float = 8.0
    rate_lag_s: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for gain in fields(self)[:-1]:
            if not getattr(self, gain.name) > 0.0:
                raise ValueError(f"{gain.name} must be positive, got {getattr(self, gain.name)}")


class Demand(NamedTuple):
    """Thrust, torque and rates that the controller asks of n vehicles.

    Attributes:
        thrust_n: (n,), along body z, not negative. torque_body_nm: (n, 3).
        w_body_radps: (n, 3), rates to command where the vehicle has a rate controller of its own.
    """

    thrust_n: FloatArray
    torque_body_nm: FloatArray
    w_body_radps: FloatArray


class TrackingController:
    """Flies n vehicles of one model along their trajectories; it has no memory.

    Args:
        airframe: what it takes the vehicles for.
        trajectories: one a vehicle; a single one for a single vehicle.
        command: makes the model's command, (n, du), from a demand; of which
            :func:`~vil_simulation.vehicles.control.models.tracking` knows those of the models here.
        gains: None = the defaults.
    """

    def __init__(
        self,
        airframe: RotorAirframe,
        trajectories: Trajectory | Sequence[Trajectory],
        command: Callable[[Demand], FloatArray],
        gains: Gains | None = None,
    ) -> None:
        several = (trajectories,) if isinstance(trajectories, Trajectory) else trajectories
        self.airframe: Final = airframe
        self.gains: Final = gains or Gains()
        self.table: Final = Table(several)
        self._command: Final = command
        self._demand: Final = _native(airframe, self.gains) or partial(demand, airframe, self.gains)

    def __call__(self, t_s: npt.ArrayLike, x: FloatArray) -> FloatArray:
        """Return commands (n, du) at a time, or at one per vehicle (n,), from states whose first 13
        columns are a body.

        Raises:
            ValueError: not as many vehicles as trajectories.
        """
        if len(x) != self.table.n:
            raise ValueError(f"{len(x)} vehicles, but trajectories for {self.table.n}")
        return self.follow(self.table.at(t_s), x)

    def follow(self, reference: Reference, x: FloatArray) -> FloatArray:
        """Return commands (k, du) of any vehicles of the model towards references of their own."""
        return self._command(self._demand(reference, x))


def demand(airframe: RotorAirframe, gains: Gains, reference: Reference, x: FloatArray) -> Demand:
    """Return thrust, torque and rates that bring n bodies (n, 13 or more) to their references
    and keep them there.
    """
    ahead = flat(airframe, reference)
    feedback = gains.position_per_s2 * (reference.p_world_m - x[:, _P])
    feedback += gains.velocity_per_s * (reference.v_world_mps - x[:, _V])
    size = np.linalg.norm(feedback, axis=1, keepdims=True)
    feedback *= np.minimum(
        1.0, gains.most_feedback_mps2 / np.maximum(size, gains.most_feedback_mps2)
    )
    force = ahead.thrust_n[:, None] * ahead.R_world_body[:, :, 2] + airframe.mass_kg * feedback

    R_body_world = q_to_matrix(x[:, _Q]).transpose(0, 2, 1)
    R_body_wanted = product(R_body_world, attitude(force, reference.yaw_rad))
    turn = q_from_matrix(R_body_wanted)  # from the body to the wanted attitude, seen from either
    error = turn[:, :3] * np.copysign(2.0, turn[:, 3:])
    most_yaw = gains.most_yaw_radps * gains.rate_per_s / gains.attitude_per_s2
    error[:, 2] = np.clip(error[:, 2], -most_yaw, most_yaw)
    w = x[:, _W]
    w_ahead = product(R_body_wanted, ahead.w_body_radps[:, :, None])[:, :, 0]
    alpha_ahead = product(R_body_wanted, ahead.alpha_body_radps2[:, :, None])[:, :, 0]
    alpha = (
        gains.attitude_per_s2 * error
        + gains.rate_per_s * (w_ahead - w)
        + alpha_ahead
        - cross(w, w_ahead)
    )
    inertia = airframe.inertia_kgm2
    return Demand(
        np.maximum((R_body_world[:, 2] * force).sum(axis=1), 0.0),
        product(alpha, inertia) + cross(w, product(w, inertia)),
        w_ahead
        + gains.attitude_per_s2 / gains.rate_per_s * error
        + np.array(gains.rate_lag_s) * alpha_ahead,
    )


def _native(
    airframe: RotorAirframe, gains: Gains
) -> Callable[[Reference, FloatArray], Demand] | None:
    """Return the compiled :func:`demand`; None without numba."""
    if not has_numba():
        return None
    from vil_simulation.vehicles.control.kernel import demands

    parameters = np.concatenate(
        (
            (airframe.mass_kg, airframe.gravity_mps2, airframe.drag_quadratic_ns2pm2),
            np.asarray(airframe.drag_linear_nspm, dtype=np.float64),
            airframe.inertia_kgm2.ravel(),
            (gains.position_per_s2, gains.velocity_per_s, gains.attitude_per_s2, gains.rate_per_s),
            (gains.most_feedback_mps2, *gains.rate_lag_s),
            (gains.most_yaw_radps * gains.rate_per_s / gains.attitude_per_s2,),
        )
    )

    def compiled_demand(reference: Reference, x: FloatArray) -> Demand:
        out = np.empty((len(x), 7))
        demands(parameters, np.column_stack(reference), np.ascontiguousarray(x[:, :13]), out)
        return Demand(out[:, 0], out[:, 1:4], out[:, 4:])

    return compiled_demand
