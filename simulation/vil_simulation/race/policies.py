"""Pilots that a learned policy flies.

A file of numbers, trained in the environment ``vil/Race-v0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.elementary import expm1
from vil_bridge.core.errors import ConfigError
from vil_bridge.core.types import FloatArray
from vil_bridge.courses.course import Course
from vil_simulation.race.number_files import read_arrays
from vil_simulation.race.routes import race_order
from vil_simulation.vehicles.envs.race import (
    RACE_STEP_S,
    race_model,
    race_observation,
    race_targets,
    race_thrusts,
)
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.model import Model

_OBSERVATION: Final = 18
_ACTION: Final = 4
_MOST_BYTES: Final = 64 << 20
_STEP_S: Final = float(RACE_STEP_S)
_GATE_S: Final = 20.0
"""After which a policy gives up, for each gate."""


class PolicyNetwork:
    """Layers with tanh between them; observations are normalised first.

    Args:
        layers: weights (inputs, outputs) and biases (outputs,) of each.
        mean, std: of observations, (18,).

    Raises:
        ValueError: shapes that do not fit, or values that are not finite.
    """

    def __init__(
        self,
        layers: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]],
        mean: npt.ArrayLike = 0.0,
        std: npt.ArrayLike = 1.0,
    ) -> None:
        self.layers: Final = [(np.array(w, np.float64), np.array(b, np.float64)) for w, b in layers]
        self.mean: Final = np.broadcast_to(np.array(mean, np.float64), (_OBSERVATION,))
        self.std: Final = np.broadcast_to(np.array(std, np.float64), (_OBSERVATION,))
        inputs = _OBSERVATION
        for number, (w, b) in enumerate(self.layers):
            if w.ndim != 2 or w.shape[0] != inputs or b.shape != (w.shape[1],):
                raise ValueError(
                    f"layer {number} has weights {w.shape} and biases {b.shape}, and "
                    f"{inputs} inputs"
                )
            inputs = w.shape[1]
        if inputs != _ACTION:
            raise ValueError(
                f"the last layer has {inputs} outputs: one for each of {_ACTION} rotors is needed"
            )
        arrays = (self.mean, self.std, *(one for layer in self.layers for one in layer))
        if not all(np.isfinite(one).all() for one in arrays) or not (self.std > 0.0).all():
            raise ValueError("all values must be finite, and std positive")

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Return actions, (n, 4), from -1 to 1."""
        values = (observations - self.mean) / self.std
        for w, b in self.layers[:-1]:
            values = _tanh(_layer(values, w, b))
        return np.clip(_layer(values, *self.layers[-1]), -1.0, 1.0)


def _layer(values: FloatArray, w: FloatArray, b: FloatArray) -> FloatArray:
    """Return ``values @ w + b``, each sum in one order on every processor."""
    by_output = np.ascontiguousarray(w.T)
    outputs: FloatArray = np.add.reduce(values[:, None, :] * by_output, axis=-1) + b
    return outputs


def _tanh(x: FloatArray) -> FloatArray:
    less = expm1(-2.0 * np.abs(x))
    return np.asarray(np.copysign(less / (less + 2.0), x))


def write_policy(policy: PolicyNetwork, path: Path) -> None:
    """Write a policy as numpy arrays (``.npz``). Raises OSError."""
    arrays = {f"w{number}": w for number, (w, _) in enumerate(policy.layers)}
    arrays |= {f"b{number}": b for number, (_, b) in enumerate(policy.layers)}
    with path.open("wb") as file:
        np.savez(file, mean=policy.mean, std=policy.std, **arrays)  # type: ignore[arg-type, unused-ignore]


def read_policy(path: Path) -> PolicyNetwork:
    """Read a policy; nothing in the file is executed.

    Raises:
        ConfigError: the file cannot be read, or holds no policy.
    """
    try:
        stored = read_arrays(path, _MOST_BYTES)
        numbers = range(sum(name.startswith("w") for name in stored))
        layers = [(stored[f"w{number}"], stored[f"b{number}"]) for number in numbers]
        return PolicyNetwork(layers, stored["mean"], stored["std"])
    except OSError as exc:
        raise ConfigError(
            f"{path}: cannot be read: {exc.strerror or exc}. Check the path"
        ) from None
    except (ValueError, KeyError) as exc:
        raise ConfigError(f"{path}: is not a policy: {exc}. Write it with write_policy") from None


class LearnedPilots:
    """Factory of pilots that a policy flies, with the vehicle of ``vil/Race-v0``.

    Attributes:
        model: the vehicle.
    """

    def __init__(self, policy: PolicyNetwork) -> None:
        self.model: Final = race_model()
        self._policy: Final = policy

    def __call__(self, courses: Sequence[Course], model: Model) -> LearnedPilot:
        """Return a pilot of one vehicle on each course."""
        assert isinstance(model, FlightmareQuadrotor)
        return LearnedPilot(self._policy, courses, model)


class LearnedPilot:
    """Pilot that asks a policy 50 times a second; it counts gates itself, as the task does."""

    def __init__(
        self, policy: PolicyNetwork, courses: Sequence[Course], model: FlightmareQuadrotor
    ) -> None:
        self.until_s: FloatArray = np.array(
            [one.rules.timeout_s or _GATE_S * len(one.order) * one.laps for one in courses]
        )
        self._policy = policy
        self._courses = courses
        self._weight_n: Final = model.parameters.mass_kg * model.gravity_mps2
        self._orders: Final = [race_order(one) for one in courses]
        self._targets: Final = [
            race_targets(one, order) for one, order in zip(courses, self._orders, strict=True)
        ]
        self._passed = [0] * len(courses)
        self._before_m: FloatArray | None = None
        self._next_s = 0.0
        self._thrusts_n: FloatArray = np.zeros((len(courses), _ACTION))

    def __call__(self, t_s: float, x: FloatArray) -> FloatArray:
        """Return rotor thrusts, (n, 4), N."""
        if t_s < self._next_s - 1e-9:
            return self._thrusts_n
        if self._before_m is None:
            self._next_s = t_s + _STEP_S
        else:
            self._next_s += _STEP_S
            self._count(self._before_m, x[:, 0:3])
        self._before_m = x[:, 0:3].copy()
        rows = list(enumerate(self._passed))
        target = np.array([self._targets[row][0][due] for row, due in rows])
        direction = np.array([self._targets[row][1][due] for row, due in rows])
        after = np.array([self._targets[row][0][due + 1] for row, due in rows])
        actions = self._policy(race_observation(x, target, direction, after))
        self._thrusts_n = race_thrusts(self._weight_n, actions)
        return self._thrusts_n

    def _count(self, before_m: FloatArray, after_m: FloatArray) -> None:
        for row, (course, order) in enumerate(zip(self._courses, self._orders, strict=True)):
            due = self._passed[row]
            if due < len(order):
                through = course.crossings(before_m[row : row + 1], after_m[row : row + 1]).passed
                self._passed[row] += int(through[0, order[due]])
