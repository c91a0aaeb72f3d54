"""Simulated, seeded part of `vil-bridge bench compensate`.

What prediction and warp achieve with known noise.

A multirotor flies sums of sines through a room with boxes. At the render instant mocap gives
attitude, position and velocity with noise; from there the inertial code of the bridge takes over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from vil_adapters.motions.drone import DroneMotion, ImuErrors, Sine, SinePath
from vil_benchmarks.compensate_points import (
    T_BODY_OPTICAL,
    errors_px,
    seen_by,
    without_filter,
)
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.geometry import Transform, q_exp, q_mul
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import CameraModel, FloatArray
from vil_bridge.world.inertial.body_filter import BodyFilter
from vil_bridge.world.inertial.extrapolation import RECENT_NS, forecast
from vil_bridge.world.inertial.preintegration import NavState, preintegrate, propagate

_CAMERA: Final = CameraModel("simulated", 1024, 768, math.radians(70.0))
_K: Final = _CAMERA.K
_SIZE_PX: Final = (_CAMERA.width_px, _CAMERA.height_px)
_POINTS: Final = 160
_PER_FLIGHT: Final = 10
_FIRST_S: Final = 4.0  # the flights begin with a rest and a ramp
_LENGTH_S: Final = 40.0
_SINES: Final = 6
_IMU_HZ: Final = 500
_LOWEST_HZ: Final = 0.05
_MOCAP_HZ: Final = 200
_FLOWN_S: Final = 20.0
_FLOWN_FROM_S: Final = 6.0
_FLOWN_EVERY: Final = 60
_FLOWN_DELAY_NS: Final = 56 * NS_PER_MS
_PAPER_PLANE_M: Final = 4.0
_ROOM_M: Final[FloatArray] = np.array([24.0, 24.0, 7.0])
_BOXES: Final = 26
_NEAREST_M: Final = 0.3

Errors = dict[tuple[int, str], FloatArray]
"""By delay in ms and method: pixels."""


@dataclass(frozen=True, slots=True)
class FlightClass:
    """Speed and agility of a flight.

    Attributes:
        speed_mps: root mean square of the velocity.
        highest_hz: of the path's sines; the heading's go up to 0.8 of it.
        yaw_radps: root mean square of the heading's rate.
    """

    speed_mps: float
    highest_hz: float
    yaw_radps: float


CLASSES: Final = {
    "slow": FlightClass(1.0, 0.3, 0.25),
    "normal": FlightClass(2.0, 0.55, 0.7),
    "racing": FlightClass(5.0, 0.9, 1.5),
}


@dataclass(frozen=True, slots=True)
class Noise:
    """One standard deviation of everything that is measured, per axis.

    Attributes:
        gyro_bias_radps, accel_bias_mps2: what is left of the biases, in a direction that differs
            from flight to flight.
    """

    gyro_density: float = 2e-3
    gyro_bias_radps: float = 0.01
    accel_density: float = 0.02
    accel_bias_mps2: float = 0.15
    attitude_rad: float = math.radians(0.1)
    position_m: float = 3e-4
    velocity_mps: float = 0.05


QUIET: Final = Noise(gyro_density=5e-4, accel_density=5e-3)
"""The samples' noise of a present-day sensor at rest.

The default has a share of the rotors' vibration.
"""
NO_NOISE: Final = Noise(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def simulated_errors(
    flight: FlightClass,
    delays_ms: Sequence[int],
    noise: Noise | None = None,
    samples: int = 150,
    seed: int = 7,
) -> Errors:
    """Show pictures rendered during flights after each delay.

    Further methods than :data:`~vil_benchmarks.compensate_points.METHODS`:
    ``homography_4m``, whose plane is 4 m away instead of at the picture's median depth, and the
    same methods after rendering for the pose forecast for the instant of showing: ``predict``,
    ``predict_rotation``...

    Args:
        flight: one of :data:`CLASSES`.
        delays_ms: even numbers, since the IMU measures every 2 ms.
        noise: None = the default's.
        samples: how many pictures, ten of each flight.
        seed: of flights, room and noise.
    """
    rng = np.random.default_rng(seed)
    room = _Room(rng)
    found: dict[tuple[int, str], list[FloatArray]] = {}
    for number in range(-(-samples // _PER_FLIGHT)):
        simulated = _flight(flight, noise or Noise(), number, rng)
        for t_ns in _instants(rng):
            px = rng.uniform(
                (-0.5, -0.5), (_CAMERA.width_px - 0.5, _CAMERA.height_px - 0.5), (_POINTS, 2)
            )
            anchor = simulated.measured(t_ns, rng)
            for delay_ms in delays_ms:
                for method, errors in _shown(
                    simulated, anchor, t_ns + delay_ms * NS_PER_MS, room, px
                ):
                    found.setdefault((delay_ms, method), []).append(errors)
    return {key: np.concatenate(errors) for key, errors in found.items()}


def filtered_errors(
    flight: FlightClass, noise: Noise, flights: int = 2, seed: int = 11
) -> tuple[FloatArray, FloatArray]:
    """Return the depth-aware warp's errors at 56 ms, pixels.

    With the filter, and from the newest noisy pose.

    Mocap at 200 Hz and the IMU fly along from the start; pictures are shown from the sixth second
    on.

    Args:
        flight: one of :data:`CLASSES`.
        noise: of mocap and IMU.
        flights: how many, of 20 s.
        seed: of flights, room and noise.
    """
    rng = np.random.default_rng(seed)
    room = _Room(rng)
    filtered: list[FloatArray] = []
    unfiltered: list[FloatArray] = []
    for number in range(flights):
        simulated = _flight(flight, noise, number, rng)
        for render_ns, raw, known, without in simulated.flown(rng):
            px = rng.uniform(
                (-0.5, -0.5), (_CAMERA.width_px - 0.5, _CAMERA.height_px - 0.5), (_POINTS, 2)
            )
            z_m = room.depths(raw, px)
            if z_m.min() < _NEAREST_M:
                continue
            true = simulated.motion.truth(render_ns + _FLOWN_DELAY_NS) @ T_BODY_OPTICAL
            filtered.append(
                errors_px(_K, _SIZE_PX, raw, known, true, px, z_m, methods=("depth",))["depth"]
            )
            unfiltered.append(
                errors_px(_K, _SIZE_PX, raw, without, true, px, z_m, methods=("depth",))["depth"]
            )
    return np.concatenate(filtered), np.concatenate(unfiltered)


class SimulatedFlight:
    """A flight with what mocap and IMU say of it.

    Args:
        motion: its IMU has noise and no bias.
        noise: the rest of the noise.
        rng: draws the biases.
    """

    def __init__(self, motion: DroneMotion, noise: Noise, rng: np.random.Generator) -> None:
        self.motion = motion
        self._noise = noise
        self._w_bias_radps = noise.gyro_bias_radps * rng.standard_normal(3)
        self._f_bias_mps2 = noise.accel_bias_mps2 * rng.standard_normal(3)

    def measured(self, t_ns: int, rng: np.random.Generator) -> NavState:
        """Return the state of the mocap filter at an instant."""
        pose = self.motion.truth(t_ns)
        v_mps = self.velocity(t_ns)
        turn_rad, shift_m, dv_mps = (
            sigma * rng.standard_normal(3)
            for sigma in (
                self._noise.attitude_rad,
                self._noise.position_m,
                self._noise.velocity_mps,
            )
        )
        noisy = Transform(pose.p_m + shift_m, q_mul(pose.q_xyzw, q_exp(turn_rad)))
        return NavState(t_ns, noisy, v_mps + dv_mps)

    def flown(
        self, rng: np.random.Generator
    ) -> Iterator[tuple[int, Transform, Transform, Transform]]:
        """Yield pictures of a flight.

        Instant rendered for, and cameras there, shown with and without the filter.

        The camera without a filter goes on from the noisy pose, with the filter's velocity and
        biases.
        """
        body = BodyFilter(Transform.identity())
        imu_ns = 0
        for number in range(1, round(_FLOWN_S * _MOCAP_HZ)):
            t_ns = number * (NS_PER_S // _MOCAP_HZ)
            samples = self._imu(imu_ns + 1, t_ns + _FLOWN_DELAY_NS)
            imu_ns = int(samples.t_ns[-1])
            for sample in zip(samples.t_ns.tolist(), samples.w_radps, samples.f_mps2, strict=True):
                body.add_imu(*sample)
            pose = self.measured(t_ns, rng).T_world_body
            body.add_pose(t_ns, pose.p_m, pose.q_xyzw)
            state = body.newest()
            if t_ns < _FLOWN_FROM_S * NS_PER_S or number % _FLOWN_EVERY or state is None:
                continue
            shown_ns = t_ns + _FLOWN_DELAY_NS
            raw = without_filter(state, pose)
            yield (
                t_ns,
                pose @ T_BODY_OPTICAL,
                seen_by(body, state, shown_ns),
                seen_by(body, raw, shown_ns),
            )

    def velocity(self, t_ns: int) -> FloatArray:
        """Return True velocity, shape (3,), by a central difference that is exact to micrometres
        per second.
        """
        step_ns = NS_PER_MS
        after = self.motion.truth(t_ns + step_ns).p_m
        before = self.motion.truth(t_ns - step_ns).p_m
        v_mps: FloatArray = (after - before) / (2e-9 * step_ns)
        return v_mps

    def cameras(self, anchor: NavState, shown_ns: int) -> tuple[Transform, Transform]:
        """Return the camera's estimated poses at an instant.

        With the IMU up to it, and forecast at the anchor.
        """
        known = propagate(anchor, preintegrate(*self._imu(anchor.t_ns, shown_ns)))
        ahead, _ = forecast(anchor, self._imu(anchor.t_ns - RECENT_NS, anchor.t_ns), shown_ns)
        return known.T_world_body @ T_BODY_OPTICAL, ahead.T_world_body @ T_BODY_OPTICAL

    def _imu(self, first_ns: int, last_ns: int) -> ImuWindow:
        samples = self.motion.imu_between(first_ns - 1, last_ns)
        t_ns, w_radps, f_mps2 = (np.array(column) for column in zip(*samples, strict=True))
        return ImuWindow(t_ns, w_radps + self._w_bias_radps, f_mps2 + self._f_bias_mps2)


def _shown(
    flight: SimulatedFlight, anchor: NavState, shown_ns: int, room: _Room, px: FloatArray
) -> Iterator[tuple[str, FloatArray]]:
    """Yield errors by method of a picture that is shown at an instant."""
    known, ahead = flight.cameras(anchor, shown_ns)
    true = flight.motion.truth(shown_ns) @ T_BODY_OPTICAL
    for prefix, render in (("", anchor.T_world_body @ T_BODY_OPTICAL), ("predict", ahead)):
        z_m = room.depths(render, px)
        if z_m.min() < _NEAREST_M:
            return
        views = _K, _SIZE_PX, render, known, true, px, z_m
        errors = errors_px(*views)
        errors["homography_4m"] = errors_px(*views, _PAPER_PLANE_M, ("homography",))["homography"]
        for method, e in errors.items():
            name = f"{prefix}_{method}" if prefix else method
            yield name.removesuffix("_none"), e


def _flight(
    flight: FlightClass, noise: Noise, number: int, rng: np.random.Generator
) -> SimulatedFlight:
    errors = ImuErrors((0.0, 0.0, 0.0), noise.gyro_density, noise.accel_density, seed=number)
    motion = DroneMotion(
        path=_path(flight, rng), center_m=(0.0, 0.0, 3.5), imu=errors, imu_rate_hz=_IMU_HZ
    )
    return SimulatedFlight(motion, noise, rng)


def _instants(rng: np.random.Generator) -> list[int]:
    """Return the instants at which pictures of a flight are rendered, those of inertial samples."""
    steps: list[int] = (
        np.rint(rng.uniform(_FIRST_S, _LENGTH_S, _PER_FLIGHT) * _IMU_HZ).astype(np.int64).tolist()
    )
    return [n * (NS_PER_S // _IMU_HZ) for n in steps]


def _path(flight: FlightClass, rng: np.random.Generator) -> SinePath:
    """Return sums of sines with the class's speed.

    The height has a fifth of x's energy: the room bounds it.
    """
    horizontal_mps = flight.speed_mps / math.sqrt(2.2)
    x, y = (_sines(horizontal_mps, flight.highest_hz, rng) for _ in range(2))
    z = _sines(horizontal_mps * math.sqrt(0.2), flight.highest_hz, rng)
    return SinePath((x, y, z), _sines(flight.yaw_radps, 0.8 * flight.highest_hz, rng))


def _sines(rate_rms: float, highest_hz: float, rng: np.random.Generator) -> tuple[Sine, ...]:
    """Return sines of random frequency and phase whose derivative has a given root mean square,
    in equal shares.
    """
    f_hz = rng.uniform(_LOWEST_HZ, highest_hz, _SINES)
    amplitude = rate_rms * math.sqrt(2.0 / _SINES) / (2.0 * math.pi * f_hz)
    phase_rad = rng.uniform(0.0, 2.0 * math.pi, _SINES)
    return tuple(zip(amplitude.tolist(), f_hz.tolist(), phase_rad.tolist(), strict=True))


class _Room:
    """Walls, floor and ceiling about the origin, and boxes along the walls."""

    def __init__(self, rng: np.random.Generator) -> None:
        angle = rng.uniform(0.0, 2.0 * math.pi, _BOXES)
        radius_m = rng.uniform(7.0, 11.0, _BOXES)
        half_m = rng.uniform(0.3, 1.2, (_BOXES, 3))
        centre_m = np.stack(
            (radius_m * np.cos(angle), radius_m * np.sin(angle), rng.uniform(0.5, 6.0, _BOXES)),
            axis=1,
        )
        self._low_m = centre_m - half_m
        self._high_m = centre_m + half_m

    def depths(self, T_world_optical: Transform, px: FloatArray) -> FloatArray:
        """Return z-depths, shape (n,), of pixels (n, 2).

        0 from outside the room or within a box (slab method).
        """
        rays = np.column_stack((px, np.ones(len(px)))) @ np.linalg.inv(_K).T
        d = (rays @ T_world_optical.rotation().T)[:, None]
        p_m = T_world_optical.p_m
        half_m = 0.5 * _ROOM_M
        away = p_m - np.array([0.0, 0.0, half_m[2]])
        if (np.abs(away) >= half_m).any():
            return np.zeros(len(px))
        wall = ((np.copysign(half_m, d[:, 0]) - away) / d[:, 0]).min(axis=1)
        a = (self._low_m - p_m) / d
        b = (self._high_m - p_m) / d
        enter = np.minimum(a, b).max(axis=2)
        leave = np.maximum(a, b).min(axis=2)
        box = np.where((enter < leave) & (leave > 0.0), np.maximum(enter, 0.0), np.inf).min(axis=1)
        depths: FloatArray = np.minimum(wall, box)
        return depths
