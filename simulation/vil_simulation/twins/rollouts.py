"""Rollouts of a vehicle's model from recorded poses under recorded commands, in many windows at
once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import q_conj, q_exp, q_log, q_mul, q_normalize
from vil_bridge.core.types import FloatArray
from vil_bridge.world.twin.pose_series import LONGEST_GAP_S, PoseSeries
from vil_simulation.vehicles.flightgoggles.model import FlightGogglesMulticopter
from vil_simulation.vehicles.flightmare.model import FlightmareQuadrotor
from vil_simulation.vehicles.model import Model

BODY: Final = 13
ERROR: Final = 12
"""Position, velocity, rotation (body) and angular rate: errors of a rigid body's state."""
_P: Final = slice(0, 3)
_Q: Final = slice(6, 10)
_WARM_UP_S: Final = 0.4
"""Commands before a window that rotors and rate controllers remember."""
_HALF_FIT_S: Final = 0.05
_INDEXED: Final = re.compile(r"(\w+)\[(\d)\]")


@dataclass(frozen=True, eq=False)
class CommandLog:
    """Commands that a vehicle obeyed; each holds until the next.

    Attributes:
        t_s: shape (k,), strictly increasing. values: shape (k, du), in the order of the model's
            mode.

    Raises:
        ValueError: no commands, shapes that do not fit, or times that do not increase.
    """

    t_s: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        if not len(self.t_s) or self.values.ndim != 2 or len(self.values) != len(self.t_s):
            raise ValueError(f"commands have shapes {self.t_s.shape} and {self.values.shape}")
        if not (np.diff(self.t_s) > 0.0).all():
            raise ValueError("times of commands must strictly increase")

    def means(self, t_s: FloatArray, step_s: float, delay_s: float) -> FloatArray:
        """Return the mean of the delayed commands over the steps that begin at ``t_s`` (any shape),
        (..., du).

        The mean is continuous in the delay, so that the delay can be fitted.
        """
        ends = np.append(self.t_s, max(self.t_s[-1], float(t_s.max()) + step_s) + 1.0)
        begin = t_s - delay_s
        end = t_s - delay_s + step_s
        columns = []
        for column in self.values.T:
            area = np.concatenate(([0.0], np.cumsum(column * np.diff(ends))))
            before = np.minimum(begin, ends[0]) * column[0], np.minimum(end, ends[0]) * column[0]
            columns.append(
                (np.interp(end, ends, area) + before[1] - np.interp(begin, ends, area) - before[0])
                / step_s
            )
        return np.stack(columns, axis=-1)


class FlightWindows(NamedTuple):
    """Pieces of a flight without gaps, all of m poses.

    Attributes:
        begin_s: shape (k,). t_s: shape (k, m), from 0 in each. p_m: shape (k, m, 3). q_xyzw: shape
            (k, m, 4).
        body: shape (k, 13), states at the begin, estimated from the poses around it.
    """

    begin_s: FloatArray
    t_s: FloatArray
    p_m: FloatArray
    q_xyzw: FloatArray
    body: FloatArray

    def part(self, rows: slice) -> FlightWindows:
        """Return some of the windows."""
        return FlightWindows(*(values[rows] for values in self))


def windows_of(poses: PoseSeries, commands: CommandLog, length_s: float) -> FlightWindows:
    """Cut a flight into windows, one after another, that lie within the commands and hold no gap of
    the tracking.

    Raises:
        ValueError: fewer than three windows.
    """
    first_s = max(commands.t_s[0] + _WARM_UP_S, poses.t_s[0] + _HALF_FIT_S)
    found = []
    at = int(np.searchsorted(poses.t_s, first_s))
    while at < len(poses.t_s):
        end = int(np.searchsorted(poses.t_s, poses.t_s[at] + length_s))
        if end >= len(poses.t_s) or poses.t_s[end - 1] > commands.t_s[-1]:
            break
        if np.diff(poses.t_s[at - 1 : end + 1]).max() <= LONGEST_GAP_S and end - at > 8:
            found.append((at, end))
        at = end
    if len(found) < 3:
        raise ValueError(
            f"the flight has {len(found)} windows of {length_s} s with poses and "
            "commands; at least three are wanted"
        )
    m = min(end - at for at, end in found)
    rows = np.array([at for at, _ in found])[:, None] + np.arange(m)
    begin_s = poses.t_s[rows[:, 0]]
    body = np.array([_state_at(poses, float(t_s)) for t_s in begin_s])
    return FlightWindows(
        begin_s, poses.t_s[rows] - begin_s[:, None], poses.p_m[rows], poses.q_xyzw[rows], body
    )


def _state_at(poses: PoseSeries, t_s: float) -> FloatArray:
    """Return a body's state (13,) from parabolas through the poses around an instant."""
    near = np.flatnonzero(np.abs(poses.t_s - t_s) <= _HALF_FIT_S)
    if len(near) < 4:
        near = np.clip(np.searchsorted(poses.t_s, t_s) + np.arange(-2, 3), 0, len(poses.t_s) - 1)
    dt_s = poses.t_s[near] - t_s
    q = poses.q_xyzw[near[np.abs(dt_s).argmin()]]
    turns = q_log(q_mul(q_conj(q), poses.q_xyzw[near]))
    design = np.column_stack((np.ones(len(near)), dt_s, dt_s**2))
    fit: FloatArray = np.linalg.lstsq(
        design, np.column_stack((poses.p_m[near], turns)), rcond=None
    )[0].astype(np.float64)
    attitude = q_mul(q, q_exp(fit[0, 3:]))
    return np.concatenate((fit[0, :3], fit[1, :3], attitude, fit[1, 3:]))


def moved(body: FloatArray, error: FloatArray) -> FloatArray:
    """Return states (n, 13) changed by errors (n, 12).

    Position, velocity, rotation (body), angular rate.
    """
    q = q_mul(body[:, 6:10], q_exp(error[:, 6:9]))
    return np.column_stack(
        (body[:, :6] + error[:, :6], q_normalize(q), body[:, 10:] + error[:, 9:])
    )


def commands_in(
    windows: FlightWindows, commands: CommandLog, dt_s: float, delay_s: float
) -> FloatArray:
    """Return what a model is commanded in every window, step by step and from the warm-up on,.

    Steps, k, du.
    """
    t_s = windows.begin_s + dt_s * np.arange(-_warm_up(dt_s), _steps(windows, dt_s))[:, None]
    return commands.means(t_s, dt_s, delay_s)


def roll(
    model: Model, windows: FlightWindows, u: FloatArray, body: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Simulate every window from several states at its begin.

    Args:
        model: in the mode of the commands.
        windows: k of them, of m poses.
        u: of :func:`commands_in`.
        body: shape (r, k, 13).

    Returns:
        Positions (r, k, m, 3) and attitudes (r, k, m, 4) at the instants of the poses.
    """
    dt_s = float(model.dt_s)
    r, k = body.shape[:2]
    warm = _warm_up(dt_s)
    steps = _steps(windows, dt_s)
    x = model.initial(k)
    step = _stepper(model)
    around = model.calm(k)
    for i in range(warm):
        x[:, :BODY] = windows.body
        x = step(x, u[i], around, dt_s)
    x = np.tile(x, (r, 1))
    x[:, :BODY] = body.reshape(-1, BODY)
    around = np.tile(around, (r, 1))
    u = np.tile(u[warm:], (1, r, 1))
    path = np.empty((steps + 1, r * k, _Q.stop))
    for i in range(steps):
        path[i] = x[:, : _Q.stop]
        x = step(x, u[i], around, dt_s)
    path[steps] = x[:, : _Q.stop]
    return _at(path.reshape(steps + 1, r, k, _Q.stop), windows.t_s / dt_s)


def _warm_up(dt_s: float) -> int:
    return round(_WARM_UP_S / dt_s)


def _steps(windows: FlightWindows, dt_s: float) -> int:
    return int(np.ceil(windows.t_s.max() / dt_s)) + 1


def _stepper(model: Model) -> Callable[[FloatArray, FloatArray, FloatArray, float], FloatArray]:
    """Return the compiled step where there is one; it may change the states that it is given."""
    native = model.native()
    if native is None:
        return model.step

    def step(x: FloatArray, u: FloatArray, around: FloatArray, dt_s: float) -> FloatArray:
        native(x, u, around, dt_s, 1)
        return x

    return step


def _at(path: FloatArray, step: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the poses of a path of states (steps, r, k, 10) at fractional steps (k, m)."""
    index: npt.NDArray[np.int64] = np.minimum(step.astype(np.int64), len(path) - 2)
    share = (step - index)[..., None, None]
    columns = np.arange(path.shape[2])[:, None]
    before = path[index, :, columns]
    after = path[index + 1, :, columns]  # (k, m, r, 10), as before
    mixed = ((1.0 - share) * before + share * after).transpose(2, 0, 1, 3)
    return mixed[..., _P], q_normalize(mixed[..., _Q])


def with_values(parameters: Any, values: Mapping[str, float]) -> Any:
    """Return parameters with other values; ``name[i]`` is a component of a vector.

    Raises:
        ValueError: no such parameter, or a value that the model cannot take.
    """
    changes: dict[str, Any] = {}
    for name, value in values.items():
        indexed = _INDEXED.fullmatch(name)
        field = indexed[1] if indexed else name
        if not hasattr(parameters, field):
            raise ValueError(f"{type(parameters).__name__} has no parameter {field!r}")
        new: Any = float(value)
        if indexed:
            row = list(changes.get(field, getattr(parameters, field)))
            row[int(indexed[2])] = new
            new = tuple(row)
        changes[field] = new
    return replace(parameters, **changes)


def value_of(parameters: Any, name: str) -> float:
    """Return the value of a parameter; ``name[i]`` is a component of a vector.

    Raises:
        ValueError: no such parameter, or one that differs by motor.
    """
    indexed = _INDEXED.fullmatch(name)
    try:
        if indexed is None:
            return float(getattr(parameters, name))
        return float(getattr(parameters, indexed[1])[int(indexed[2])])
    except (AttributeError, TypeError, IndexError):
        raise ValueError(
            f"{type(parameters).__name__} has no parameter {name!r} of one number"
        ) from None


@singledispatch
def with_parameters(model: Model, parameters: Any) -> Model:  # noqa: ARG001
    """Return the same model with other parameters.

    Register your own with ``with_parameters.register``.

    Raises:
        TypeError: a model that is not known here.
    """
    raise TypeError(
        f"parameters of {type(model).__name__} are not known: register it with "
        "with_parameters.register"
    )


@with_parameters.register
def _(model: FlightGogglesMulticopter, parameters: Any) -> Model:
    mode: Any = model.mode
    return FlightGogglesMulticopter(
        parameters,
        mode=mode,
        integrator=model.integrator,
        compat=model.compat,
        rate_gains=model.rate_gains,
        waypoint_gains=model.waypoint_gains,
    )


@with_parameters.register
def _(model: FlightmareQuadrotor, parameters: Any) -> Model:
    mode: Any = model.mode
    return FlightmareQuadrotor(
        parameters, mode, longest_substep_s=model.longest_substep_s, compat=model.compat
    )
