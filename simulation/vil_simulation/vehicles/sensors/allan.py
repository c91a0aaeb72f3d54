"""Allan deviation: what a resting inertial sensor's noise is made of.

Source: IEEE Std 952-1997, annex C, and Riley, "Handbook of Frequency Stability Analysis" (NIST SP
1065), 5.2.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from vil_bridge.core.types import FloatArray

_PER_DECADE: Final = 10
_FLICKER: Final = 2.0 * math.log(2.0) / math.pi


class AllanParameters(NamedTuple):
    """As :class:`~vil_simulation.vehicles.sensors.imu.InertialNoise`: N u/sqrt(Hz), B u, K
    u/sqrt(s).
    """

    white: float
    bias_instability: float
    walk: float


def allan_deviation(
    samples: FloatArray, dt_s: float, counts: npt.NDArray[np.int64] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return overlapping Allan deviation of rates or accelerations sampled at rest.

    Args:
        samples: shape (m, ...), channels behind the first axis.
        dt_s: between samples.
        counts: samples in a cluster, each 1 to m // 2; None = ten for a decade up to m / 3.

    Returns:
        Cluster times (k,) in seconds, and deviations (k, ...) in the samples' unit.

    Raises:
        ValueError: fewer than three samples, or a cluster longer than half of them.
    """
    m = len(samples)
    if m < 3:
        raise ValueError(f"an Allan deviation needs 3 samples, got {m}")
    if counts is None:
        decades = math.log10(m / 3)
        counts = np.unique(
            np.logspace(0.0, decades, 1 + round(_PER_DECADE * decades)).astype(np.int64)
        )
    if counts.min() < 1 or 2 * counts.max() > m:
        raise ValueError(
            f"clusters are of 1 to {m // 2} samples, got {counts.min()} to {counts.max()}"
        )
    angle = np.concatenate(
        (np.zeros((1, *samples.shape[1:])), np.cumsum(samples - samples.mean(axis=0), axis=0))
    )
    deviations = [
        np.sqrt(np.square(angle[2 * c :] - 2.0 * angle[c:-c] + angle[: -2 * c]).mean(axis=0) / 2.0)
        / c
        for c in counts
    ]
    return np.asarray(counts * dt_s, dtype=np.float64), np.array(deviations)


def allan_variance_of_walk(tau_s: FloatArray, correlation_s: float = math.inf) -> FloatArray:
    """Return allan variance of a bias that walks with density 1 and forgets with a correlation
    time; tau/3 if never.
    """
    if math.isinf(correlation_s):
        return tau_s / 3.0
    r = tau_s / correlation_s
    # 1 - (3 - 4 e^-r + e^-2r) / (2 r), which cancels where r is small.
    exact = 1.0 - (3.0 - 4.0 * np.exp(-r) + np.exp(-2.0 * r)) / (2.0 * r)
    return np.asarray(correlation_s**2 / tau_s * np.where(r < 1e-3, r * r / 3.0, exact))


def fit_allan(
    tau_s: FloatArray,
    deviation: FloatArray,
    *,
    flicker: bool = True,
    walk: bool = True,
    correlation_s: float = math.inf,
) -> AllanParameters:
    """Return noise parameters whose Allan deviation fits best, by weighted least squares on the
    variances.

    Args:
        tau_s: cluster times (k,).
        deviation: (k, ...); channels are taken for repetitions of one sensor.
        flicker: whether there is 1/f noise.
        walk: whether there is a random walk.
        correlation_s: of the walk.
    """
    variance = np.square(deviation).reshape(len(tau_s), -1).mean(axis=1)
    shapes = np.stack(
        (
            1.0 / tau_s,
            np.full_like(tau_s, _FLICKER * flicker),
            allan_variance_of_walk(tau_s, correlation_s) * walk,
        ),
        axis=1,
    )
    # The relative error of a variance grows with the root of the cluster time.
    weight = 1.0 / (variance * np.sqrt(tau_s))
    scale = np.where(shapes.any(axis=0), np.linalg.norm(shapes * weight[:, None], axis=0), 1.0)
    squares, _ = nnls(shapes * weight[:, None] / scale, variance * weight)
    return AllanParameters(*(float(v) for v in np.sqrt(squares / scale)))
