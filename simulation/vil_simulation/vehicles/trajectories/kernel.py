"""References of many vehicles from their polynomials, compiled.

See :mod:`vil_simulation.vehicles.trajectories.table`.
"""

from __future__ import annotations

from typing import Any

from vil_bridge.core.compile import compiled


@compiled()
def references(t_s: Any, who: Any, pieces: Any, spans: Any, coefficients: Any, out: Any) -> None:
    """Write position to snap, and yaw to its second derivative.

    Args:
        t_s: (n,).
        who: (n, 2): duration of the vehicle's trajectory, and what it repeats.
        pieces: (n, 2): its first and last piece.
        spans: (k, 2): beginnings and lengths of all pieces.
        coefficients: (k, degree + 1, 4) over tau.
        out: (n, 18).
    """
    for i in range(len(t_s)):
        duration = who[i, 0]
        repeat = who[i, 1]
        t = t_s[i]
        inside = min(max(t, 0.0), duration)
        if t > duration and repeat > 0.0:
            inside = duration - repeat + (t - duration) % repeat
        moving = 1.0 if t >= 0.0 and (t <= duration or repeat > 0.0) else 0.0
        low = pieces[i, 0]
        high = pieces[i, 1]
        while low < high:
            middle = (low + high + 1) // 2
            if spans[middle, 0] <= inside:
                low = middle
            else:
                high = middle - 1
        rate = 1.0 / spans[low, 1]
        tau = (inside - spans[low, 0]) * rate
        for channel in range(4):
            p = v = a = j = s = 0.0
            for k in range(
                coefficients.shape[1] - 1, -1, -1
            ):  # Horner's rule for all derivatives, over their factorials
                s = s * tau + j
                j = j * tau + a
                a = a * tau + v
                v = v * tau + p
                p = p * tau + coefficients[low, k, channel]
            v *= moving * rate
            a *= 2.0 * moving * rate * rate
            if channel < 3:
                out[i, channel] = p
                out[i, 3 + channel] = v
                out[i, 6 + channel] = a
                out[i, 9 + channel] = 6.0 * moving * rate * rate * rate * j
                out[i, 12 + channel] = 24.0 * moving * rate * rate * rate * rate * s
            else:
                out[i, 15] = p
                out[i, 16] = v
                out[i, 17] = a
