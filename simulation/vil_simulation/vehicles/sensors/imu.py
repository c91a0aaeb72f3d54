"""Gyroscopes and accelerometers.

Noise by Allan parameters, bias, mounting, vibration, saturation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.elementary import exp, expm1, sin_cos
from vil_bridge.core.types import FloatArray
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.components import GaussMarkov
from vil_simulation.vehicles.sensors.mean_motion import MeanMotion
from vil_simulation.vehicles.sensors.sensor import CENTRE, Sensor, SensorMount, sensor_kernel

ImuCompat = Literal["airsim", "flightgoggles"] | None
"""``airsim``: at every step, white noise by the time since the last one, at least 1 ms.

``flightgoggles``: at every step, with the same variance per sample whatever the step. Both read the
instant, as the originals do, not a mean.
"""

_STREAM: Final = 1000
_AXES: Final = 3
_SHORTEST_S: Final = 1e-3
_STILL: Final = np.zeros((0, 3))

_BANK_RATIO: Final = 4.0
_BANK_S: Final = 0.25 * np.vander([_BANK_RATIO], 9, increasing=True).T
"""Correlation times whose equal shares of variance add up to 1/f noise from hours down to tenths
of a second.
"""
_BANK_SHARE: Final = math.sqrt(math.log(_BANK_RATIO) / math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class InertialNoise:
    """Errors of three axes; u stands for rad/s of a gyroscope, m/s^2 of an accelerometer.

    Attributes:
        white: N, density of white noise, u/sqrt(Hz): variance N^2/dt per sample; one number or one
            for each axis.
        bias_instability: B, coefficient of the 1/f noise, u: the Allan deviation is flat at 0.664
            B.
        walk: K, density of the bias's random walk, u/sqrt(s).
        correlation_s: how long the walk remembers (Gauss-Markov); infinite = a true random walk.
        turn_on: deviation of the bias at the start, u.
        limit: largest reading, u.

    Raises:
        ValueError: a value out of its range.
    """

    white: float | tuple[float, float, float]
    bias_instability: float = 0.0
    walk: float = 0.0
    correlation_s: float = math.inf
    turn_on: float = 0.0
    limit: float = math.inf

    def __post_init__(self) -> None:
        for name in ("white", "bias_instability", "walk", "turn_on"):
            if not (np.asarray(getattr(self, name)) >= 0.0).all():
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("correlation_s", "limit"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vibration:
    """Vibration by turning rotors.

    Harmonics of each rotor's angle, amplitudes that grow with its speed squared.

    Attributes:
        reference_radps: speed at which the amplitudes hold.
        accel_mps2: for each harmonic (1, 2...) the amplitudes on x, y, z that one rotor causes.
        gyro_radps: likewise.

    Raises:
        ValueError: the reference is not positive.
    """

    reference_radps: float
    accel_mps2: tuple[tuple[float, float, float], ...]
    gyro_radps: tuple[tuple[float, float, float], ...] = ()

    def __post_init__(self) -> None:
        if not self.reference_radps > 0.0:
            raise ValueError(f"reference_radps must be positive, got {self.reference_radps}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImuParameters:
    """A part and how it is fitted.

    Attributes:
        rate_hz: None = at every step of the simulation.
    """

    gyro: InertialNoise
    accel: InertialNoise
    rate_hz: float | None = None
    mounting: SensorMount = CENTRE
    vibration: Vibration | None = None
    latency_s: float = 0.0


class FleetImuReading(NamedTuple):
    """Means of angular rates and specific forces in the IMU's axes, shape (n, 3).

    At rest and level f is +g on z.

    They are those of the time since the measurement before, and ``t_ns`` is its middle: of the
    instant that they fit best.
    """

    t_ns: int
    w_radps: FloatArray
    f_mps2: FloatArray


class ImuSensor(Sensor[FleetImuReading]):
    """An IMU on each vehicle.

    Readings are means since the measurement before, as a part's filter makes them: their sum times
    the interval is the change of velocity, impacts included. The first one is of its instant,
    unless :meth:`begin` was called. A vehicle that was put elsewhere, which no force did, begins
    again with :meth:`restart`.

    White noise belongs to the nominal rate, where there is one, as a part's filter does; the bias
    walks with the time that passed.

    Args:
        vehicles: see :class:`~vil_simulation.vehicles.sensors.sensor.Sensor`; seed and stream too.
        parameters: of the part, for example of :mod:`vil_simulation.vehicles.sensors.presets`.
        compiled: with numba where it is installed; False = the reference of NumPy.

    Attributes:
        clipped: readings of each vehicle of which an axis reached its limit, (n,), since the start
            or the reset.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        parameters: ImuParameters,
        *,
        seed: int = 0,
        stream: int = _STREAM,
        compat: ImuCompat = None,
        compiled: bool = True,
    ) -> None:
        rate_hz = parameters.rate_hz if compat is None else None
        super().__init__(
            vehicles, seed=seed, stream=stream, rate_hz=rate_hz, latency_s=parameters.latency_s
        )
        if compat == "flightgoggles" and parameters.rate_hz is None:
            raise ValueError(
                'compat="flightgoggles" needs rate_hz: its variance per sample is white^2 rate_hz'
            )
        self.parameters: Final = parameters
        self._compat = compat
        self._compiled = compiled
        self._gyro = _Triad(parameters.gyro, self.n)
        self._accel = _Triad(parameters.accel, self.n)
        self._phase = self._stand = np.zeros((self.n, 0))
        self._limits: Final = parameters.gyro.limit, parameters.accel.limit
        self.clipped: Final = np.zeros(self.n, dtype=np.int64)
        self._motion: Final = MeanMotion(parameters.mounting, self.n, averages=compat is None)
        self._switch_on()

    @property
    def gyro_bias_radps(self) -> FloatArray:
        """Error of the next gyro reading without white noise, (n, 3)."""
        return self._gyro.bias()

    @property
    def accel_bias_mps2(self) -> FloatArray:
        """Error of the next accelerometer reading without white noise, (n, 3)."""
        return self._accel.bias()

    @property
    def q_world_body(self) -> FloatArray:
        """Attitudes of the vehicles at the newest reading's ``t_ns``, (n, 4)."""
        return self._motion.attitudes

    def begin(self, truth: TrueState) -> None:
        """Start now: the first reading is a mean since this truth."""
        self.start(truth.t_ns)
        self._motion.since(truth, 1.0, 0.0)

    def restart(
        self,
        row: int,
        t_ns: int,
        v_world_mps: FloatArray,
        q_world_body: FloatArray,
        w_body_radps: FloatArray,
    ) -> None:
        """Let the next reading of a vehicle be a mean since now.

        It was put into this motion, (3,), (4,), (3,).

        Before the first measurement this has no effect, since the first reading is of its instant.
        """
        if self._measured_ns is None:
            return
        self._motion.restart(
            row, (t_ns - self.at_ns) / NS_PER_S, v_world_mps, q_world_body, w_body_radps
        )

    def reset(self) -> None:
        """Start over, as switched on again."""
        super().reset()
        self._motion.forget()
        self.clipped[:] = 0
        self._switch_on()

    def measure(self, truth: TrueState) -> FleetImuReading:
        """Read all vehicles now."""
        dt_s = max(self.dt_s, _SHORTEST_S) if self._compat == "airsim" else self.dt_s
        rate_hz = None if self._compat == "airsim" else self.parameters.rate_hz
        sample_s = dt_s if rate_hz is None else 1.0 / rate_hz
        shaken = _STILL, _STILL
        if self.parameters.vibration is not None and truth.rotors_radps.size:
            shaken = self._shake(self.parameters.vibration, truth.rotors_radps, dt_s)
        back_s = (truth.t_ns - self.at_ns) / NS_PER_S
        t_ns = self.at_ns - round(0.5 * dt_s * NS_PER_S) if self._motion.averages else self.at_ns
        kernel = sensor_kernel() if self._compiled else None
        if kernel is not None:
            reading = FleetImuReading(t_ns, np.empty((self.n, _AXES)), np.empty((self.n, _AXES)))
            motion = self._motion
            kernel.imu(
                *self.draw_of_kernel(),
                _moved(truth),
                motion.mount,
                shaken,
                motion.before,
                self._gyro.for_kernel(),
                self._accel.for_kernel(),
                (dt_s, sample_s, back_s),
                reading.w_radps,
                reading.f_mps2,
            )
        else:
            w, f = self._motion.since(truth, dt_s, back_s)
            if shaken[0].size:
                w = w + shaken[0]
                f = f + shaken[1]
            mounting = self.parameters.mounting
            drawn = self._gyro.draws
            normals = self.normals(drawn + self._accel.draws)
            reading = FleetImuReading(
                t_ns,
                self._gyro.read(mounting.turned(w), sample_s, dt_s, normals[:, :drawn]),
                self._accel.read(mounting.turned(f), sample_s, dt_s, normals[:, drawn:]),
            )
        if min(self._limits) < math.inf:
            self._count_clipped(reading)
        return reading

    def _count_clipped(self, reading: FleetImuReading) -> None:
        highest = (np.abs(values).max(axis=1) for values in reading[1:])
        rates, forces = (
            values >= limit for values, limit in zip(highest, self._limits, strict=True)
        )
        self.clipped[rates | forces] += 1

    def _switch_on(self) -> None:
        constants = self.constants(self._gyro.draws + self._accel.draws)
        self._gyro.start(constants[:, : self._gyro.draws])
        self._accel.start(constants[:, self._gyro.draws :])
        self._phase = np.zeros((self.n, 0))

    def _shake(
        self, vibration: Vibration, rotors_radps: FloatArray, dt_s: float
    ) -> tuple[FloatArray, FloatArray]:
        if self._phase.shape != rotors_radps.shape:
            self._phase = np.zeros(rotors_radps.shape)
            # Every rotor stands at an angle of its own, and every axis answers with a delay of its
            # own.
            own = self._gyro.draws + self._accel.draws
            drawn = self.constants(own + rotors_radps.shape[1] * _AXES)[:, own:]
            self._stand = math.pi * drawn.reshape(*rotors_radps.shape, _AXES)
        self._phase = np.remainder(self._phase + dt_s * rotors_radps, 2.0 * math.pi)
        strength = np.square(rotors_radps / vibration.reference_radps)
        accel = np.array(vibration.accel_mps2).reshape(-1, _AXES)
        gyro = np.array(vibration.gyro_radps).reshape(-1, _AXES)
        angle = self._phase[:, :, None] + self._stand
        return _harmonics(gyro, strength, angle), _harmonics(accel, strength, angle)


def without_limits(parameters: ImuParameters) -> ImuParameters:
    """Return a part that reads any rate and any force."""
    free = {name: replace(getattr(parameters, name), limit=math.inf) for name in ("gyro", "accel")}
    return replace(parameters, **free)


def _moved(truth: TrueState) -> tuple[FloatArray, ...]:
    """Return the arrays of a truth that the kernel reads."""
    _, _, v, a, q, w, alpha, f, _ = truth
    return v, a, q, w, alpha, f


def _harmonics(amplitudes: FloatArray, strength: FloatArray, angle: FloatArray) -> FloatArray:
    """Return sum of rotors and harmonics, (n, 3).

    Amplitudes (h, 3), strength (n, rotors), angle (n, rotors, 3).
    """
    total = np.zeros((len(angle), _AXES))
    for harmonic, amplitude in enumerate(amplitudes, start=1):
        total += amplitude * (strength[:, :, None] * sin_cos(harmonic * angle)[0]).sum(axis=1)
    return total


class _Triad:
    """Three axes of one kind on n vehicles. ``draws``: normal numbers that a reading takes."""

    def __init__(self, noise: InertialNoise, n: int) -> None:
        self._noise = noise
        self._white = np.broadcast_to(np.asarray(noise.white, dtype=np.float64), (_AXES,))
        bank = _BANK_S if noise.bias_instability else _BANK_S[:0]
        self._flicker = GaussMarkov(
            bank, _BANK_SHARE * noise.bias_instability, (n, len(bank), _AXES)
        )
        self._turn_on = np.zeros((n, _AXES))
        self._walk = np.zeros((n, _AXES))
        self.draws: Final = _AXES * (2 + len(bank))
        share = _BANK_SHARE * noise.bias_instability
        processes = [value for tau_s in bank.ravel() for value in (tau_s, share)]
        self._packed = np.array(
            (*self._white, noise.walk, noise.correlation_s, noise.limit, *processes)
        )

    def start(self, normals: FloatArray) -> None:
        self._turn_on = self._noise.turn_on * normals[:, :_AXES]
        self._walk = np.zeros(self._walk.shape)
        self._flicker.start(normals[:, 2 * _AXES :].reshape(self._flicker.x.shape))

    def for_kernel(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return parameters and state in the order of the kernel, which changes the state."""
        return self._packed, self._turn_on, self._walk, self._flicker.x

    def bias(self) -> FloatArray:
        return np.asarray(self._turn_on + self._walk + self._flicker.x.sum(axis=1))

    def read(
        self, ideal: FloatArray, sample_s: float, dt_s: float, normals: FloatArray
    ) -> FloatArray:
        white = self._white / math.sqrt(sample_s) * normals[:, :_AXES]
        measured = ideal + self.bias() + white
        self._advance(dt_s, normals)
        limit = self._noise.limit
        return np.clip(measured, -limit, limit)

    def _advance(self, dt_s: float, normals: FloatArray) -> None:
        tau_s = self._noise.correlation_s
        steps = normals[:, _AXES : 2 * _AXES]
        if math.isinf(tau_s):
            self._walk = self._walk + self._noise.walk * math.sqrt(dt_s) * steps
        else:
            spread = self._noise.walk * math.sqrt(-0.5 * tau_s * expm1(-2.0 * dt_s / tau_s))
            self._walk = exp(-dt_s / tau_s) * self._walk + spread * steps
        if self._flicker.x.size:
            self._flicker.advance(dt_s, normals[:, 2 * _AXES :].reshape(self._flicker.x.shape))
