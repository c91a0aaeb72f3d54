"""Gyroscopes and accelerometers: noise by Allan parameters, bias, mounting, vibration, saturation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.core.types import FloatArray
from vil_bridge.vehicles.model import TrueState
from vil_bridge.vehicles.sensors.components import GaussMarkov
from vil_bridge.vehicles.sensors.sensor import CENTRE, Sensor, SensorMount, sensor_kernel

ImuCompat = Literal["airsim", "flightgoggles"] | None
"""``airsim``: at every step, white noise by the time since the last one, at least 1 ms. ``flightgoggles``: at every
step, with the same variance per sample whatever the step."""

_STREAM: Final = 1000
_AXES: Final = 3
_SHORTEST_S: Final = 1e-3

_BANK_RATIO: Final = 4.0
_BANK_S: Final = 0.25 * _BANK_RATIO ** np.arange(9.0)[:, None]
"""Correlation times whose equal shares of variance add up to 1/f noise from hours down to tenths of a second."""
_BANK_SHARE: Final = math.sqrt(math.log(_BANK_RATIO) / math.pi)


@dataclass(frozen=True, slots=True, kw_only=True)
class InertialNoise:
    """Errors of three axes; u stands for rad/s of a gyroscope, m/s^2 of an accelerometer.

    Attributes:
        white: N, density of white noise, u/sqrt(Hz): variance N^2/dt per sample; one number or one for each axis.
        bias_instability: B, coefficient of the 1/f noise, u: the Allan deviation is flat at 0.664 B.
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
    """Vibration by turning rotors: harmonics of each rotor's angle, amplitudes that grow with its speed squared.

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
    """Angular rates and specific forces in the IMU's axes, shape (n, 3); at rest and level f is +g on z."""

    t_ns: int
    w_radps: FloatArray
    f_mps2: FloatArray


class ImuSensor(Sensor[FleetImuReading]):
    """An IMU on each vehicle.

    White noise belongs to the nominal rate, where there is one, as a part's filter does; the bias walks with
    the time that passed.

    Args:
        vehicles: see :class:`~vil_bridge.vehicles.sensors.sensor.Sensor`; seed and stream too.
        parameters: of the part, for example of :mod:`vil_bridge.vehicles.sensors.presets`.
        compiled: with numba where it is installed; False = the reference of NumPy.
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
        super().__init__(vehicles, seed=seed, stream=stream, rate_hz=rate_hz, latency_s=parameters.latency_s)
        if compat == "flightgoggles" and parameters.rate_hz is None:
            raise ValueError('compat="flightgoggles" needs rate_hz: its variance per sample is white^2 rate_hz')
        self.parameters: Final = parameters
        self._compat = compat
        self._compiled = compiled
        self._gyro = _Triad(parameters.gyro, self.n)
        self._accel = _Triad(parameters.accel, self.n)
        self._phase = self._stand = np.zeros((self.n, 0))
        self._switch_on()

    @property
    def gyro_bias_radps(self) -> FloatArray:
        """Error of the next gyro reading without white noise, (n, 3)."""
        return self._gyro.bias()

    @property
    def accel_bias_mps2(self) -> FloatArray:
        """Error of the next accelerometer reading without white noise, (n, 3)."""
        return self._accel.bias()

    def reset(self) -> None:
        """Start over, as switched on again."""
        super().reset()
        self._switch_on()

    def measure(self, truth: TrueState) -> FleetImuReading:
        """Read all vehicles now."""
        dt_s = max(self.dt_s, _SHORTEST_S) if self._compat == "airsim" else self.dt_s
        rate_hz = None if self._compat == "airsim" else self.parameters.rate_hz
        sample_s = dt_s if rate_hz is None else 1.0 / rate_hz
        mounting = self.parameters.mounting
        w, f = truth.w_body_radps, mounting.specific_force(truth)
        if self.parameters.vibration is not None and truth.rotors_radps.size:
            shaken_w, shaken_f = self._shake(self.parameters.vibration, truth.rotors_radps, dt_s)
            w, f = w + shaken_w, f + shaken_f
        w, f = mounting.turned(w), mounting.turned(f)
        kernel = sensor_kernel() if self._compiled else None
        if kernel is not None:
            reading = FleetImuReading(truth.t_ns, np.empty((self.n, _AXES)), np.empty((self.n, _AXES)))
            triads = self._gyro.for_kernel(), self._accel.for_kernel()
            kernel.imu(*self.draw_of_kernel(), w, f, *triads, dt_s, sample_s, reading.w_radps, reading.f_mps2)
            return reading
        normals = self.normals(self._gyro.draws + self._accel.draws)
        return FleetImuReading(
            truth.t_ns,
            self._gyro.read(w, sample_s, dt_s, normals[:, : self._gyro.draws]),
            self._accel.read(f, sample_s, dt_s, normals[:, self._gyro.draws :]),
        )

    def _switch_on(self) -> None:
        constants = self.constants(self._gyro.draws + self._accel.draws)
        self._gyro.start(constants[:, : self._gyro.draws])
        self._accel.start(constants[:, self._gyro.draws :])
        self._phase = np.zeros((self.n, 0))

    def _shake(self, vibration: Vibration, rotors_radps: FloatArray, dt_s: float) -> tuple[FloatArray, FloatArray]:
        if self._phase.shape != rotors_radps.shape:
            self._phase = np.zeros(rotors_radps.shape)
            # Every rotor stands at an angle of its own, and every axis answers with a delay of its own.
            own = self._gyro.draws + self._accel.draws
            drawn = self.constants(own + rotors_radps.shape[1] * _AXES)[:, own:]
            self._stand = math.pi * drawn.reshape(*rotors_radps.shape, _AXES)
        self._phase = np.remainder(self._phase + dt_s * rotors_radps, 2.0 * math.pi)
        strength = np.square(rotors_radps / vibration.reference_radps)
        accel = np.array(vibration.accel_mps2).reshape(-1, _AXES)
        gyro = np.array(vibration.gyro_radps).reshape(-1, _AXES)
        angle = self._phase[:, :, None] + self._stand
        return _harmonics(gyro, strength, angle), _harmonics(accel, strength, angle)


def _harmonics(amplitudes: FloatArray, strength: FloatArray, angle: FloatArray) -> FloatArray:
    """Return sum of rotors and harmonics, (n, 3): amplitudes (h, 3), strength (n, rotors), angle (n, rotors, 3)."""
    total = np.zeros((len(angle), _AXES))
    for harmonic, amplitude in enumerate(amplitudes, start=1):
        total += amplitude * (strength[:, :, None] * np.sin(harmonic * angle)).sum(axis=1)
    return total


class _Triad:
    """Three axes of one kind on n vehicles. ``draws``: normal numbers that a reading takes."""

    def __init__(self, noise: InertialNoise, n: int) -> None:
        self._noise = noise
        self._white = np.broadcast_to(np.asarray(noise.white, dtype=np.float64), (_AXES,))
        bank = _BANK_S if noise.bias_instability else _BANK_S[:0]
        self._flicker = GaussMarkov(bank, _BANK_SHARE * noise.bias_instability, (n, len(bank), _AXES))
        self._turn_on = np.zeros((n, _AXES))
        self._walk = np.zeros((n, _AXES))
        self.draws: Final = _AXES * (2 + len(bank))
        share = _BANK_SHARE * noise.bias_instability
        processes = [value for tau_s in bank.ravel() for value in (tau_s, share)]
        self._packed = np.array((*self._white, noise.walk, noise.correlation_s, noise.limit, *processes))

    def start(self, normals: FloatArray) -> None:
        self._turn_on = self._noise.turn_on * normals[:, :_AXES]
        self._walk = np.zeros(self._walk.shape)
        self._flicker.start(normals[:, 2 * _AXES :].reshape(self._flicker.x.shape))

    def for_kernel(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return parameters and state in the order of the kernel, which changes the state."""
        return self._packed, self._turn_on, self._walk, self._flicker.x

    def bias(self) -> FloatArray:
        return np.asarray(self._turn_on + self._walk + self._flicker.x.sum(axis=1))

    def read(self, ideal: FloatArray, sample_s: float, dt_s: float, normals: FloatArray) -> FloatArray:
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
            spread = self._noise.walk * math.sqrt(-0.5 * tau_s * math.expm1(-2.0 * dt_s / tau_s))
            self._walk = math.exp(-dt_s / tau_s) * self._walk + spread * steps
        if self._flicker.x.size:
            self._flicker.advance(dt_s, normals[:, 2 * _AXES :].reshape(self._flicker.x.shape))
