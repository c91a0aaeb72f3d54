"""Errors of a range sensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vil_bridge.core.types import FloatArray

__all__ = ["RangeNoise"]


@dataclass(frozen=True, slots=True)
class RangeNoise:
    """Normal noise of standard deviation hypot(sigma_m, sigma_share x range), and beams that come to nothing.

    Attributes:
        sigma_share: part of the noise that grows with the range, metres per metre.
        drop_out: share of the beams that return nothing, 0..1.
    """

    sigma_m: float = 0.0
    sigma_share: float = 0.0
    drop_out: float = 0.0

    def on(self, true_m: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Add noise to true ranges (n,); infinity = nothing. Draws 2 n numbers whatever the parameters."""
        sigma = np.hypot(self.sigma_m, self.sigma_share * np.where(np.isfinite(true_m), true_m, 0.0))
        noisy = true_m + sigma * rng.standard_normal(len(true_m))
        return np.where(rng.random(len(true_m)) < self.drop_out, np.inf, noisy)
