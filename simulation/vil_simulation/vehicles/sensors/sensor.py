"""The interface of every sensor, the user's own too."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.compile import has_numba
from vil_bridge.core.geometry import q_conj, q_mul, q_rotate
from vil_bridge.core.random.noise import NoiseStream
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.environment.earth import Compat
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.components import LatencyLine, SampleSchedule

_Reading = TypeVar("_Reading")

_UNLIMITED_S: Final = 1e-3
_CONSTANTS: Final = 0
_ROUNDED: Final = 0.01
_NO_ARM: Final = (0.0, 0.0, 0.0)
_STRAIGHT: Final = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class SensorMount:
    """Pose of a sensor on the vehicle.

    Attributes:
        p_body_m: of its origin, FLU from the centre of gravity.
        q_body_sensor: its axes in the body, x y z w; rounded ones are scaled to unit length.

    Raises:
        ValueError: the attitude is none.
    """

    p_body_m: tuple[float, float, float] = _NO_ARM
    q_body_sensor: tuple[float, float, float, float] = _STRAIGHT

    def __post_init__(self) -> None:
        length = math.hypot(*self.q_body_sensor)
        if not abs(length - 1.0) < _ROUNDED:
            raise ValueError(
                f"q_body_sensor must have unit length (x, y, z, w), got {self.q_body_sensor}"
            )
        x, y, z, w = self.q_body_sensor
        object.__setattr__(self, "q_body_sensor", (x / length, y / length, z / length, w / length))

    def turned(self, v_body: FloatArray) -> FloatArray:
        """Return vectors (n, 3) of the body in the sensor's axes."""
        if self.q_body_sensor == _STRAIGHT:
            return v_body
        return q_rotate(q_conj(np.array(self.q_body_sensor)), v_body)

    def in_body(self, v_sensor: FloatArray) -> FloatArray:
        """Return vectors (n, 3) of the sensor in the body's axes."""
        if self.q_body_sensor == _STRAIGHT:
            return v_sensor
        return q_rotate(np.array(self.q_body_sensor), v_sensor)

    def pose(self, truth: TrueState) -> tuple[FloatArray, FloatArray]:
        """Return position (n, 3) and attitude (n, 4) of the sensor in the world."""
        if self == CENTRE:
            return truth.p_world_m, truth.q_world_body
        arm = np.broadcast_to(np.array(self.p_body_m), truth.p_world_m.shape)
        turn = np.broadcast_to(np.array(self.q_body_sensor), truth.q_world_body.shape)
        return truth.p_world_m + q_rotate(truth.q_world_body, arm), q_mul(truth.q_world_body, turn)


CENTRE: Final = SensorMount()
"""At the centre of gravity, with the body's axes."""


@cache
def sensor_kernel() -> ModuleType | None:
    """Return the compiled sensors; None = numba is not installed."""
    if not has_numba():
        return None
    return import_module("vil_simulation.vehicles.sensors.kernel")


class Sensor(ABC, Generic[_Reading]):
    """The same sensor on each of n vehicles.

    A user's own derives from this and states :meth:`measure`.

    Noise depends on the seed, the vehicle's identity and the number of the measurement only: a
    vehicle's readings are the same in any batch, and again after :meth:`reset`.

    Args:
        vehicles: identities, shape (n,), in the order of the truth's rows; a number n means 0 to n
            - 1.
        seed: of the simulation.
        stream: separates the noise of sensors on one vehicle; a second IMU needs another number.
        rate_hz: of measurements, None = at every call of :meth:`sample`.
        latency_s: from the measurement to its release.
        startup_s: from the start to the first measurement.
        compat: ``airsim`` = times as AirSim counts them (see ``components.SampleSchedule``).

    Attributes:
        vehicles: identities (n,). n: how many. noise: of all measurements.
        t_start_ns: time of the first call after the start or the reset. at_ns: instant of the
            newest measurement.
        dt_s: since the measurement before; at the first the nominal interval, 1 ms without a rate.

    Raises:
        ValueError: a value is out of its range.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        *,
        seed: int,
        stream: int,
        rate_hz: float | None = None,
        latency_s: float = 0.0,
        startup_s: float = 0.0,
        compat: Compat = None,
    ) -> None:
        if not 0.0 <= latency_s < math.inf:
            raise ValueError(f"latency_s must not be negative, got {latency_s}")
        who = (
            np.arange(vehicles)
            if isinstance(vehicles, int)
            else np.asarray(vehicles, dtype=np.int64)
        )
        self.vehicles: Final = who
        self.n: Final = len(who)
        self.noise: Final = NoiseStream(seed, stream)
        self._limiter = SampleSchedule(rate_hz, startup_s, compat)
        self._nominal_s = _UNLIMITED_S if rate_hz is None else 1.0 / rate_hz
        self._latency_ns = round(latency_s * NS_PER_S)
        self._line: LatencyLine[_Reading] = LatencyLine()
        self.t_start_ns = self.at_ns = 0
        self.dt_s = self._nominal_s
        self._t_ns: int | None = None
        self._measured_ns: int | None = None
        self._count = _CONSTANTS
        self._who: Final = who.astype(np.uint64)

    def start(self, t_ns: int) -> None:
        """Begin now instead of at the first call.

        What is measured by then is not measured again.
        """
        self.t_start_ns = self.at_ns = self._t_ns = self._measured_ns = t_ns
        self._limiter.start(t_ns)
        self._limiter.due(t_ns)

    def sample(self, truth: TrueState, at_ns: int | None = None) -> _Reading | None:
        """Return the reading that comes out now, or None; call it at every step of the simulation.

        One comes out of a call. Where latency varies, several may have come: ask for the others
        with :meth:`further`, or call much more often than it measures; else those behind them come
        out late.

        Args:
            truth: now.
            at_ns: instant within the step before the truth of which the reading shall be; None =
                that of the truth. Sensors that do not read ``at_ns`` read the truth.

        Raises:
            ValueError: time went back without a :meth:`reset`, or the truth is of another number of
                vehicles.
        """
        t_ns = truth.t_ns
        if self._t_ns is None:
            self.t_start_ns = t_ns
            self._limiter.start(t_ns)
        elif t_ns < self._t_ns:
            raise ValueError(
                f"time went back from {self._t_ns} to {t_ns} ns: reset() the sensor with "
                "the simulation"
            )
        if len(truth.p_world_m) != self.n:
            raise ValueError(
                f"the truth is of {len(truth.p_world_m)} vehicles, the sensor of {self.n}"
            )
        self._t_ns = t_ns
        if self._limiter.due(t_ns):
            before_ns = self._measured_ns
            self._measured_ns = self.at_ns = t_ns if at_ns is None else at_ns
            self._count += 1
            if before_ns is None:
                self.dt_s = self._nominal_s
            else:
                self.dt_s = (self.at_ns - before_ns) / NS_PER_S
            self.take(truth)
        return self._line.release(t_ns)

    def further(self) -> _Reading | None:
        """Return the next reading that has come out by the time of the newest :meth:`sample`, if
        there is one more.
        """
        if self._t_ns is None:
            return None
        return self._line.release(self._t_ns)

    def reset(self) -> None:
        """Start over; the same truth gives the same readings again.

        Subclasses with a state reset it too.
        """
        self._line.clear()
        self._t_ns = self._measured_ns = None
        self._count = _CONSTANTS

    @abstractmethod
    def measure(self, truth: TrueState) -> _Reading:
        """Return the reading of all vehicles now."""

    def take(self, truth: TrueState) -> None:
        """Measure, and send the reading on its way."""
        self.release_at(truth.t_ns + self._latency_ns, self.measure(truth))

    def release_at(self, t_ns: int, reading: _Reading) -> None:
        """Let a reading come out at or after a time, after those before it."""
        self._line.push(t_ns, reading)

    def normals(self, k: int) -> FloatArray:
        """Return standard normal numbers (n, k) of this measurement.

        Each call within one gives the same: ask once.
        """
        return self.noise.normals(self._count, self.vehicles, k)

    def draw_of_kernel(self) -> tuple[npt.NDArray[np.uint64], np.uint64, npt.NDArray[np.uint64]]:
        """Return what a kernel draws the noise of this measurement by.

        Key, number of the measurement, vehicles.
        """
        return self.noise.key, np.uint64(self._count), self._who

    def constants(self, k: int) -> FloatArray:
        """Return standard normal numbers (n, k) that never change.

        Biases since switched on, places of manufacture.
        """
        return self.noise.normals(_CONSTANTS, self.vehicles, k, compiled=False)

    def constant_uniforms(self, k: int) -> FloatArray:
        """Return as :meth:`constants`, uniform in (0, 1).

        Of the same draw: a sensor uses one or the other.
        """
        return self.noise.uniforms(_CONSTANTS, self.vehicles, k, compiled=False)
