"""Impossible motion: poses beyond a body's limits are outliers until they come again and again."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_MS
from vil_bridge.core.types import BoolArray, FloatArray
from vil_bridge.world.actors import TrackingLimits

_SLACK_M: Final = 0.05  # two samples a microsecond apart differ by noise
_SLACK_RAD: Final = 0.2
_UNIT_TOLERANCE: Final = 1e-3
_PROOF_SAMPLES: Final = 3
_PROOF_NS: Final = 40 * NS_PER_MS


def surely_reachable_step(dt_s: float, max_speed_mps: float, max_rate_radps: float) -> float:
    """Return a bound on the change of x, y, z, qx, qy, qz and qw within which every pose is
    reachable.

    A quick test for the usual frame: an attitude with the other sign merely seems far.
    """
    reach_m = max_speed_mps * dt_s + _SLACK_M
    chord = 2.0 * math.sin(0.25 * min(max_rate_radps * dt_s + _SLACK_RAD, math.pi))
    return min(reach_m / math.sqrt(3.0), 0.5 * chord)


def reachable(
    dt_s: npt.ArrayLike,
    poses: FloatArray,
    before: FloatArray,
    max_speed_mps: npt.ArrayLike,
    max_rate_radps: npt.ArrayLike,
) -> BoolArray:
    """Return which bodies can have moved from ``before`` to ``poses`` within a time.

    False for an invalid pose.

    Args:
        dt_s: the time, positive, shape (...) as the limits.
        poses: position and attitude (x, y, z, qx, qy, qz, qw), shape (..., 7).
        before: the same, a moment ago.
        max_speed_mps: of each body.
        max_rate_radps: of each body.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # an invalid pose may be of any size
        products = (poses[..., None, 3:] @ before[..., 3:, None])[..., 0, 0]
        step = poses[..., :3] - before[..., :3]
        step2_m2 = (step[..., None, :] @ step[..., :, None])[..., 0, 0]
        reach_m = np.multiply(max_speed_mps, dt_s) + _SLACK_M
        half_turn_rad = np.minimum(np.multiply(max_rate_radps, dt_s) + _SLACK_RAD, np.pi) * 0.5
        norm2 = (poses[..., None, 3:] @ poses[..., 3:, None])[..., 0, 0]
        possible: BoolArray = (
            (step2_m2 <= reach_m * reach_m)
            & (np.abs(products) >= np.cos(half_turn_rad))
            & is_unit(norm2)
        )
    return possible


def is_unit(norm2: FloatArray) -> BoolArray:
    """Return which squared lengths are those of attitudes."""
    unit: BoolArray = np.abs(norm2 - 1.0) < _UNIT_TOLERANCE
    return unit


class JumpGate:
    """Gate of one body's impossible samples: a swapped label or a flip passes, a new place lasts.

    Three samples in a row and 40 ms, each within reach of the one before, prove the new place.
    """

    def __init__(self, limits: TrackingLimits) -> None:
        self._limits = limits
        self._pose: FloatArray | None = None
        self._t_ns = self._first_ns = self._count = 0

    @property
    def suspects(self) -> bool:
        """True while the newest sample was impossible."""
        return self._pose is not None

    def clear(self) -> None:
        """Drop the suspicion: the body was seen at a possible place."""
        self._pose = None

    def proves(self, t_ns: int, pose: FloatArray) -> bool:
        """Take an impossible sample (x, y, z, qx, qy, qz, qw); True when it is where the body went.

        An invalid pose proves nothing.
        """
        if not (np.isfinite(pose).all() and is_unit(pose[3:] @ pose[3:])):
            return False
        limits = self._limits
        before = self._pose
        dt_s = 1e-9 * (t_ns - self._t_ns)
        follows = before is not None and bool(
            reachable(dt_s, pose, before, limits.max_speed_mps, limits.max_rate_radps)
        )
        if not follows:
            self._first_ns = t_ns
            self._count = 0
        self._pose = pose.copy()
        self._t_ns = t_ns
        self._count += 1
        if self._count < _PROOF_SAMPLES or t_ns - self._first_ns < _PROOF_NS:
            return False
        self._pose = None
        return True
