"""Fly through gates: a sequence of them once, or a course for several laps against time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.linalg import norm

from vil_bridge.config.course import load_course
from vil_bridge.core.elementary import sin_cos
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.geometry import q_mul, q_normalize, q_to_euler_zyx, q_to_matrix
from vil_bridge.core.matrices import product
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.courses.course import Course
from vil_simulation.vehicles.envs.base import AutoReset, Indices, VehicleTask
from vil_simulation.vehicles.fleet import Engine
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.flightmare.parameters import QUADROTOR_ENV, QuadrotorParameters

_FASTEST_RADPS: Final = 50.0
_BEYOND_M: Final = 5.0
RACE_STEP_S: Final = Fraction(1, 50)
"""From action to action."""


class RaceTask(VehicleTask):
    """Fly n quadrotors through the gates of a course, in their order and direction, for some laps.

    Action (4): rotor thrusts f_i = m g (1/4 + a_i / 2), so that 0 hovers level and 1 is 0.75 m g;
    negative ones are 0. Observation (18), all in body axes: to the next gate's centre 3, that
    gate's direction 3, to the centre of the gate after it 3 (after the last one: a point 5 m behind
    it), the world's up 3, velocity 3, body rates 3. Start: at the course's start within 0.3 m along
    each axis, at rest, heading and tilt within 0.2 rad of level. Reward: metres come closer to the
    next gate's centre, + 1 for each gate passed, - 0.02 for each step,
    - 0.001 |w|^2 / 10, - 5 for a crash. A gate is passed when the straight way of a step goes
      through its opening.
    End: the last gate of the last lap; or a crash: the frame of any gate, z at most 0.02 m, leaving
    the course's room, body rates beyond 50 rad/s.

    Args:
        n: vehicles. laps: how often the course is flown. course: a course, or the name or
            file of one (docs/guides/racing.md).
        seed, time_limit_s, autoreset, first_vehicle, engine: see
            :class:`~vil_simulation.vehicles.envs.base.VehicleTask`.

    Attributes:
        passed: gates passed in this episode, (n,). last_s: when the last of them was, from the
            episode's start, (n,).

    Raises:
        ValueError: no such course, a wrong file, or no lap.
    """

    def __init__(
        self,
        n: int,
        seed: int = 0,
        *,
        course: str | Course = "slalom",
        laps: int = 1,
        time_limit_s: float = 10.0,
        autoreset: AutoReset = "same_step",
        first_vehicle: int = 0,
        parameters: QuadrotorParameters = QUADROTOR_ENV,
        engine: Engine = "auto",
    ) -> None:
        if laps < 1:
            raise ValueError(f"a race has at least one lap, not {laps}")
        super().__init__(
            race_model(parameters),
            n,
            observation_size=18,
            action_size=4,
            seed=seed,
            dt_s=RACE_STEP_S,
            time_limit_s=time_limit_s,
            autoreset=autoreset,
            first_vehicle=first_vehicle,
            engine=engine,
        )
        self.course: Final = course if isinstance(course, Course) else _loaded(course)
        self.laps: Final = laps
        self.passed: Final = np.zeros(n, np.int64)
        self.last_s: Final = np.zeros(n)
        self._weight_n: Final = parameters.mass_kg * self.model.gravity_mps2
        self._before_m = np.zeros((n, 3))
        order = self.course.order * laps
        self._order: Final = np.array((*order, order[-1]))
        self._gates: Final = len(order)
        self._low_m, self._high_m = self.course.room_m
        self._targets_m, self._directions = race_targets(self.course, order)

    def commands(self, actions: FloatArray) -> FloatArray:
        """Return rotor thrusts, (n, 4), N; the model clips what rotors cannot give."""
        self._before_m = self.x[:, 0:3].copy()
        return race_thrusts(self._weight_n, actions)

    def start(
        self,
        which: Indices,
        uniforms: FloatArray,
        normals: FloatArray,  # noqa: ARG002
    ) -> FloatArray:
        """Return first states, (m, 17)."""
        x = self.model.initial(len(which))
        spread = 2.0 * uniforms - 1.0
        x[:, 0:3] = self.course.start.p_m + 0.3 * spread[:, 0:3]
        half = 0.5 * (q_to_euler_zyx(self.course.start.q_xyzw)[0] + 0.2 * spread[:, 5])
        heading = self.model.initial(len(which))[:, 6:10]
        tilt = x[:, 6:10].copy()
        heading[:, 2], heading[:, 3] = sin_cos(half)
        tilt[:, 0:2] = 0.1 * spread[:, 3:5]
        x[:, 6:10] = q_mul(heading, q_normalize(tilt))
        self.passed[which] = 0
        self.last_s[which] = 0.0
        return x

    def observe(self, which: Indices | slice) -> FloatArray:
        """Return observations, (m, 18)."""
        x = self.x[which]
        due = self.passed[which]
        return race_observation(
            x, self._targets_m[due], self._directions[due], self._targets_m[due + 1]
        )

    def judge(self, actions: FloatArray) -> tuple[FloatArray, BoolArray]:  # noqa: ARG002
        """Return reward and end, (n,) each."""
        before = self._before_m
        after = self.x[:, 0:3]
        w = self.x[:, 10:13]
        target = self._targets_m[self.passed]
        nearer = norm(before - target, axis=1) - norm(after - target, axis=1)
        through, hit, fraction = self.course.crossings(before, after)
        every = np.arange(self.n)
        due = self._order[self.passed]
        passed = through[every, due] & (self.passed < self._gates)
        self.last_s[passed] = (self.age - 1 + fraction[every, due])[passed] * float(self.dt_s)
        self.passed[passed] += 1
        outside = ((after <= self._low_m) | (after > self._high_m)).any(axis=1)
        crashed = hit.any(axis=1) | outside | (norm(w, axis=1) > _FASTEST_RADPS)
        reward = nearer + passed - 0.02 - 1e-4 * (w * w).sum(axis=1) - 5.0 * crashed
        return reward, crashed | (self.passed == self._gates)


def race_model(parameters: QuadrotorParameters = QUADROTOR_ENV) -> FlightmareQuadrotor:
    """Return the vehicle of the task."""
    return FlightmareQuadrotor(parameters, longest_substep_s=float(RACE_STEP_S))


def race_targets(course: Course, order: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Return what is flown to, (k + 2, 3), and the directions there, (k + 1, 3), of k gates in
    their order.
    """
    listed = list(order)
    directions = course.axes[listed, :, 0]
    beyond = course.centres_m[listed[-1:]] + _BEYOND_M * directions[-1:]
    return np.vstack((course.centres_m[listed], beyond, beyond)), np.vstack(
        (directions, directions[-1:])
    )


def race_observation(
    x: FloatArray, target_m: FloatArray, direction: FloatArray, after_m: FloatArray
) -> FloatArray:
    """Return observations, (n, 18), of states (n, 17) with the next gate, its direction and the
    gate after it.
    """
    up = np.broadcast_to((0.0, 0.0, 1.0), (len(x), 3))
    p_m = x[:, 0:3]
    world = (target_m - p_m, direction, after_m - p_m, up, x[:, 3:6])
    body = product(np.stack(world, axis=1), q_to_matrix(x[:, 6:10]))
    return np.concatenate((body.reshape(len(x), 15), x[:, 10:13]), axis=1)


def race_thrusts(weight_n: float, actions: FloatArray) -> FloatArray:
    """Return rotor thrusts, (n, 4), N, of actions (n, 4)."""
    return weight_n * (0.25 + 0.5 * actions)


def _loaded(course: str) -> Course:
    try:
        return load_course(course)
    except ConfigError as exc:
        raise ValueError(str(exc)) from None
