"""The least integral of a squared derivative between waypoints, compiled; see :mod:`.waypoints`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vil_bridge.core.compile import compiled


@compiled()
def least_integral(given: Any, lengths: Any, unit_cost: Any, found: Any, slopes: Any) -> float:
    """Find the derivatives at all waypoints that make the integral least, and return the integral.

    The unknowns solve a positive definite system, whose band is two waypoints wide: elimination
    without pivots.

    Args:
        given: (m, r, channels), NaN where a waypoint's derivative is free, in all channels alike.
        lengths: (m - 1,), times of the pieces.
        unit_cost: (2 r, 2 r), the integral over a piece of length 1 by the derivatives at both its
            ends.
        found: (m, r, channels), to be written.
        slopes: (m - 1,), to be written: slope of the integral by the logarithm of each length.
    """
    m, r, channels = given.shape
    size = m * r
    width = 2 * r
    unit = 0.0
    for piece in range(m - 1):
        unit += lengths[piece]
    unit /= m - 1
    scale = np.ones(r)
    for k in range(1, r):
        scale[k] = scale[k - 1] * unit

    # Dimensionless by the mean time of a piece.
    a = np.zeros((size, size))
    b = np.zeros((size, channels))
    powers = np.ones(width)
    for piece in range(m - 1):
        for k in range(1, width):
            powers[k] = powers[k - 1] * (lengths[piece] / unit)
        first = piece * r
        for i in range(width):
            for j in range(width):
                a[first + i, first + j] += (
                    unit_cost[i, j] * powers[i % r] * powers[j % r] / powers[width - 1]
                )
    for k in range(size):
        waypoint = k // r
        rank = k % r
        if math.isnan(given[waypoint, rank, 0]):
            continue
        for j in range(max(k - width + 1, 0), min(k + width, size)):
            a[k, j] = 0.0
        a[k, k] = 1.0
        for channel in range(channels):
            b[k, channel] = given[waypoint, rank, channel] * scale[rank]

    for k in range(size):
        for i in range(k + 1, min(k + width, size)):
            share = a[i, k] / a[k, k]
            for j in range(k + 1, min(k + width, size)):
                a[i, j] -= share * a[k, j]
            for channel in range(channels):
                b[i, channel] -= share * b[k, channel]
    for k in range(size - 1, -1, -1):
        for channel in range(channels):
            rest = b[k, channel]
            for j in range(k + 1, min(k + width, size)):
                rest -= a[k, j] * b[j, channel]
            b[k, channel] = rest / a[k, k]
            found[k // r, k % r, channel] = b[k, channel] / scale[k % r]

    integral = 0.0
    for piece in range(m - 1):
        for k in range(1, width):
            powers[k] = powers[k - 1] * lengths[piece]
        slope = 0.0
        total = 0.0
        for i in range(width):
            for j in range(width):
                dot = 0.0
                for channel in range(channels):
                    dot += (
                        found[piece + i // r, i % r, channel]
                        * found[piece + j // r, j % r, channel]
                    )
                exponent = width - 1 - i % r - j % r
                term = unit_cost[i, j] * dot / powers[exponent]
                total += term
                slope -= exponent * term
        integral += total
        slopes[piece] = slope
    return integral
