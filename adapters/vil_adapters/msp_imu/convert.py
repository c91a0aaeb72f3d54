"""Counts of a flight controller's sensors to FLU, rad/s and m/s² and back, their scale, and
their times; pure.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Final

import numpy as np

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.geometry import GRAVITY_MPS2
from vil_bridge.core.types import FloatArray
from vil_bridge.protocols.msp import MspRawImu

_REST_NS: Final = NS_PER_S
_FEWEST: Final = 20
_REST_RADPS: Final = 0.03
_REST_OF_G: Final = 0.02
_LEAST_LSB_PER_G: Final = 64.0

_STEPS: Final = 64
_MOST_MISSED: Final = 5
_EARLIEST: Final = 0.3
_FOLLOW: Final = 0.2


def from_counts(
    raw: MspRawImu, gyro_lsb_per_dps: float, acc_lsb_per_g: float
) -> tuple[FloatArray, FloatArray]:
    """Return the angular rate (3,) rad/s and specific force (3,) m/s², FLU.

    The sensors' axes after the firmware's own board alignment are forward, left, up: at rest z
    reads +1 g, and rolling right, pitching down and yawing left are positive.
    """
    w_radps = np.radians(np.array(raw.gyro, dtype=np.float64)) / gyro_lsb_per_dps
    return w_radps, np.array(raw.acc, dtype=np.float64) * (GRAVITY_MPS2 / acc_lsb_per_g)


def to_counts(
    w_radps: FloatArray, f_mps2: FloatArray, gyro_lsb_per_dps: float, acc_lsb_per_g: float
) -> MspRawImu:
    """Return the answer of a flight controller for FLU values."""
    gx, gy, gz = np.rint(np.degrees(w_radps) * gyro_lsb_per_dps).astype(int).tolist()
    ax, ay, az = np.rint(f_mps2 * (acc_lsb_per_g / GRAVITY_MPS2)).astype(int).tolist()
    return MspRawImu((ax, ay, az), (gx, gy, gz))


class RestScale:
    """Scale of the accelerometer: a second without motion shows the counts of 1 g.

    Attributes:
        lsb_per_g: counts at 1 g, None while not known.
    """

    def __init__(self, lsb_per_g: float | None = None) -> None:
        self.lsb_per_g = lsb_per_g
        self._samples: list[FloatArray] = []
        self._since_ns = 0

    def add(self, t_ns: int, raw: MspRawImu, gyro_lsb_per_dps: float) -> None:
        """Take one reading; does nothing once the scale is known."""
        if self.lsb_per_g is not None:
            return
        if not self._samples:
            self._since_ns = t_ns
        self._samples.append(np.array((*raw.acc, *raw.gyro), dtype=np.float64))
        if t_ns - self._since_ns >= _REST_NS:
            self._judge(np.array(self._samples), gyro_lsb_per_dps)
            self._samples.clear()

    def _judge(self, counts: FloatArray, gyro_lsb_per_dps: float) -> None:
        """Set the scale at rest: neither sensor's readings spread.

        A constant rate is the gyroscope's bias.
        """
        if len(counts) < _FEWEST:
            return
        mean = counts.mean(axis=0)
        std = counts.std(axis=0)
        one_g = float(np.linalg.norm(mean[:3]))
        still = (
            math.radians(std[3:].max() / gyro_lsb_per_dps) < _REST_RADPS
            and std[:3].max() < _REST_OF_G * one_g
        )
        if still and one_g >= _LEAST_LSB_PER_G:
            self.lsb_per_g = one_g


class AnswerTimes:
    """Times of the readings, from the times of request and answer.

    A controller reads its sensors when its serial task gets to the question, and answers at once:
    the arrival less the way of the bytes is the best guess, and never too early. What makes it late
    at random, the waking of this computer, is smoothed by following the even beat of that task,
    within what is certain: not before the question, not after the arrival.
    """

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None
        self._steps_ns: deque[int] = deque(maxlen=_STEPS)

    def stamp(self, t_asked_ns: int, t_answered_ns: int) -> int:
        """Return the time of a reading that was requested and answered at these times."""
        t_ns = t_answered_ns
        # Two may come in one piece.
        if self._before is not None and t_answered_ns > self._before[1]:
            stamped_ns, answered_ns = self._before
            self._steps_ns.append(t_answered_ns - answered_ns)
            beat_ns = self._beat_ns()
            # Answers are late rather than early, so that most of a beat counts as the beat before.
            beats = math.floor((t_answered_ns - stamped_ns) / beat_ns + _EARLIEST)
            if 0 < beats <= _MOST_MISSED:
                late_ns = t_answered_ns - (stamped_ns + beats * beat_ns)
                t_ns = round(t_answered_ns - (1.0 - _FOLLOW) * late_ns)
                t_ns = min(max(t_ns, t_asked_ns), t_answered_ns)
        self._before = t_ns, t_answered_ns
        return t_ns

    def _beat_ns(self) -> float:
        """Return the mean period of the serial task; some periods have no answer."""
        usual_ns = median(self._steps_ns)
        return sum(self._steps_ns) / max(1, sum(round(step / usual_ns) for step in self._steps_ns))
