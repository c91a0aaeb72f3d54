"""Parts of sensors: rate, latency and correlated noise, for n vehicles at once."""

from __future__ import annotations

import math
from collections import deque
from fractions import Fraction
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.elementary import exp, expm1
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import Compat

_T = TypeVar("_T")

_ROUNDING_NS: Final = 1


class SampleSchedule:
    """Schedule of a sensor's measurements.

    ``startup_s`` after the start, then ``rate_hz`` times a second.

    Instants lie on a grid, so that the rate holds on average whatever the simulation's step. AirSim
    counts from the newest measurement (50 Hz becomes 47.6 at steps of 3 ms) and lets the first one
    wait for an interval where there is no startup delay.

    Args:
        rate_hz: None = whenever time went on, once ``startup_s`` has passed.

    Raises:
        ValueError: a rate that is not positive and finite, or a delay that is negative.
    """

    def __init__(
        self, rate_hz: float | None, startup_s: float = 0.0, compat: Compat = None
    ) -> None:
        if rate_hz is not None and not 0.0 < rate_hz < math.inf:
            raise ValueError(f"rate_hz must be positive, got {rate_hz}")
        if not 0.0 <= startup_s < math.inf:
            raise ValueError(f"startup_s must not be negative, got {startup_s}")
        self._rate = None if rate_hz is None else Fraction(rate_hz)
        self._startup_ns = round(startup_s * NS_PER_S)
        self._compat = compat
        self.start(0)

    def start(self, t_ns: int) -> None:
        """Begin to count at a time."""
        self._first_ns = t_ns + self._startup_ns
        self._measured = 0
        self._next_ns = self._first_ns
        if self._compat is not None and self._rate is not None and not self._startup_ns:
            self._next_ns += round(NS_PER_S / self._rate)

    def due(self, t_ns: int) -> bool:
        """Return True if it measures now, at most once for each instant of the grid.

        Times must not fall.
        """
        if t_ns < self._next_ns - _ROUNDING_NS:
            return False
        if self._rate is None:
            self._next_ns = t_ns + 1 + _ROUNDING_NS
            return True
        if self._compat is not None:
            self._next_ns = t_ns + round(NS_PER_S / self._rate)
            return True
        passed = int((t_ns + _ROUNDING_NS - self._first_ns) * self._rate // NS_PER_S)
        self._measured = max(self._measured, passed) + 1
        self._next_ns = self._first_ns + round(self._measured * NS_PER_S / self._rate)
        return True


class LatencyLine(Generic[_T]):
    """Queue of measurements until their release; at most one item at each update, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, _T]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, release_ns: int, item: _T) -> None:
        """Put an item in, to come out at or after a time."""
        self._waiting.append((release_ns, item))

    def release(self, t_ns: int) -> _T | None:
        """Return the oldest item if it is due, else None."""
        if self._waiting and self._waiting[0][0] <= t_ns:
            return self._waiting.popleft()[1]
        return None

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


class GaussMarkov:
    """Noise that forgets (Ornstein-Uhlenbeck).

    X <- a x + s sqrt(1 - a^2) n with a = exp(-dt / tau).

    Its deviation is ``sigma`` at any step length. AirSim multiplies n by s (1 - a), papers and code
    alike: the deviation then is s sqrt((1 - a) / (1 + a)), thousands of times too small at short
    steps.

    Args:
        tau_s: correlation time, of any shape that broadcasts to ``shape``.
        sigma: deviation, likewise.
        shape: of the state.

    Attributes:
        x: the state, which begins at 0.
    """

    def __init__(
        self,
        tau_s: npt.ArrayLike,
        sigma: npt.ArrayLike,
        shape: tuple[int, ...],
        compat: Compat = None,
    ) -> None:
        self._tau_s = np.asarray(tau_s, dtype=np.float64)
        if not (self._tau_s > 0.0).all():
            raise ValueError(f"tau_s must be positive, got {self._tau_s}")
        self._sigma = np.asarray(sigma, dtype=np.float64)
        self._compat = compat
        self.x: FloatArray = np.zeros(shape)

    def start(self, normals: FloatArray) -> None:
        """Begin as if it had always run, from standard normal numbers of the state's shape.

        AirSim's begins at 0.
        """
        if self._compat is not None:
            self.x = np.zeros(self.x.shape)
        else:
            self.x = self._sigma * normals

    def advance(self, dt_s: float, normals: FloatArray) -> FloatArray:
        """Return the state dt_s later, from standard normal numbers of its shape."""
        a = exp(-dt_s / self._tau_s)
        fresh = 1.0 - a if self._compat is not None else np.sqrt(-expm1(-2.0 * dt_s / self._tau_s))
        self.x = np.asarray(a * self.x + self._sigma * fresh * normals)
        return self.x
