"""Folds of cloth: one list of creases gives both the mesh and the normal map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray

_REACH: Final = 7.0
"""Half widths beyond which a crease is flat to the last digit."""


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Creases of a piece of cloth that is wrapped around a part of the body.

    Attributes:
        u, v: middle of each, shares of the texture's width and height, (n,).
        long: half length in u. thin: half width in v. tilt: v per u. height_m: negative ones are
            valleys, (n,).
    """

    u: FloatArray
    v: FloatArray
    long: FloatArray
    thin: FloatArray
    tilt: FloatArray
    height_m: FloatArray

    @classmethod
    def scattered(
        cls,
        seed: int,
        places: dict[float, tuple[int, float]],
        height_m: float,
        length_m: float,
        tilt: float = 0.25,
    ) -> Folds:
        """Scatter creases about heights of a piece of cloth.

        Args:
            seed: of the random numbers.
            places: number of creases and spread in v by their height, v from the top.
            height_m: the largest.
            length_m: of the piece, from the top to the bottom.
            tilt: the steepest, v per u.
        """
        rng = np.random.default_rng(seed)
        v = np.concatenate(
            [rng.normal(at, spread, count) for at, (count, spread) in places.items()]
        )
        count = len(v)
        return cls(
            rng.uniform(0.0, 1.0, count),
            v,
            rng.uniform(0.10, 0.26, count),
            rng.uniform(0.010, 0.020, count) / length_m,
            rng.uniform(-tilt, tilt, count),
            rng.choice([-0.7, 1.0], count) * rng.uniform(0.5, 1.0, count) * height_m,
        )

    def height(self, u: FloatArray, v: FloatArray) -> FloatArray:
        """Return heights in metres, (n, m), at coordinates u (1, m), which wrap around, and v.

        N, 1.
        """
        total = np.zeros((v.shape[0], u.shape[1]))
        for u0, v0, long, thin, tilt, height_m in zip(
            self.u, self.v, self.long, self.thin, self.tilt, self.height_m, strict=True
        ):
            near = np.abs(v[:, 0] - v0) < 0.5 * abs(tilt) + _REACH * thin
            across = (u - u0 + 0.5) % 1.0 - 0.5
            down = v[near] - v0 - tilt * across
            total[near] += height_m * np.exp(-((across / long) ** 2) - (down / thin) ** 2)
        return total
