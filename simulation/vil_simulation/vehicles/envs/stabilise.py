"""Stabilise tasks whose reward is made for learning: with four rotors, and with a dead one."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Final

import numpy as np
from numpy.linalg import norm

from vil_bridge.core.elementary import exp, sin_cos
from vil_bridge.core.geometry import q_mul, q_normalize, q_to_matrix
from vil_bridge.core.types import BoolArray, FloatArray
from vil_simulation.vehicles.envs.base import AutoReset, Indices, VehicleTask
from vil_simulation.vehicles.envs.hover import GOAL_WORLD_M, HoverTask, distance_m
from vil_simulation.vehicles.fleet import Engine
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import QUADROTOR_ENV, QuadrotorParameters

_FLOOR_M: Final = 0.02
_FARTHEST_M: Final = 10.0
_NEAR_M: Final = 0.15
_TUMBLING_RADPS: Final = 50.0
_SPINNING_RADPS: Final = 90.0


class SettleTask(HoverTask):
    """:class:`~vil_simulation.vehicles.envs.hover.HoverTask` with a reward that pulls to the goal
    from near and far.

    With the distance d to the goal, metres, speed v, body rates w (rad/s, at most 20), the height u
    of the body's z axis (1 = level) and the action a:

        reward = 0.1 (exp(-d) / 2 + exp(-(d / 0.15)^2 / 2) / 2
                      + 0.1 u - 0.02 (|v| + |w| + |a|^2))

    and -1 when it ends.

    Ends also 10 m away from the goal: no episode is long enough to come back.
    """

    _near: ClassVar[tuple[float, float, float]] = (_FARTHEST_M, _TUMBLING_RADPS, _NEAR_M)

    def judge(self, actions: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return reward and end, (n,) each."""
        ended = _lost(self.x, _TUMBLING_RADPS)
        return _nearness(self.x, self.x[:, 10:13]) - 0.002 * (actions * actions).sum(
            axis=1
        ) - ended, ended


class ThreeRotorsTask(VehicleTask):
    """Keep n quadrotors at (0, 0, 5) m whose rear left rotor is dead.

    Nothing balances yaw: a vehicle spins up, about 9 rad/s faster each second, and steers by when
    it pushes. Action (3): thrusts m g (1 + a_i) / 2 of the rotors front left, front right, rear
    right; (0, -1, 0) carries it. Observation (18): p - goal 3, columns of R_world_body 9, velocity
    3 (world), body rates 3. Start: position within 1 m of the goal along each axis, velocity within
    0.5 m/s along each, any heading, tilted by up to about 0.3 rad about each of x and y, body rates
    0, rotors stopped. Reward: as :class:`SettleTask`, but yaw rate and actions cost nothing. End:
    as there, the yaw rate excepted, which ends it beyond 90 rad/s.

    Args:
        n: vehicles. seed, time_limit_s, autoreset, first_vehicle, engine: see
            :class:`~vil_simulation.vehicles.envs.base.VehicleTask`.
        parameters: the vehicle.
    """

    def __init__(
        self,
        n: int,
        seed: int = 0,
        *,
        time_limit_s: float = 5.0,
        autoreset: AutoReset = "same_step",
        first_vehicle: int = 0,
        parameters: QuadrotorParameters = QUADROTOR_ENV,
        engine: Engine = "auto",
    ) -> None:
        dt_s = Fraction(1, 50)
        super().__init__(
            FlightmareQuadrotor(parameters, longest_substep_s=float(dt_s) / 4.0),
            n,
            observation_size=18,
            action_size=3,
            seed=seed,
            dt_s=dt_s,
            time_limit_s=time_limit_s,
            autoreset=autoreset,
            first_vehicle=first_vehicle,
            engine=engine,
        )
        self._weight_n: Final = parameters.mass_kg * self.model.gravity_mps2

    def commands(self, actions: FloatArray) -> FloatArray:
        """Return rotor thrusts, (n, 4), N; none of the rear left one."""
        thrusts = np.zeros((self.n, 4))
        thrusts[:, :3] = self._weight_n * (0.5 + 0.5 * actions)
        return thrusts

    def start(self, which: Indices, uniforms: FloatArray, normals: FloatArray) -> FloatArray:
        """Return first states, (m, 17)."""
        spread = 2.0 * uniforms - 1.0
        x = np.zeros((len(which), self.model.state.size))
        x[:, 0:3] = np.array(GOAL_WORLD_M) + spread[:, 0:3]
        x[:, 3:6] = 0.5 * spread[:, 3:6]
        heading, tilt = np.zeros((2, len(x), 4))
        heading[:, 2], heading[:, 3] = sin_cos(np.pi * uniforms[:, 6])
        tilt[:, 0:2] = 0.1 * np.clip(normals[:, 0:2], -1.5, 1.5)
        tilt[:, 3] = 1.0
        x[:, 6:10] = q_mul(heading, q_normalize(tilt))
        return x

    def observe(self, which: Indices | slice) -> FloatArray:
        """Return observations, (m, 18)."""
        x = self.x[which]
        columns = q_to_matrix(x[:, 6:10]).swapaxes(1, 2).reshape(-1, 9)
        return np.concatenate((x[:, 0:3] - GOAL_WORLD_M, columns, x[:, 3:6], x[:, 10:13]), axis=1)

    def judge(self, actions: FloatArray) -> tuple[FloatArray, BoolArray]:  # noqa: ARG002
        """Return reward and end, (n,) each."""
        ended = _lost(self.x, _SPINNING_RADPS)
        return _nearness(self.x, self.x[:, 10:12]) - ended, ended


def _nearness(x: FloatArray, w_radps: FloatArray) -> FloatArray:
    """Return the reward (n,) for position and calm of vehicles, with the body rates (n, k) that
    count.
    """
    d = distance_m(x)
    v = norm(x[:, 3:6], axis=1)
    upright = 1.0 - 2.0 * (x[:, 6] ** 2 + x[:, 7] ** 2)
    near = 0.5 * (exp(-d) + exp(-0.5 * (d / _NEAR_M) ** 2))
    cost: FloatArray = 0.02 * (v + np.minimum(norm(w_radps, axis=1), 20.0))
    reward: FloatArray = 0.1 * (near + 0.1 * upright - cost)
    return reward


def _lost(x: FloatArray, yaw_limit_radps: float) -> BoolArray:
    """Return who is on the floor, more than 10 m away, or turns too fast to be followed, (n,)."""
    away = np.abs(x[:, 0:3] - GOAL_WORLD_M).max(axis=1) > _FARTHEST_M
    tumbling = (norm(x[:, 10:12], axis=1) > _TUMBLING_RADPS) | (np.abs(x[:, 12]) > yaw_limit_radps)
    lost: BoolArray = (x[:, 2] <= _FLOOR_M) | away | tumbling
    return lost
