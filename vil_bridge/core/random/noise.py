"""Random numbers that are a function of (seed, stream, vehicle, step).

Nothing is stored, nothing depends on order.

Generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
2011). Normal numbers: the inverse of the normal distribution by Wichura's AS 241 (PPND16), with a
logarithm of our own, since those of mathematical libraries differ in their last bit. The same seed
gives the same bits on every machine, with and without numba, in any batch.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.compile import has_numba
from vil_bridge.core.random import philox
from vil_bridge.core.types import FloatArray

_Words = npt.NDArray[np.uint64]

_MASK: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_MOST_VEHICLES: Final = 1 << 32
_MOST_STEPS: Final = 1 << 64


class NoiseStream:
    """Random numbers of one purpose (the gyros of a fleet, its gusts).

    Streams of one seed are independent.

    Args:
        seed: of the whole simulation, not negative. stream: number of the purpose, not negative.

    Attributes:
        key: what the generator is keyed with, (2,) uint64 of 32 bits each.

    Raises:
        ValueError: a negative number.
    """

    def __init__(self, seed: int, stream: int) -> None:
        if seed < 0 or stream < 0:
            raise ValueError(f"seed and stream must not be negative, got {seed} and {stream}")
        self.seed: Final = seed
        self.stream: Final = stream
        words = np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(2, np.uint32)
        self.key: Final[_Words] = words.astype(np.uint64)

    def normals(
        self, step: int, vehicles: int | npt.ArrayLike, k: int, *, compiled: bool = True
    ) -> FloatArray:
        """Return independent standard normal numbers, shape (n, k).

        Args:
            step: number of the instant, 0 to 2^64 - 1.
            vehicles: identities of the vehicles, shape (n,), each 0 to 2^32 - 1; a number n means 0
                to n - 1.
            k: how many for each.
            compiled: with numba where it is installed; its import costs more than a draw that is
                made once.

        Raises:
            ValueError: a number is out of range.
        """
        return self._draw(step, vehicles, k, normal=True, compiled=compiled)

    def uniforms(
        self, step: int, vehicles: int | npt.ArrayLike, k: int, *, compiled: bool = True
    ) -> FloatArray:
        """Return independent numbers, uniform strictly between 0 and 1, shape (n, k).

        Arguments as :meth:`normals`.
        """
        return self._draw(step, vehicles, k, normal=False, compiled=compiled)

    def _draw(
        self, step: int, vehicles: int | npt.ArrayLike, k: int, *, normal: bool, compiled: bool
    ) -> FloatArray:
        if not 0 <= step < _MOST_STEPS:
            raise ValueError(f"a step is a number from 0 to 2^64 - 1, not {step}")
        who = _identities(vehicles)
        if not compiled or not has_numba():
            return _draw_numpy(self.key, np.uint64(step), who, k, normal=normal)
        from vil_bridge.core.random.kernel import fill

        out = np.empty((len(who), k))
        fill(self.key, np.uint64(step), who, normal, out)
        return out


def normal_quantile(u: FloatArray) -> FloatArray:
    """Return the standard normal quantile of u, 0 < u < 1; any shape, error about 1e-15."""
    q = u - 0.5
    quantile = philox.central_normal(np.clip(q, -0.425, 0.425))
    tail = np.abs(q) > 0.425
    smaller = np.minimum(u, 1.0 - u)[tail]
    root = np.sqrt(-natural_log(smaller))
    size = np.where(root <= 5.0, philox.near_tail_normal(root), philox.far_tail_normal(root))
    quantile[tail] = np.copysign(size, q[tail])
    return np.asarray(quantile)


def natural_log(x: FloatArray) -> FloatArray:
    """Return the natural logarithm of positive normal numbers of any shape, (1,) at least.

    The same bits everywhere.
    """
    k, m = philox.parts_of_bits(x.view(np.int64))
    return np.asarray(philox.log_of_parts(k, m.view(np.float64)))


def _identities(vehicles: int | npt.ArrayLike) -> _Words:
    who = np.arange(vehicles) if isinstance(vehicles, int) else np.asarray(vehicles)
    if who.ndim != 1 or (who.size and not (who.min() >= 0 and who.max() < _MOST_VEHICLES)):
        raise ValueError("vehicles are numbers from 0 to 2^32 - 1, shape (n,)")
    return who.astype(np.uint64)


def _draw_numpy(key: _Words, step: np.uint64, who: _Words, k: int, *, normal: bool) -> FloatArray:
    blocks = np.arange((k + 1) // 2, dtype=np.uint64)
    a, b, c, d = philox.philox4x32(
        blocks, who[:, None], step & _MASK, step >> _HALF, key[0], key[1]
    )
    pairs = np.stack((philox.unit_interval(a, b), philox.unit_interval(c, d)), axis=-1)
    u = pairs.reshape(len(who), 2 * len(blocks))[:, :k]
    return normal_quantile(u) if normal else np.ascontiguousarray(u)
