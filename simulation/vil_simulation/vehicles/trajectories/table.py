"""The trajectories of many vehicles, evaluated together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.compile import has_numba
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import (
    Reference,
    Trajectory,
    evaluate,
    folded,
    padded,
)


class Table:
    """Trajectories of many vehicles, evaluated together.

    Polynomials are taken as they are; everything else is turned into them once
    (:meth:`Trajectory.polynomials`).

    Args:
        trajectories: one a vehicle. One object may stand for several: it is stored once.
        native: compiled where numba is installed.

    Raises:
        ValueError: no trajectories.
    """

    def __init__(self, trajectories: Sequence[Trajectory], *, native: bool = True) -> None:
        if not trajectories:
            raise ValueError("a table needs at least one trajectory")
        different = list(dict.fromkeys(trajectories))
        parts = [trajectory.polynomials() for trajectory in different]
        degrees = max(part.coefficients.shape[1] for part in parts)
        ends = np.cumsum([part.duration_s for part in parts])
        which = np.array([different.index(trajectory) for trajectory in trajectories])
        # All pieces stand behind one another on one axis of time, each trajectory from its own
        # start on.
        starts = np.concatenate(([0.0], ends[:-1]))
        counts = np.cumsum([0, *(len(part.lengths_s) for part in parts)])
        self._knots: Final = np.concatenate(
            [s + part.knots_s[:-1] for s, part in zip(starts, parts, strict=True)]
        )
        begins = np.concatenate([part.knots_s[:-1] for part in parts])
        self._spans: Final = np.column_stack(
            (begins, np.concatenate([part.lengths_s for part in parts]))
        )
        self._coefficients: Final = np.concatenate(
            [padded(part.coefficients, degrees) for part in parts]
        )
        self._starts: Final = starts[which]
        self._pieces: Final = np.column_stack((counts[:-1][which], counts[1:][which] - 1))
        self.n: Final = len(trajectories)
        self.durations_s: Final = np.array([part.duration_s for part in parts])[which]
        self.repeats_s: Final = np.array([part.repeat_s for part in parts])[which]
        self._native: Final = native and has_numba()
        self._ends: Final = np.column_stack((self.durations_s, self.repeats_s))

    def at(self, t_s: npt.ArrayLike) -> Reference:
        """Return references of all n vehicles at one time, or each at its own (n,)."""
        t = np.empty(self.n)
        t[:] = t_s
        return self._compiled_at(t) if self._native else self._plain_at(t)

    def _compiled_at(self, t: FloatArray) -> Reference:
        from vil_simulation.vehicles.trajectories.kernel import references

        rows = np.empty((self.n, 18))
        references(t, self._ends, self._pieces, self._spans, self._coefficients, rows)
        return Reference(*(rows[:, k : k + 3] for k in range(0, 15, 3)), *rows[:, 15:].T)

    def _plain_at(self, t: FloatArray) -> Reference:
        inside = folded(t, self.durations_s, self.repeats_s)
        piece = np.searchsorted(self._knots, self._starts + inside, "right") - 1
        piece = np.clip(piece, *self._pieces.T)
        begin, length = self._spans[piece].T
        rows = evaluate((inside - begin) / length, length, self._coefficients[piece])
        moving = (inside == t) | ((self.repeats_s > 0.0) & (t >= 0.0))
        rows[:, 1:] *= moving[:, None, None]
        return Reference.of(rows)
