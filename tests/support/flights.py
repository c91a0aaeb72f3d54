"""Seeded flights with the truth in closed form, and what a mocap system and an IMU would say of
them.

``python -m tests.support.flights --flights 40 --class aggressive`` flies them with the error-state
filter and prints how well its stated uncertainty covers its errors. Nothing here integrates:
positions and angles are sums of sines.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.geometry import GRAVITY_MPS2, Transform, q_conj, q_exp, q_mul, q_rotate

__all__ = ["CLASSES", "EPOCH_NS", "Errors", "Flight", "PoseSamples", "Truth", "flights", "fly"]

Array = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]

CLASSES: Final = ("rest", "hover", "aggressive", "gaps", "delays", "biases", "misaligned")
EPOCH_NS: Final = 10**12
"""Mocap's stamp of a flight's first instant."""

_RAMP_S: Final = 2.0
_SINES: Final = 6
_SUBSTEPS: Final = 256
"""Bias walks are drawn at so many knots of a flight and are straight between them."""


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The IMU at n instants.

    Attributes:
        q_world_imu_xyzw: shape (n, 4).
        w_imu_radps: shape (n, 3).
        v_world_mps, p_world_m: shape (n, 3), of the IMU's origin.
        gyro_bias_radps, accel_bias_mps2: shape (n, 3), IMU axes.
    """

    q_world_imu_xyzw: Array
    w_imu_radps: Array
    v_world_mps: Array
    p_world_m: Array
    gyro_bias_radps: Array
    accel_bias_mps2: Array


@dataclass(frozen=True, slots=True, eq=False)
class PoseSamples:
    """Poses of the markers' body, n rows in the order of their arrival.

    Both times by mocap's clock.
    """

    t_ns: Times
    arrival_ns: Times
    p_world_m: Array
    q_world_xyzw: Array


@dataclass(frozen=True, slots=True, eq=False)
class ImuSamples:
    """Samples, m rows in the order of their arrival.

    ``t_ns`` by the IMU's clock, ``arrival_ns`` by mocap's.
    """

    t_ns: Times
    arrival_ns: Times
    w_radps: Array
    f_mps2: Array


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Everything that is wrong with the sensors of one flight.

    Attributes:
        attitude_rad, position_m: white noise of mocap, each axis.
        gyro_density, accel_density: rad/s/sqrt(Hz) and m/s^2/sqrt(Hz).
        gyro_bias_radps, accel_bias_mps2: shape (3,), at the start.
        gyro_walk, accel_walk: of the biases, rad/s/sqrt(s) and m/s^2/sqrt(s).
        gyro_scale: shape (3,), relative.
        late_s: how much later the IMU's stamps are than mocap's of the same instant.
        mount_rad: shape (3,), true T_body_imu = the nominal one turned by this in the IMU's axes.
    """

    attitude_rad: float
    position_m: float
    gyro_density: float
    accel_density: float
    gyro_bias_radps: Array
    accel_bias_mps2: Array
    gyro_walk: float
    accel_walk: float
    gyro_scale: Array
    late_s: float
    mount_rad: Array


class _Sines:
    """Sums of sines, one for each axis.

    Args:
        rng: draws frequencies and phases.
        rms: shape (axes,), root mean square of the sum.
        band_hz: lowest and highest frequency.
    """

    def __init__(self, rng: np.random.Generator, rms: Array, band_hz: tuple[float, float]) -> None:
        shape = (_SINES, len(rms))
        self._omega = 2.0 * math.pi * rng.uniform(*band_hz, shape)
        self._phase = rng.uniform(0.0, 2.0 * math.pi, shape)
        self._amplitude = rms * math.sqrt(2.0 / _SINES) * np.ones(shape)

    def __call__(self, s: Array) -> tuple[Array, Array, Array]:
        """Values and two derivatives at path times ``s`` (n,): shape (n, axes) each."""
        angle = s[:, None, None] * self._omega + self._phase
        sine, cosine = (
            self._amplitude * np.sin(angle),
            self._amplitude * self._omega * np.cos(angle),
        )
        return sine.sum(axis=1), cosine.sum(axis=1), -(sine * self._omega**2).sum(axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """An IMU's motion: rests for a while if asked to, then follows sines in its own time."""

    position_m: _Sines
    angles_rad: _Sines
    rest_s: float | None

    def at(self, t_s: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Attitude (n, 4), body rate, velocity, position and acceleration (n, 3) at times since
        the start.
        """
        s, s1, s2 = _path_time(t_s, self.rest_s)
        p, dp, ddp = self.position_m(s)
        angles, dangles, _ = self.angles_rad(s)
        s1, s2 = s1[:, None], s2[:, None]
        q_xyzw, w_radps = _euler(angles, dangles * s1)
        return q_xyzw, w_radps, dp * s1, p, ddp * s1**2 + dp * s2


def _path_time(t_s: Array, rest_s: float | None) -> tuple[Array, Array, Array]:
    """Path time and two derivatives.

    Its rate climbs from 0 to 1 within two seconds after the rest, smoothly.
    """
    if rest_s is None:
        return t_s, np.ones_like(t_s), np.zeros_like(t_s)
    u = np.clip((t_s - rest_s) / _RAMP_S, 0.0, 1.0)
    s = _RAMP_S * u**4 * (2.5 - 3.0 * u + u**2) + np.maximum(t_s - rest_s - _RAMP_S, 0.0)
    return s, u**3 * (10.0 - 15.0 * u + 6.0 * u**2), 30.0 * u**2 * (1.0 - u) ** 2 / _RAMP_S


def _euler(angles: Array, rates: Array) -> tuple[Array, Array]:
    """Attitude (n, 4) and body rate (n, 3) of yaw, pitch, roll (n, 3), intrinsic Z-Y-X, and
    their rates.
    """
    axes = np.eye(3)[::-1]
    q_yaw, q_pitch, q_roll = (q_exp(angles[:, i, None] * axes[i]) for i in range(3))
    (dyaw, dpitch, droll), pitch, roll = rates.T, angles[:, 1], angles[:, 2]
    w_radps = np.column_stack(
        (
            droll - dyaw * np.sin(pitch),
            dpitch * np.cos(roll) + dyaw * np.cos(pitch) * np.sin(roll),
            -dpitch * np.sin(roll) + dyaw * np.cos(pitch) * np.cos(roll),
        )
    )
    return q_mul(q_mul(q_yaw, q_pitch), q_roll), w_radps


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A flight as it was, and as mocap and IMU saw it.

    Attributes:
        kind: one of :data:`CLASSES`.
        aggressive: else it hovers or rests.
        rested: whether it began with a rest.
        T_body_imu: as the filter is configured.
    """

    kind: str
    seed: int
    aggressive: bool
    rested: bool
    seconds: float
    T_body_imu: Transform
    errors: Errors
    poses: PoseSamples
    imu: ImuSamples
    _path: _Path
    _walks: Array

    def truth(self, t_ns: Times) -> Truth:
        """The IMU at instants (n,) of mocap's clock."""
        t_s = np.asarray(1e-9 * (t_ns - EPOCH_NS), dtype=np.float64)
        q, w, v, p, _ = self._path.at(t_s)
        biases = _walked(self._walks, t_s, self.seconds)
        return Truth(q, w, v, p, biases[:, :3], biases[:, 3:])

    @property
    def T_imu_body(self) -> Transform:  # noqa: N802 - the field's name for transforms
        """True mount of the IMU: that of the configuration, turned by the error."""
        return _mounted(self.T_body_imu, self.errors).inverse()

    def events(self) -> Iterator[tuple[bool, int]]:
        """The samples in the order of arrival: whether it is a pose, and its row."""
        arrival = np.concatenate((self.imu.arrival_ns, self.poses.arrival_ns))
        samples = len(self.imu.t_ns)
        for i in np.argsort(arrival, kind="stable").tolist():
            yield i >= samples, i - samples if i >= samples else i


def flights(kind: str, count: int, first_seed: int = 0) -> Iterator[Flight]:
    """Some flights of a class, from ``first_seed`` on."""
    for seed in range(first_seed, first_seed + count):
        yield fly(kind, seed)


def fly(kind: str, seed: int) -> Flight:
    """Simulate one flight of a class."""
    rng = np.random.default_rng((CLASSES.index(kind), seed))
    aggressive = kind == "aggressive" or (kind not in ("rest", "hover") and seed % 2 == 0)
    seconds = rng.uniform(12.0, 16.0)
    rested = kind == "rest" or bool(rng.random() < 0.5)
    rest_s = seconds if kind == "rest" else rng.uniform(1.0, 2.0) if rested else None
    path = _path(rng, aggressive, rest_s)
    errors = _errors(rng, kind)
    T_body_imu = Transform.of(rng.uniform(-0.08, 0.08, 3), rng.standard_normal(4))
    walks = _walks(rng, errors, seconds)
    imu = _imu(rng, path, errors, walks, seconds)
    poses = _poses(rng, kind, path, errors, T_body_imu, seconds)
    return Flight(
        kind, seed, aggressive, rested, seconds, T_body_imu, errors, poses, imu, path, walks
    )


def _path(rng: np.random.Generator, aggressive: bool, rest_s: float | None) -> _Path:
    if aggressive:
        position = _Sines(rng, rng.uniform(0.5, 1.2) * np.array([1.0, 1.0, 0.4]), (0.1, 0.55))
        angles = _Sines(rng, np.radians([60.0, 18.0, 22.0]) * rng.uniform(0.7, 1.3), (0.15, 1.0))
    else:
        position = _Sines(rng, rng.uniform(0.02, 0.15) * np.ones(3), (0.1, 0.5))
        angles = _Sines(rng, np.radians([4.0, 1.5, 1.5]) * rng.uniform(0.5, 1.5), (0.2, 1.2))
    return _Path(position, angles, rest_s)


def _errors(rng: np.random.Generator, kind: str) -> Errors:
    """Draw a flight's errors.

    A half of the largest is their standard deviation, but where a class is about them.
    """

    def drawn(largest: float, emphasised: bool) -> Array:
        if emphasised:
            return rng.uniform(-largest, largest, 3)
        values = 0.5 * largest * rng.standard_normal(24)
        return values[np.abs(values) <= largest][:3]

    def log_uniform(low: float, high: float) -> float:
        return float(low * (high / low) ** rng.random())

    return Errors(
        attitude_rad=math.radians(log_uniform(0.02, 0.2)),
        position_m=log_uniform(1e-4, 1e-3),
        gyro_density=log_uniform(1e-3, 4e-3),
        accel_density=log_uniform(1e-2, 4e-2),
        gyro_bias_radps=drawn(0.02, kind == "biases"),
        accel_bias_mps2=drawn(0.15, kind == "biases"),
        gyro_walk=log_uniform(5e-5, 2e-4),
        accel_walk=log_uniform(3e-4, 1.2e-3),
        gyro_scale=drawn(3e-3, False),
        late_s=rng.uniform(-0.01, 0.01),
        mount_rad=drawn(math.radians(1.0), kind == "misaligned"),
    )


def _walks(rng: np.random.Generator, errors: Errors, seconds: float) -> Array:
    """Biases of gyroscope and accelerometer at the knots, shape (knots, 6)."""
    sigma = np.repeat([errors.gyro_walk, errors.accel_walk], 3) * math.sqrt(seconds / _SUBSTEPS)
    steps = sigma * rng.standard_normal((_SUBSTEPS + 1, 6))
    steps[0] = np.concatenate((errors.gyro_bias_radps, errors.accel_bias_mps2))
    return np.cumsum(steps, axis=0)


def _walked(walks: Array, t_s: Array, seconds: float) -> Array:
    knots_s = np.linspace(0.0, seconds, len(walks))
    return np.column_stack([np.interp(t_s, knots_s, column) for column in walks.T])


def _imu(
    rng: np.random.Generator, path: _Path, errors: Errors, walks: Array, seconds: float
) -> ImuSamples:
    rate_hz = int(rng.choice([200, 250, 333, 500]))
    t_s = (np.arange(int(seconds * rate_hz)) + rng.random()) / rate_hz
    q, w_radps, _, _, a_mps2 = path.at(t_s)
    f_mps2 = q_rotate(q_conj(q), a_mps2 + np.array([0.0, 0.0, GRAVITY_MPS2]))
    white = math.sqrt(rate_hz) * rng.standard_normal((len(t_s), 6))
    biases = _walked(walks, t_s, seconds)
    arrival_s = t_s + rng.uniform(0.5e-3, 3e-3)
    return ImuSamples(
        _stamps(t_s + errors.late_s),
        _stamps(arrival_s),
        w_radps * (1.0 + errors.gyro_scale) + biases[:, :3] + errors.gyro_density * white[:, :3],
        f_mps2 + biases[:, 3:] + errors.accel_density * white[:, 3:],
    )


def _poses(
    rng: np.random.Generator,
    kind: str,
    path: _Path,
    errors: Errors,
    T_body_imu: Transform,
    seconds: float,
) -> PoseSamples:
    rate_hz = int(rng.choice([100, 120, 150, 200]))
    t_s = (np.arange(int(seconds * rate_hz)) + rng.random()) / rate_hz
    t_s = t_s[_tracked(rng, t_s, seconds)] if kind == "gaps" else t_s
    q_imu, _, _, p_imu_m, _ = path.at(t_s)
    q_xyzw = q_mul(q_imu, q_conj(_mounted(T_body_imu, errors).q_xyzw))
    p_m = p_imu_m - q_rotate(q_xyzw, np.broadcast_to(T_body_imu.p_m, p_imu_m.shape))
    noise = rng.standard_normal((len(t_s), 6)) * np.repeat(
        [errors.attitude_rad, errors.position_m], 3
    )
    latency_s, jitter_s = (
        (rng.uniform(0.02, 0.1), 5e-3) if kind == "delays" else (rng.uniform(2e-3, 8e-3), 1e-3)
    )
    arrival_s = np.maximum.accumulate(t_s + latency_s + jitter_s * rng.exponential(1.0, len(t_s)))
    return PoseSamples(
        _stamps(t_s),
        _stamps(arrival_s),
        p_m + noise[:, 3:],
        q_mul(q_xyzw, q_exp(noise[:, :3])),
    )


def _mounted(T_body_imu: Transform, errors: Errors) -> Transform:
    return Transform(T_body_imu.p_m, q_mul(T_body_imu.q_xyzw, q_exp(errors.mount_rad)))


def _tracked(rng: np.random.Generator, t_s: Array, seconds: float) -> npt.NDArray[np.bool_]:
    """Lose the body three times, for 0.1 to 0.8 s each."""
    tracked = np.ones(len(t_s), dtype=np.bool_)
    for begin_s in rng.uniform(3.0, seconds - 1.0, 3):
        tracked &= (t_s < begin_s) | (t_s > begin_s + rng.uniform(0.1, 0.8))
    return tracked


def _stamps(t_s: Array) -> Times:
    return EPOCH_NS + np.rint(1e9 * t_s).astype(np.int64)


def _main() -> None:
    from tests.support.flight_judge import judged, table
    from vil_bridge.world.inertial.body_filter import BodyFilter

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flights", type=int, default=7, help="of each class (default 7)")
    parser.add_argument("--class", dest="kind", choices=CLASSES, help="one class alone")
    parser.add_argument("--seed", type=int, default=0, help="of the first flight (default 0)")
    given = parser.parse_args()
    for kind in [given.kind] if given.kind else CLASSES:
        sys.stdout.write(
            table(kind, [judged(f, BodyFilter) for f in flights(kind, given.flights, given.seed)])
            + "\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
