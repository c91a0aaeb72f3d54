"""Vehicles of one model flying together: states, commands under way, environment, time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from fractions import Fraction
from operator import index as index_of
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.compile import has_numba
from vil_bridge.core.geometry import q_normalize
from vil_bridge.core.installation import install_command
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.disturbances import ENVIRONMENT, Disturbance
from vil_simulation.vehicles.model import Model, NativeStep, TrueState

Engine = Literal["auto", "numpy", "native"]

_Which = npt.NDArray[np.int64]

_MOST_WAITING: Final = 100_000


class Fleet:
    """n vehicles of one model, advanced together.

    Time is the number of steps made: ``t_ns`` never drifts. A command takes effect in the first
    step that begins at or after its own time plus the delay; of those that fall due together the
    newest wins, and one that is due already when it comes wins over what was in effect.

    Args:
        delay_s: from a command's time to its effect.
        disturbances: wind, noise, ground effect..., applied in this order before every step.
        engine: ``native`` = compiled, ``numpy`` = the reference, ``auto`` = compiled where there is
            a kernel.

    Attributes:
        x: states (n, dx); may be changed or replaced between steps, never held across them: the
            NumPy engine makes new ones. u: commands in effect (n, du).
        around: environment of the newest step (n, 12). steps: made so far.
        disturbances: as given; the list may be changed between steps.

    Raises:
        ValueError: no vehicles, a step that is not positive, a negative delay, or ``native``
            without a kernel.
    """

    def __init__(
        self,
        model: Model,
        n: int = 1,
        *,
        dt_s: Fraction | None = None,
        delay_s: float = 0.0,
        disturbances: Sequence[Disturbance] = (),
        engine: Engine = "auto",
    ) -> None:
        if n < 1:
            raise ValueError(f"a fleet has at least one vehicle, not {n}")
        if not delay_s >= 0.0:
            raise ValueError(f"delay_s must not be negative, got {delay_s}")
        self.model: Final = model
        self.n: Final = n
        self.dt_s: Final = model.dt_s if dt_s is None else dt_s
        if not self.dt_s > 0:
            raise ValueError(f"dt_s must be positive, got {self.dt_s}")
        self._ns_per_step: Final = (self.dt_s * NS_PER_S).as_integer_ratio()
        self._step_s: Final = float(self.dt_s)
        self.x = model.initial(n)
        self.u = model.neutral(n)
        self.around = model.calm(n)
        self._known: tuple[FloatArray | None, ...] = (None, None, None)
        self.steps = 0
        self._calm = self.around.copy()
        self.disturbances: Final = list(disturbances)
        self._delay_ns = round(delay_s * NS_PER_S)
        self._waiting: list[tuple[int, int, _Which, FloatArray]] = []
        self._order = 0
        self._native = _native_of(model, engine)
        compiled = None if self._native is None else model.native_truth()
        self._truth = compiled or model.truth

    @property
    def engine(self) -> Literal["numpy", "native"]:
        """Engine that steps the vehicles."""
        return "numpy" if self._native is None else "native"

    @property
    def t_ns(self) -> int:
        """Simulation time."""
        return self.t_of(self.steps)

    def t_of(self, step: int) -> int:
        """Return simulation time at the beginning of a step."""
        whole, rest = divmod(step * self._ns_per_step[0], self._ns_per_step[1])
        return whole + (2 * rest + whole % 2 > self._ns_per_step[1])

    def command(
        self, u: object, which: int | Sequence[int] | None = None, t_ns: int | None = None
    ) -> None:
        """Command all vehicles, or those of the given indices.

        Args:
            u: shape (du,) or (vehicles, du).
            which: indices of vehicles, None = all.
            t_ns: the command's own time; None = now.

        Raises:
            ValueError: no such vehicle, the shape does not fit, a value is not finite, or too many
                commands are under way.
        """
        index = self._index(which)
        rows = np.array(u, dtype=np.float64)
        size = self.u.shape[1]
        if rows.shape not in ((size,), (1, size), (len(index), size)):
            raise ValueError(
                f"a command to {len(index)} vehicles is ({size},) or ({len(index)}, "
                f"{size}): {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise ValueError("a command must be finite")
        now_ns = self.t_ns
        if t_ns is None:
            t_ns = now_ns
        due_ns = t_ns + self._delay_ns
        if due_ns <= now_ns:
            self._apply_due_commands()
            self.u[index] = rows
            return
        if len(self._waiting) >= _MOST_WAITING:
            raise ValueError(f"{_MOST_WAITING} commands are under way already")
        self._order += 1
        heapq.heappush(self._waiting, (due_ns, self._order, index, rows))

    def place(self, which: int | Sequence[int] | None = None, **fields: object) -> None:
        """Set fields of the state (``p_world_m=...``) of all vehicles, or those of the given
        indices.

        Attitudes are scaled to unit length.

        Raises:
            KeyError: no such field.
            ValueError: no such vehicle, a shape does not fit, a value is not finite, or an attitude
                is zero.
        """
        index = self._index(which)
        for name, value in fields.items():
            columns = self.model.state[name]
            rows = np.asarray(value, dtype=np.float64)
            if not np.isfinite(rows).all():
                raise ValueError(f"{name} must be finite, got {value}")
            if name == "q_world_body":
                if not rows.any(axis=-1).all():
                    raise ValueError("q_world_body must not be zero (identity is (0, 0, 0, 1))")
                rows = q_normalize(rows)
            self.x[index, columns] = rows

    def advance(self, steps: int = 1) -> None:
        """Make steps.

        Raises:
            ValueError: a negative number of them, or x, u or around were replaced by arrays of
                another shape.
        """
        if steps < 0:
            raise ValueError(f"time does not go back: steps must not be negative, got {steps}")
        end = self.steps + index_of(steps)
        self._check()
        while self.steps < end:
            self._apply_due_commands()
            many = 1 if self.disturbances or self._waiting else end - self.steps
            if self.disturbances:
                self._update_environment()
            if self._native is not None:
                self._native(self.x, self.u, self.around, self._step_s, many)
            else:
                for _ in range(many):
                    self.x = self.model.step(self.x, self.u, self.around, self._step_s)
            self.steps += many

    def truth(self) -> TrueState:
        """Return what sensors measure now.

        Raises:
            ValueError: x, u or around were replaced by arrays of another shape.
        """
        self._check()
        return self._truth(self.t_ns, self.x, self.u, self.around)

    def _index(self, which: int | Sequence[int] | None) -> _Which:
        if which is None:
            return np.arange(self.n)
        if isinstance(which, int) and 0 <= which < self.n:
            return np.array([which])
        index = np.atleast_1d(np.asarray(which))
        if index.size and not (
            index.dtype.kind in "iu" and index.min() >= 0 and index.max() < self.n
        ):
            raise ValueError(f"vehicles are numbered from 0 to {self.n - 1}, got {which}")
        return index.astype(np.int64)

    def _check(self) -> None:
        """Let x, u and around be such that kernels can take them.

        Those that were there before are.
        """
        x, u, around = self._known
        if self.x is x and self.u is u and self.around is around:
            return
        self.x = self._checked("x", self.x, self.model.state.size)
        self.u = self._checked("u", self.u, self.model.command.size)
        self.around = self._checked("around", self.around, ENVIRONMENT.size)
        self._known = self.x, self.u, self.around

    def _checked(self, name: str, rows: FloatArray, columns: int) -> FloatArray:
        """Return rows that kernels can take: kernels check neither type nor bounds."""
        if rows.shape != (self.n, columns):
            raise ValueError(
                f"{name} of {self.n} vehicles has shape ({self.n}, {columns}), not {rows.shape}"
            )
        return np.ascontiguousarray(rows, dtype=np.float64)

    def _apply_due_commands(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.t_ns:
            _, _, index, rows = heapq.heappop(self._waiting)
            self.u[index] = rows

    def _update_environment(self) -> None:
        self.around[:] = self._calm
        for disturbance in self.disturbances:
            disturbance.apply(self.steps, self._step_s, self.x, self.around)


def _native_of(model: Model, engine: Engine) -> NativeStep | None:
    native = None if engine == "numpy" else model.native()
    if native is None and engine == "native":
        cure = "engine='auto' flies it by NumPy" if has_numba() else install_command("sim")
        raise ValueError(f"{type(model).__name__} has no compiled kernel here: {cure}")
    return native
