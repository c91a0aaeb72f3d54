"""Identification of a vehicle's parameters: rollouts of its model are fitted to recorded poses.

The flight is cut into windows. In each, the model starts from a state of its own and obeys the
recorded commands. All parameters and all those states are fitted together by Levenberg and
Marquardt's method; the states of a window are projected out of its equations, so the system to
solve has the size of the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from vil_bridge.core.geometry import q_conj, q_log, q_mul
from vil_bridge.core.types import FloatArray
from vil_bridge.world.twin.metrics import rms
from vil_bridge.world.twin.pose_series import PoseSeries
from vil_simulation.twins.rollouts import (
    ERROR,
    CommandLog,
    FlightWindows,
    commands_in,
    moved,
    roll,
    value_of,
    windows_of,
    with_parameters,
    with_values,
)
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor

DELAY: Final = "delay_s"
WINDOW_S: Final = 0.6
_ROUNDS: Final = 30
_SETTLED: Final = 1e-4
_LEAST_SHARE: Final = 0.02
_STATE_STEPS: Final = np.repeat((1e-5, 1e-4, 1e-5, 1e-4), 3)
_POSITION_M: Final = 1e-3
_ROTATION_RAD: Final = 2e-3
_DELAYS: Final = 4
"""Delays whose commands are held: the present one, and those on both sides of it."""
Fittable = FlightGogglesMulticopter | FlightmareQuadrotor


class IdentifiedParameter(NamedTuple):
    """Value of a parameter with its standard deviation; ``start`` is the value before."""

    value: float
    sd: float
    start: float


@dataclass(frozen=True, slots=True)
class IdentifiedModel:
    """Result of an identification.

    Attributes:
        model: with the values found; the delay is not part of it. parameters: by name, ``delay_s``
            among them.
        correlation: shape (p, p), of the parameters' errors, in their order.
        position_m, rotation_rad: root mean squares of what is left, by axis. windows: that were
            fitted.
    """

    model: Fittable
    parameters: Mapping[str, IdentifiedParameter]
    correlation: FloatArray
    position_m: float
    rotation_rad: float
    windows: int

    @property
    def delay_s(self) -> float:
        """Delay from a command to its effect."""
        return self.parameters[DELAY].value


def usual_parameters(model: Fittable) -> tuple[str, ...]:
    """Return the names of mass, drag, motor constants and delay of a model."""
    if isinstance(model, FlightGogglesMulticopter):
        return "mass_kg", "drag_ns2pm2", "thrust_ns2", "torque_nms2", "motor_time_constant_s", DELAY
    drag = tuple(f"drag_linear_nspm[{axis}]" for axis in range(3))
    return "mass_kg", *drag, "thrust_scale", "torque_per_thrust_m", "motor_time_s", DELAY


def identify(
    model: Fittable,
    poses: PoseSeries,
    commands: CommandLog,
    names: Sequence[str] = (),
    *,
    start_delay_s: float = 0.01,
    window_s: float = WINDOW_S,
) -> IdentifiedModel:
    """Fit parameters of a model to a flight.

    Args:
        model: in the mode of the commands; the fit starts from its parameters. Its inertia is taken
            as known: motor speeds and poses alone show thrust over mass and thrust over inertia
            only.
        poses: of the flight.
        commands: that it obeyed, in the same clock.
        names: of the parameters; empty = :func:`usual_parameters`.
        start_delay_s: where the fit of the delay starts.
        window_s: length of the windows.

    Raises:
        ValueError: a parameter is unknown, is 0, or does not show in this flight; or the flight is
            too short.
    """
    fit = _Fit(
        model,
        windows_of(poses, commands, window_s),
        commands,
        names or usual_parameters(model),
        start_delay_s,
    )
    fit.settle()
    fit.weigh()
    fit.settle()
    return fit.result()


def divergence_m(
    model: Fittable,
    poses: PoseSeries,
    commands: CommandLog,
    delay_s: float,
    window_s: float = WINDOW_S,
) -> float:
    """Return the root mean square distance of a twin that starts from the recorded state in
    every window.
    """
    windows = windows_of(poses, commands, window_s)
    u = commands_in(windows, commands, float(model.dt_s), delay_s)
    p_m, _ = roll(model, windows, u, windows.body[None])
    return rms((p_m[0] - windows.p_m).reshape(-1, 3))


def figures_of_model(found: IdentifiedModel) -> dict[str, Any]:
    """Return the result as JSON values."""
    return {
        "parameters": {name: value._asdict() for name, value in found.parameters.items()},
        "correlation": found.correlation.tolist(),
        "position_m": found.position_m,
        "rotation_rad": found.rotation_rad,
        "windows": found.windows,
    }


class _Equations(NamedTuple):
    """Linearised window equations.

    Residuals (k, e), and their slopes by the parameters and by the states.
    """

    r: FloatArray
    by_values: FloatArray
    by_state: FloatArray


class _Fit:
    """A fit under way: values over their starts, and the states of the windows."""

    def __init__(
        self,
        model: Fittable,
        windows: FlightWindows,
        commands: CommandLog,
        names: Sequence[str],
        start_delay_s: float,
    ) -> None:
        self._model = model
        self._windows = windows
        delayed = partial(commands_in, windows, commands, float(model.dt_s))
        self._commands_at = lru_cache(maxsize=_DELAYS)(delayed)
        self._names = tuple(names)
        starts = [
            start_delay_s if name == DELAY else value_of(model.parameters, name) for name in names
        ]
        self._starts = np.array(starts)
        if not (self._starts > 0.0).all():
            zero = self._names[int(np.argmin(self._starts))]
            raise ValueError(
                f"{zero} starts at {self._starts.min()}: give the model a positive value "
                "to start from"
            )
        self._start_delay_s = start_delay_s
        self._shares = np.ones(len(names))
        self._body = windows.body.copy()
        self._sigma = np.repeat((_POSITION_M, _ROTATION_RAD), 3)

    def settle(self) -> None:
        """Take steps until the values hardly change."""
        damping = 1e-3
        equations = self._equations()
        for _ in range(_ROUNDS):
            step, states = _solved(equations, damping)
            shares = np.maximum(self._shares + step, _LEAST_SHARE)
            body = moved(self._body, states)
            r = self._residuals(shares, body[None])[0]
            if (r**2).sum() <= (equations.r**2).sum():
                settled = float(np.abs(shares - self._shares).max()) < _SETTLED
                self._shares = shares
                self._body = body
                damping = max(damping / 5.0, 1e-9)
                equations = self._equations()
                if settled:
                    return
            else:
                damping *= 10.0
                if damping > 1e6:
                    return

    def weigh(self) -> None:
        """Take the noise of positions and of rotations from what is left.

        Only their ratio matters.
        """
        left = self._residuals(self._shares, self._body[None])[0].reshape(-1, 6) * self._sigma
        for part in (slice(0, 3), slice(3, 6)):
            self._sigma[part] = max(1e-9, np.sqrt((left[:, part] ** 2).mean()))

    def result(self) -> IdentifiedModel:
        """Return the values with their uncertainty.

        The standard deviation is the larger of two: that of white noise, and that of the scatter of
        the windows (which holds for errors that are alike within a window: gusts, vibration, what
        the model lacks).

        Raises:
            ValueError: a parameter does not show in this flight.
        """
        equations = self._equations()
        r, slopes = _projected(equations)
        k = len(r)
        p = len(self._names)
        information = np.einsum("kep,keq->pq", slopes, slopes)
        scale = np.sqrt(np.diag(information))
        if not (scale > 0.0).all() or np.linalg.cond(information / np.outer(scale, scale)) > 1e10:
            raise ValueError(
                "not every parameter shows in this flight: fly more briskly, or fit "
                "fewer parameters"
            )
        white = np.linalg.inv(information) * (r**2).sum() / max(1, r.size - ERROR * k - p)
        scores = np.einsum("kep,ke->kp", slopes, r)
        inverse = np.linalg.inv(information)
        scattered = inverse @ (scores.T @ scores) @ inverse * (k / max(1, k - p))
        sd = np.sqrt(np.maximum(np.diag(white), np.diag(scattered)))
        spread = np.sqrt(np.diag(white))
        left = self._residuals(self._shares, self._body[None])[0].reshape(-1, 6) * self._sigma
        values = self._shares * self._starts
        found = zip(
            self._names,
            values.tolist(),
            (sd * self._starts).tolist(),
            self._starts.tolist(),
            strict=True,
        )
        return IdentifiedModel(
            self._model_at(self._shares)[0],
            {
                name: IdentifiedParameter(value, deviation, start)
                for name, value, deviation, start in found
            },
            white / np.outer(spread, spread),
            rms(left[:, :3].ravel()),
            rms(left[:, 3:].ravel()),
            k,
        )

    def _model_at(self, shares: FloatArray) -> tuple[Fittable, float]:
        values = dict(zip(self._names, (shares * self._starts).tolist(), strict=True))
        delay_s = values.pop(DELAY, self._start_delay_s)
        model = with_parameters(self._model, with_values(self._model.parameters, values))
        assert isinstance(model, FlightGogglesMulticopter | FlightmareQuadrotor)
        return model, delay_s

    def _residuals(self, shares: FloatArray, body: FloatArray) -> FloatArray:
        """Return residuals over their noise, (r, k, 6 m), of rollouts from states (r, k, 13)."""
        model, delay_s = self._model_at(shares)
        p_m, q = roll(model, self._windows, self._commands_at(delay_s), body)
        turns = q_log(q_mul(q_conj(np.broadcast_to(self._windows.q_xyzw, q.shape)), q))
        both: FloatArray = np.concatenate((p_m - self._windows.p_m, turns), axis=-1) / self._sigma
        return both.reshape(*body.shape[:2], -1)

    def _equations(self) -> _Equations:
        k = len(self._body)
        errors = np.concatenate((np.zeros((1, ERROR)), np.diag(_STATE_STEPS)))
        body = np.stack([moved(self._body, np.tile(error, (k, 1))) for error in errors])
        rolled = self._residuals(self._shares, body)
        by_state = ((rolled[1:] - rolled[0]) / _STATE_STEPS[:, None, None]).transpose(1, 2, 0)
        columns = []
        for i in range(len(self._names)):
            step = np.zeros(len(self._names))
            step[i] = 1e-3
            ahead, behind = (
                self._residuals(self._shares + s * step, self._body[None])[0] for s in (1.0, -1.0)
            )
            columns.append((ahead - behind) / 2e-3)
        return _Equations(rolled[0], np.stack(columns, axis=-1), by_state)


def _projected(equations: _Equations) -> tuple[FloatArray, FloatArray]:
    """Return residuals (k, e) and slopes by the parameters (k, e, p) without what the windows'
    states explain.
    """
    basis, _ = np.linalg.qr(equations.by_state)
    explained = basis.transpose(0, 2, 1)
    r = equations.r - (basis @ (explained @ equations.r[..., None]))[..., 0]
    return r, equations.by_values - basis @ (explained @ equations.by_values)


def _solved(equations: _Equations, damping: float) -> tuple[FloatArray, FloatArray]:
    """Return the steps of the parameters (p,) and of the states (k, 12)."""
    r, slopes = _projected(equations)
    information = np.einsum("kep,keq->pq", slopes, slopes)
    damped = (
        information + damping * np.diag(np.diag(information)) + 1e-12 * np.eye(len(information))
    )
    step = -np.linalg.solve(damped, np.einsum("kep,ke->p", slopes, r))
    left = equations.r + equations.by_values @ step
    basis, triangle = np.linalg.qr(equations.by_state)
    states = -np.linalg.solve(triangle, basis.transpose(0, 2, 1) @ left[..., None])[..., 0]
    return step, states
