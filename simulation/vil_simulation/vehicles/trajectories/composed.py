"""Trajectories made from others: at another pace, elsewhere, one after another."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import yaw_matrix
from vil_bridge.core.matrices import product
from vil_bridge.core.types import FloatArray
from vil_bridge.interfaces.trajectory import ORDERS, Polynomials, Trajectory, padded

_SAME: Final = 1e-6


class Retimed(Trajectory):
    """A curve flown at a pace of its own: at time t where the curve is at ``pace(t)``.

    Args:
        curve: the geometry; its own time is a mere parameter.
        pace: polynomials of one channel from time to the curve's parameter.
        repeat_s: the last seconds that repeat, see :class:`Trajectory`.

    Raises:
        ValueError: the pace leaves the curve.
    """

    def __init__(self, curve: Trajectory, pace: Polynomials, repeat_s: float = 0.0) -> None:
        self._curve: Final = curve
        self._pace: Final = pace
        self.duration_s = pace.duration_s
        self.repeat_s = repeat_s
        inner = self._times_of(curve.knots_s[1:-1])
        self.knots_s = np.unique(np.concatenate((pace.knots_s, inner)))
        ends = pace.derivatives(pace.knots_s)[:, 0, 0]
        if ends.min() < -_SAME or ends.max() > curve.duration_s + _SAME:
            raise ValueError(
                f"the pace runs from {ends.min():g} to {ends.max():g}, the curve to "
                f"{curve.duration_s:g}"
            )

    def derivatives(self, t_s: FloatArray) -> FloatArray:
        """See :class:`Trajectory`; the chain rule to the fourth order (Faa di Bruno)."""
        s = self._pace.derivatives(t_s)
        f = self._curve.derivatives(np.clip(s[:, 0, 0], 0.0, self._curve.duration_s))
        s1, s2, s3, s4 = (s[:, k] for k in range(1, ORDERS))
        square = s1 * s1
        rows = np.empty_like(f)
        rows[:, 0] = f[:, 0]
        rows[:, 1] = f[:, 1] * s1
        rows[:, 2] = f[:, 2] * square + f[:, 1] * s2
        rows[:, 3] = f[:, 3] * (square * s1) + 3.0 * f[:, 2] * s1 * s2 + f[:, 1] * s3
        rows[:, 4] = f[:, 4] * (square * square) + 6.0 * f[:, 3] * square * s2
        rows[:, 4] += f[:, 2] * (3.0 * s2 * s2 + 4.0 * s1 * s3) + f[:, 1] * s4
        rows[:, 3:, 3] = 0.0
        return rows

    def _times_of(self, parameters: FloatArray) -> FloatArray:
        """Return when the pace, which never turns back, passes parameters of the curve.

        By bisection.
        """
        low = np.zeros(len(parameters))
        high = np.full(len(parameters), self.duration_s)
        for _ in range(60 if len(parameters) else 0):
            middle = 0.5 * (low + high)
            passed = self._pace.derivatives(middle)[:, 0, 0] >= parameters
            low = np.where(passed, low, middle)
            high = np.where(passed, middle, high)
        return high


def slowed(trajectory: Trajectory, factor: float) -> Trajectory:
    """Return the same curve, flown in ``factor`` times the time.

    Raises:
        ValueError: a factor that is not positive.
    """
    if not factor > 0.0:
        raise ValueError(f"the factor of time must be positive, got {factor}")
    if isinstance(trajectory, Polynomials):
        return Polynomials(
            trajectory.knots_s * factor, trajectory.coefficients, trajectory.repeat_s * factor
        )
    pace = Polynomials([0.0, trajectory.duration_s * factor], [[[0.0], [trajectory.duration_s]]])
    return Retimed(trajectory, pace, trajectory.repeat_s * factor)


class WithHeading(Trajectory):
    """A curve with other headings.

    Args:
        curve: the positions.
        yaw_rad: polynomials of one channel over the same time.
    """

    def __init__(self, curve: Trajectory, yaw_rad: Polynomials) -> None:
        self._curve: Final = curve
        self._yaw: Final = yaw_rad
        self.duration_s = curve.duration_s
        self.repeat_s = curve.repeat_s
        self.knots_s = np.unique(np.concatenate((curve.knots_s, yaw_rad.knots_s)))

    def derivatives(self, t_s: FloatArray) -> FloatArray:
        """See :class:`Trajectory`."""
        rows = self._curve.derivatives(t_s)
        rows[:, :3, 3] = self._yaw.derivatives(t_s)[:, :3, 0]
        return rows


class Transformed(Trajectory):
    """A curve turned about the vertical axis of its origin, then moved.

    Args:
        offset_m: (3,), where its origin comes to lie. turn_rad: about z, yaw turns with it.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        offset_m: npt.ArrayLike = (0.0, 0.0, 0.0),
        turn_rad: float = 0.0,
    ) -> None:
        self._inner: Final = trajectory
        self._turn: Final = np.eye(4)
        self._turn[:3, :3] = yaw_matrix(turn_rad)
        self._offset: Final = np.append(np.asarray(offset_m, dtype=np.float64), turn_rad)
        if self._offset.shape != (4,):
            raise ValueError("offset_m has three components")
        self.duration_s = trajectory.duration_s
        self.repeat_s = trajectory.repeat_s
        self.knots_s = trajectory.knots_s

    def derivatives(self, t_s: FloatArray) -> FloatArray:
        """See :class:`Trajectory`."""
        rows: FloatArray = product(self._inner.derivatives(t_s), self._turn.T)
        rows[:, 0] += self._offset
        return rows

    def polynomials(self) -> Polynomials:
        """See :class:`Trajectory`."""
        inner = self._inner.polynomials()
        coefficients = product(inner.coefficients, self._turn.T)
        coefficients[:, 0] += self._offset
        return Polynomials(inner.knots_s, coefficients, self.repeat_s)


class Concatenated(Trajectory):
    """Trajectories one after another; repeats what its last one repeats.

    Raises:
        ValueError: nothing to join, one that never ends before the last, or one does not begin
            where the one before it ends.
    """

    def __init__(self, *parts: Trajectory) -> None:
        if not parts:
            raise ValueError("nothing to join")
        for number, (before, after) in enumerate(pairwise(parts), 1):
            end = before.derivatives(np.array([before.duration_s]))[0, 0]
            begin = after.derivatives(np.zeros(1))[0, 0]
            if np.abs(end - begin).max() > _SAME:
                raise ValueError(
                    f"part {number} ends at {np.round(end, 3).tolist()} (x, y, z, yaw), "
                    f"the next begins at {np.round(begin, 3).tolist()}"
                )
        self._parts: Final = parts
        self._starts: Final = np.cumsum([0.0, *(part.duration_s for part in parts)])
        self.duration_s = float(self._starts[-1])
        self.repeat_s = parts[-1].repeat_s
        self.knots_s = np.unique(
            np.concatenate(
                [start + part.knots_s for start, part in zip(self._starts, parts, strict=False)]
            )
        )

    def derivatives(self, t_s: FloatArray) -> FloatArray:
        """See :class:`Trajectory`."""
        which = np.clip(np.searchsorted(self._starts, t_s, "right") - 1, 0, len(self._parts) - 1)
        rows = np.empty((len(t_s), ORDERS, 4))
        for number in np.unique(which):
            mine = which == number
            part = self._parts[number]
            rows[mine] = part.derivatives(
                np.clip(t_s[mine] - self._starts[number], 0.0, part.duration_s)
            )
        return rows

    def polynomials(self) -> Polynomials:
        """See :class:`Trajectory`."""
        parts = [part.polynomials() for part in self._parts]
        degrees = max(part.coefficients.shape[1] for part in parts)
        return Polynomials(
            np.concatenate(([0.0], np.cumsum(np.concatenate([part.lengths_s for part in parts])))),
            np.concatenate([padded(part.coefficients, degrees) for part in parts]),
            self.repeat_s,
        )


def hover(p_world_m: npt.ArrayLike, yaw_rad: float = 0.0, duration_s: float = 1.0) -> Polynomials:
    """Stay at a point."""
    point = np.append(np.asarray(p_world_m, dtype=np.float64), yaw_rad)
    return Polynomials([0.0, duration_s], point.reshape(1, 1, 4))
