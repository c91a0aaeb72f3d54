"""Mean angular rates and specific forces between two instants of a motion.

What an inertial sensor integrates.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross, q_conj, q_exp, q_log, q_mul, q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.sensor import SensorMount

_COLUMNS: Final = 16
_VELOCITY: Final = slice(0, 3)
_ATTITUDE: Final = slice(3, 7)
_RATES: Final = slice(7, 10)
_KNOWN: Final = 10
_LATE: Final = 11
_MIDDLE: Final = slice(12, 16)
_TINY: Final = 1e-9
_TURN: Final = 2.0 * math.pi


class MeanMotion:
    """Means of n vehicles since their measurement before, at the place of a sensor on the body.

    Specific forces are those of the middle attitude: turned by it and added up, times the interval,
    they are the change of the place's velocity and gravity's part, whatever happened in between.
    Rates, times the interval, are the rotation vector between both attitudes. So nothing that is
    shorter than the interval is missed.

    Args:
        mount: of the sensor. n: how many vehicles. averages: False = readings are of the instant.

    Attributes:
        mount: place of the sensor, its attitude, and ``averages``, (8,).
        before: (n, 16): velocity of the place (world), attitude and body rates at the measurement
            before; 1 where they are known, else 0: then the next one is of the instant; by how many
            seconds they are later than that one; attitude at the middle of the newest means.
    """

    def __init__(self, mount: SensorMount, n: int, *, averages: bool = True) -> None:
        self.mount: Final = np.array((*mount.p_body_m, *mount.q_body_sensor, averages))
        self.before: Final[FloatArray] = np.zeros((n, _COLUMNS))

    @property
    def attitudes(self) -> FloatArray:
        """Attitudes of the vehicles at the middle of the newest means, (n, 4)."""
        return self.before[:, _MIDDLE]

    @property
    def averages(self) -> bool:
        """Return whether the next readings are means; False = they are of the instant."""
        return bool(self.before[:, _KNOWN].any())

    def forget(self) -> None:
        """Forget the measurement before."""
        self.before[:, _KNOWN] = 0.0

    def restart(
        self,
        row: int,
        late_s: float,
        v_world_mps: FloatArray,
        q_world_body: FloatArray,
        w: FloatArray,
    ) -> None:
        """Let the next means of a vehicle begin with this motion, so long after the measurement
        before.
        """
        spin = cross(w[None], self.mount[None, :3])
        self.before[row, _VELOCITY] = v_world_mps + q_rotate(q_world_body[None], spin)[0]
        self.before[row, _ATTITUDE] = q_world_body
        self.before[row, _RATES] = w
        self.before[row, _KNOWN] = self.mount[-1]
        self.before[row, _LATE] = late_s

    def since(
        self, truth: TrueState, span_s: float, back_s: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean rates and specific forces (n, 3), body axes, and remember this measurement.

        Args:
            truth: of the vehicles.
            span_s: from the measurement before to this one, above 0.
            back_s: from this measurement to the truth, at most a step: the motion went on evenly in
                between.
        """
        arm = np.broadcast_to(self.mount[:3], truth.w_body_radps.shape)
        w = truth.w_body_radps
        q = truth.q_world_body
        weight = q_rotate(q, truth.f_body_mps2) - truth.a_world_mps2
        spin = cross(w, arm)
        v = truth.v_world_mps + q_rotate(q, spin)
        f = truth.f_body_mps2 + cross(truth.alpha_body_radps2, arm) + cross(w, spin)
        if back_s > 0.0:
            v = v - back_s * (q_rotate(q, f) - weight)
            q = q_mul(q, q_exp(-back_s * w))
        v_before = self.before[:, _VELOCITY]
        q_before = self.before[:, _ATTITUDE]
        since_s = span_s - self.before[:, _LATE, None]
        known = (self.before[:, _KNOWN, None] > 0.0) & (since_s > 0.0)
        since_s = np.where(known, since_s, 1.0)
        expected = 0.5 * since_s * (w + self.before[:, _RATES])
        angle = _nearest(q_log(q_mul(q_conj(q_before), q)), expected)
        middle = q_mul(q_before, q_exp(0.5 * angle))
        mean_f = q_rotate(q_conj(middle), weight + (v - v_before) / since_s)
        found = np.where(known, angle / since_s, w), np.where(known, mean_f, f)
        self.before[:, :_KNOWN] = np.hstack((v, q, w))
        self.before[:, _MIDDLE] = np.where(known, middle, q)
        self.before[:, _KNOWN] = self.mount[-1]
        self.before[:, _LATE] = 0.0
        return found


def _nearest(angle: FloatArray, expected: FloatArray) -> FloatArray:
    """Return rotation vectors (n, 3) with as many full turns as bring them nearest to others."""
    size, most = (np.sqrt((v * v).sum(axis=1, keepdims=True)) for v in (angle, expected))
    turned = size > _TINY
    along = (expected * angle).sum(axis=1, keepdims=True)
    turns = np.floor(
        (np.divide(along, size, out=np.zeros_like(size), where=turned) - size) / _TURN + 0.5
    )
    more = np.divide(_TURN * turns, size, out=np.zeros_like(size), where=turned) * angle
    spun = ~turned & (most > math.pi)  # it looks as it did before, full turns later
    whole = np.divide(
        _TURN * np.floor(most / _TURN + 0.5), most, out=np.zeros_like(most), where=spun
    )
    return np.asarray(angle + more + whole * expected)
