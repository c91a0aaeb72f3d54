"""Pictures from VIL Bridge on the vehicle: copy this one file.

It needs numpy and pyzmq (Python 3.8).

    with Receiver("tcp://bridge:5560", camera="front") as receiver:
        for frame in receiver:                        # always the newest picture
            vio.feed(frame.image, frame.t_ns, frame.K)

With the vehicle's IMU (``Receiver(..., imu=ring)``) a picture shows the moment at which it is
handed out. Copy client_warp.py too for that, which has the ring.

Pictures arrive as JPEG where simplejpeg or cv2 can be imported, else uncompressed. The vehicle, the
bridge and the camera may start in any order and restart at any time. ``receiver.alive`` turns False
when no picture came for ``timeout_s``; the bridge is not a safety system, so land by your own
means. From a shell: ``python client.py tcp://bridge:5560 --camera front --save pictures``.

Units are in the names; poses are T_world_camera (world x east, y north, z up; camera x right, y
down, z forward), quaternions x, y, z, w. Times are integer nanoseconds.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import contextlib
import dataclasses
import hashlib
import hmac
import importlib
import json
import math
import mmap
import os
import pathlib
import re
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import zmq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ClockSync", "Frame", "MeasuredBody", "Motion", "Pose", "Race", "Receiver", "write_png"]

_PROTOCOL = 1
_MAX_SIDE_PX = 8192
_MAX_HEADER_BYTES = 64 * 1024
_MAX_CONTROL_BYTES = 1 << 20
_MAX_DATA_BYTES = 8 * _MAX_SIDE_PX * _MAX_SIDE_PX
_JPEG_MODALITIES = ("rgb", "gray")
_TRANSPORTS = ("tcp", "shm", "udp")
_MODALITIES = (
    *_JPEG_MODALITIES,
    "rgba",
    "depth",
    "depth32",
    "normals",
    "semantic",
    "instance",
    "flow",
)
_MOVED_MODALITIES = (*_JPEG_MODALITIES, "rgba", "semantic", "instance")
_BURST = 5  # clock exchanges, 20 ms apart, before the first registration
_PING_S, _WAITING_PING_S = 0.06, 0.2  # with the burst never more than 20 exchanges in a second
_RETRY_S = 0.5
_SILENT_S = 2.0
_STALL_S = 5.0
_REFUSED_S = 1.0
_LONGEST_PROBLEM = 500
_AHEAD_NS = 1_000_000_000  # no picture shows an instant further ahead
_IMU_S = 0.004
_IMU_BATCH = 256
_IMU_WAITING = 2048
_HANDSHAKES = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_HANDSHAKES |= zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_SUCCEEDED
_NOBLOCK = int(zmq.NOBLOCK)  # pyzmq's enumerations cost more than a receive
_KEY_REFUSED = "the bridge does not know this reader's key"
_KEYS_DIFFER = (
    "the handshake failed: the bridge has another key, or one side uses keys and the other none"
)
_BAD_MESSAGE = (
    struct.error,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)


def _importable(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_jpeg = _importable("simplejpeg", "cv2")
_fcntl = _importable("fcntl")  # not on Windows, which has no shared memory of this kind


@dataclass(frozen=True)
class Pose:
    """A camera in the world: ``p_m`` shape (3,), ``q_xyzw`` shape (4,)."""

    p_m: np.ndarray[Any, Any]
    q_xyzw: np.ndarray[Any, Any]


@dataclass(frozen=True)
class MeasuredBody:
    """The camera's carrier at the newest instant that the bridge has measurements of.

    Nothing in it is foretold.

    Attributes:
        t_ns: the instant, in this vehicle's monotonic clock.
        T_world_body: pose of the body (x forward, y left, z up).
        v_world_mps: velocity of the body's origin, shape (3,).
        w_body_radps: angular rate, body axes, shape (3,).
    """

    t_ns: int
    T_world_body: Pose
    v_world_mps: np.ndarray[Any, Any]
    w_body_radps: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Motion:
    """Motion of the camera's carrier at the instant that a picture shows, and what the bridge knows
    of its IMU.

    Attributes:
        v_world_mps: velocity of the body's origin, shape (3,).
        w_body_radps: angular rate, body axes (x forward, y left, z up), shape (3,).
        gyro_bias_radps: to subtract from the gyroscope, IMU axes, shape (3,); None = not known.
        gyro_scale: true rate over measured rate without bias, less 1, each IMU axis, shape (3,);
            None = not known.
        accel_bias_mps2: to subtract from the accelerometer, IMU axes, shape (3,); None = not known.
        imu_late_ns: how much later the IMU's stamps are than mocap's of the same instant; None =
            not known.
        pose_covariance: of the carrier's pose in the bridge's picture, shape (6, 6): position (m,
            world axes), then attitude (rad, a turn in the body's axes); None = not known.
        measured: from where the vehicle's own samples go on; None = an older bridge.
    """

    v_world_mps: np.ndarray[Any, Any]
    w_body_radps: np.ndarray[Any, Any]
    gyro_bias_radps: np.ndarray[Any, Any] | None = None
    accel_bias_mps2: np.ndarray[Any, Any] | None = None
    imu_late_ns: int | None = None
    pose_covariance: np.ndarray[Any, Any] | None = None
    measured: MeasuredBody | None = None
    gyro_scale: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True)
class Race:
    """Race of the camera's carrier as the bridge knows it.

    A gate counts once it is surely passed, about 0.3 s later.

    Attributes:
        state: ``waiting``, ``ready``, ``racing``, or the outcome: ``finished``, ``missed``,
            ``collision``, ``out_of_bounds``, ``timed_out``.
        next_gate: name of the gate that is due; empty once the race has ended.
        passed: gates so far.
        lap: that is flown, from 1.
        laps: of the race.
        race_s: time of the race at the instant that the bridge's picture shows, without penalties.
        penalty_s: so far.
    """

    state: str
    next_gate: str
    passed: int
    lap: int
    laps: int
    race_s: float
    penalty_s: float


@dataclass(frozen=True)
class Frame:
    """One picture and what is known about it.

    Attributes:
        image: top row first, read-only, with a negative stride where rows came upside down. Gray
            (h, w), RGB (h, w, 3) or RGBA (h, w, 4), premultiplied, uint8; depth (h, w) uint16
            (metres x 655.35, 65535 = 100 m or nothing hit) or float32 metres (100 = nothing hit);
            semantic or instance ids (h, w) uint16, 0 = none; normals (h, w, 3) float16, camera
            axes; flow (h, w, 2) float32, pixels since the picture before, x right, y down, NaN
            where unknown.
        t_ns: instant that the picture shows, in this vehicle's monotonic clock; strictly
            increasing. In a simulation that is not in real time, the simulation's time, as are all
            times here; it begins again with the bridge.
        t_bridge_ns: the same instant in the bridge's clock.
        K: intrinsic matrix, shape (3, 3); pixel centres at integers, as OpenCV has it.
        pose_rendered, pose_display: poses it was rendered for and (after compensation) shows.
        motion: of the carrier; None = a fixed camera, or not known.
        compensation: method and what went into it. With ``imu``, ``late`` says what was done here:
            ``motion`` is ``inertial``, or ``none`` where the picture is the bridge's, with the
            ``problem``; then ``method``, ``d_m`` (distance of the plane), ``imu_age_ns`` (how old
            the newest sample was at ``t_ns``), ``moved_ns`` (by how much ``t_ns`` is later than the
            bridge's picture) and ``valid_fraction``.
        stamps: bridge time of capture, arrival, request, image, warp, encode, send, received; None
            = unknown.
        metadata: the whole header.
        age_s: hand-over to you minus ``t_ns``.
        latency_s: received minus requested by the bridge; None = unknown.
        tracking_state: of the camera's carrier: tracked, coasting, stale, lost, frozen, fixed or
            unknown.
        clock_uncertainty_ns: of ``t_ns``.
        race: of the carrier; None = it does not race.
    """

    image: np.ndarray[Any, Any]
    t_ns: int
    t_bridge_ns: int
    frame_id: int
    K: np.ndarray[Any, Any] | None
    pose_rendered: Pose | None
    pose_display: Pose | None
    motion: Motion | None
    compensation: dict[str, Any]
    stamps: dict[str, Any]
    metadata: dict[str, Any]
    age_s: float
    latency_s: float | None
    tracking_state: str
    clock_uncertainty_ns: int
    race: Race | None = None


class OffsetFilter:
    """Offset between two clocks, and its drift, from the bounds that exchanges of stamps give.

    Each way of an exchange bounds the offset on one side, and the distance of the bounds is the
    round trip. A way takes half of the least round trip and waits beyond that, exponentially
    distributed. Three hypotheses run side by side: the drift stays, the clock is slewed, the clock
    is stepped. Each is a Kalman filter of offset and drift with process noise of its own; each way
    updates them by matching moments. Their likelihoods weigh them (interacting multiple model), and
    the result is their mixture. An exchange that all of them exclude is suspect and left out; three
    that agree prove a step, and the filter starts over with the path and the drift known. While the
    usual waits are unknown, only the bounds of all exchanges together exclude one.

    Attributes:
        epoch: number of steps that started it over.
        count: exchanges since then.
        t_ref_ns: local time of the newest one.
        offset_ns: the offset then.
        drift: change of the offset per local time.
        covariance: of offset and drift: ns^2, ns, 1.
    """

    # By hypothesis: of drift, offset in ns; per sqrt(s).
    _NOISE = ((1e-7, 0.0), (2e-4, 0.0), (1e-7, 1e6))
    _STAY_S = (50.0, 2.0, 0.5)  # mean duration of each hypothesis
    _FIRST = (0.9, 0.05, 0.05)
    _DRIFT_PRIOR = 50e-6
    _KNOWN_DRIFT = 5e-6
    _MOST_DRIFT = 1e-3
    _FLOOR_NS = 20e3
    _LEAST_WAIT_NS = 5e3
    _USUAL = 0.125  # share of both waits that one way waits at least, as a mean
    _WINDOW = 960  # round trips, of which the least counts: a minute at 16 exchanges per second
    # The least of the round trips lies that share of its distance to the 8th above the bound.
    _RANK = 8
    _BEYOND = 0.467
    _MEMORY = 100  # exchanges over which waits are averaged
    _GATE = 5.0
    _AGREE_NS = 1e5
    _PROOF = 3
    _MANY = (
        32  # exchanges from which on the usual waits are known; before, only bounds exclude a clock
    )

    def __init__(self) -> None:
        self.epoch = self.count = self.t_ref_ns = self.offset_ns = 0
        self.drift = 0.0
        self.covariance = (0.0, 0.0, 0.0)
        self._drift_std = self._DRIFT_PRIOR
        # Offset beyond offset_ns, drift, and their covariance, by hypothesis.
        self._states: list[list[float]] = []
        self._weights: list[float] = []
        self._low = self._high = 0.0  # bounds of the offset by all exchanges, beyond offset_ns
        self._waits_ns = [0.0, 0.0]
        self._least_ns = 0  # round trip since the start or restart
        self._window: collections.deque[int] = collections.deque()
        self._ranked: list[int] = []  # the same in order
        self._suspects: list[tuple[int, int, int]] = []

    @property
    def best_rtt_ns(self) -> int:
        """The least round trip of the last minute or so; 0 before the first."""
        if not self._ranked:
            return 0
        return self._ranked[0]

    def offset_at(self, t_ns: int) -> int:
        """Return the offset at a local time."""
        return self.offset_ns + round(self.drift * (t_ns - self.t_ref_ns))

    def uncertainty_at(self, t_ns: int) -> int:
        """Return half the best round trip (a lopsided path is not measurable) plus two standard
        deviations.

        It is at least the distance to the farther bound that the exchanges give together: while
        they are few, waits on one way pull the offset to one side. A step may come with another
        path, as after a vehicle's sleep: only round trips since then count.
        """
        c00, c01, c11 = self.covariance
        dt_ns = float(t_ns - self.t_ref_ns)
        best_ns = max(self.best_rtt_ns, self._least_ns)
        std_ns = max(0.0, c00 + 2.0 * dt_ns * c01 + dt_ns * dt_ns * c11) ** 0.5
        farther_ns = max(self._high, -self._low) + 2.0 * max(0.0, c11) ** 0.5 * abs(dt_ns)
        return int(max(0.5 * best_ns + 2.0 * std_ns, farther_ns))

    def restart(self) -> None:
        """Forget the offset: a clock stepped. The path and the drift are as before."""
        if self.count:
            self._drift_std = max(self._KNOWN_DRIFT, max(0.0, self._states[0][4]) ** 0.5)
        self.epoch += 1
        self.count = 0
        self._suspects = []

    def add(self, t_ns: int, low_ns: int, high_ns: int) -> bool:
        """Account an exchange.

        At ``t_ns`` (local time, its middle) the offset was between the bounds.

        Returns:
            False where the exchange is impossible, or suspect and left out.
        """
        rtt_ns = high_ns - low_ns
        if rtt_ns < 0:
            return False
        if not self.count:
            self._start(t_ns, low_ns, high_ns)
        if t_ns < self.t_ref_ns:  # overtaken by a later one
            moved_ns = round(self.drift * (self.t_ref_ns - t_ns))
            t_ns = self.t_ref_ns
            low_ns = low_ns + moved_ns
            high_ns = high_ns + moved_ns
        self._predict(t_ns)
        base_ns, soft_ns = self._path(rtt_ns)
        low = low_ns - self.offset_ns + 0.5 * base_ns
        high = high_ns - self.offset_ns - 0.5 * base_ns
        excess = min(
            max(low - s[0], s[0] - high) / (s[2] + soft_ns * soft_ns) ** 0.5 for s in self._states
        )
        exchange = (t_ns, low_ns, high_ns)
        slack_ns = self._AGREE_NS + 4.0 * soft_ns - base_ns
        # One with a long way may fit both; only one that excludes the step absolves the clock.
        self._suspects = [s for s in self._suspects if self._agree(s, exchange, slack_ns)]
        if excess > self._GATE and (self.count >= self._MANY or self._excludes(low_ns, high_ns)):
            self._suspects.append(exchange)
            self._mix()
            return len(self._suspects) >= self._PROOF and self._step()
        self._learn(rtt_ns, high, low)
        self._bound(low_ns - self.offset_ns, high_ns - self.offset_ns)
        self._update(low, high, soft_ns)
        self._mix()
        self.count += 1
        return True

    def _start(self, t_ns: int, low_ns: int, high_ns: int) -> None:
        self.t_ref_ns = t_ns
        self.offset_ns = (low_ns + high_ns) // 2
        state = [0.0, self.drift, (0.5 * (high_ns - low_ns)) ** 2, 0.0, self._drift_std**2]
        self._states = [list(state) for _ in self._NOISE]
        self._weights = list(self._FIRST)
        self._low, self._high = low_ns - self.offset_ns, high_ns - self.offset_ns

    def _step(self) -> bool:
        """Start over with the suspects, which agree with each other."""
        suspects = self._suspects
        self.restart()
        for exchange in suspects:
            self.add(*exchange)
        return True

    def _excludes(self, low_ns: int, high_ns: int) -> bool:
        """Return True if the bounds of an exchange leave nothing of those that the others give
        together.
        """
        return low_ns - self.offset_ns > self._high or high_ns - self.offset_ns < self._low

    def _agree(self, a: tuple[int, int, int], b: tuple[int, int, int], slack_ns: float) -> bool:
        """Return True if one clock may have given the bounds of both exchanges."""
        return max(a[1], b[1]) - min(a[2], b[2]) <= slack_ns + self._MOST_DRIFT * abs(a[0] - b[0])

    def _path(self, rtt_ns: int) -> tuple[float, float]:
        """Return the round trip without any wait, and the standard deviation of bounds less half
        of it.
        """
        if not self._ranked:
            return rtt_ns, self._FLOOR_NS + 0.5 * rtt_ns
        least_ns = min(rtt_ns, self._ranked[0])
        n = len(self._ranked)
        beyond_ns = self._BEYOND * (self._ranked[min(n, self._RANK) - 1] - self._ranked[0])
        return max(0.0, least_ns - beyond_ns), self._FLOOR_NS + 0.5 * (beyond_ns + least_ns / n)

    def _learn(self, rtt_ns: int, high: float, low: float) -> None:
        """Account the round trip, and the wait of each way."""
        if self.count:
            self._least_ns = min(self._least_ns, rtt_ns)
        else:
            self._least_ns = rtt_ns
        self._window.append(rtt_ns)
        bisect.insort(self._ranked, rtt_ns)
        if len(self._window) > self._WINDOW:
            del self._ranked[bisect.bisect_left(self._ranked, self._window.popleft())]
        gain = 1.0 / min(len(self._window), self._MEMORY)
        mean = self._merged(self._weights)[0]
        for way, wait_ns in enumerate((high - mean, mean - low)):
            self._waits_ns[way] += gain * (max(0.0, wait_ns) - self._waits_ns[way])

    def _bound(self, low: float, high: float) -> None:
        """Account the bounds.

        Where a slewed clock leaves nothing between them and the others, they stand alone.
        """
        least = max(low, self._low)
        most = min(high, self._high)
        if least > most:
            least = low
            most = high
        self._low = least
        self._high = most

    def _predict(self, t_ns: int) -> None:
        """Mix the hypotheses, as each may have followed on each, and let time pass."""
        dt_ns = float(t_ns - self.t_ref_ns)
        dt_s = 1e-9 * dt_ns
        moved = self.drift * dt_ns
        wider = 2.0 * max(0.0, self.covariance[2]) ** 0.5 * dt_ns
        self._low = self._low + moved - wider
        self._high = self._high + moved + wider
        (a, b, c), (calm, slewed, stepped) = (
            self._weights,
            (math.exp(-dt_s / stay_s) for stay_s in self._STAY_S),
        )
        flows = [
            [a * calm, b * (1.0 - slewed), c * (1.0 - stepped)],
            [0.5 * a * (1.0 - calm), b * slewed, 0.0],
            [0.5 * a * (1.0 - calm), 0.0, c * stepped],
        ]
        self._weights = [max(1e-9, sum(flow)) for flow in flows]
        states = []
        for i, (drift_noise, offset_noise_ns) in enumerate(self._NOISE):
            offset, drift, c00, c01, c11 = self._merged(
                [share / self._weights[i] for share in flows[i]]
            )
            q = drift_noise * drift_noise * dt_s
            c00 += (
                dt_ns * (2.0 * c01 + dt_ns * (c11 + q / 3.0))
                + offset_noise_ns * offset_noise_ns * dt_s
            )
            c01 += dt_ns * (c11 + 0.5 * q)
            states.append([offset + dt_ns * drift, drift, c00, c01, c11 + q])
        self._states = states
        self.t_ref_ns = t_ns

    def _update(self, low: float, high: float, soft_ns: float) -> None:
        """Account both ways in each hypothesis, and weigh them by their likelihoods.

        The density of the two waits, as a function of the offset, is exponential by the difference
        of their rates, and ends at both bounds, which normal noise blurs. A round trip far beyond
        the usual speaks for neither way.
        """
        least_ns = max(self._LEAST_WAIT_NS, self._USUAL * (high - low))
        rates = [1.0 / max(least_ns, wait_ns) for wait_ns in self._waits_ns]
        tilt = rates[0] - rates[1]
        logs = []
        for i, state in enumerate(self._states):
            log = math.log(self._weights[i]) + tilt * state[0] + 0.5 * tilt * tilt * state[2]
            state[0] += state[2] * tilt
            state[1] += state[3] * tilt
            log += self._cut(state, 1.0, high - rates[0] * soft_ns * soft_ns, soft_ns)
            log += self._cut(state, -1.0, -low - rates[1] * soft_ns * soft_ns, soft_ns)
            logs.append(log)
        likelihoods = [math.exp(log - max(logs)) for log in logs]
        total = sum(likelihoods)
        self._weights = [likelihood / total for likelihood in likelihoods]

    def _cut(self, state: list[float], sign: float, edge_ns: float, soft_ns: float) -> float:
        """Account that sign * offset is below the edge, but for normal noise.

        Return the log of the probability.
        """
        variance = state[2] + soft_ns * soft_ns
        std = variance**0.5
        z = (edge_ns - sign * state[0]) / std
        if z > -25.0:
            mass = 0.5 * math.erfc(-z * 0.5**0.5)
            hazard = math.exp(-0.5 * z * z) / ((2.0 * math.pi) ** 0.5 * mass)
            log = math.log(mass)
            bend = hazard * (z + hazard)
        else:  # the same by the asymptotic series of the normal tail
            hazard = -z - 1.0 / z + 2.0 / z**3
            log = -0.5 * z * z - math.log((2.0 * math.pi) ** 0.5 * hazard)
            bend = 1.0 - 1.0 / z**2 + 6.0 / z**4
        k0 = state[2]
        k1 = state[3]
        state[0] -= k0 * sign * hazard / std
        state[1] -= k1 * sign * hazard / std
        # Digits end where nothing was known.
        state[2] = max(1e-12 * k0, k0 - k0 * k0 * bend / variance)
        state[3] -= k0 * k1 * bend / variance
        state[4] -= k1 * k1 * bend / variance
        return log

    def _merged(self, shares: list[float]) -> tuple[float, float, float, float, float]:
        """Return mean and covariance of the hypotheses mixed in these shares."""
        offset = sum(shares[i] * state[0] for i, state in enumerate(self._states))
        drift = sum(shares[i] * state[1] for i, state in enumerate(self._states))
        c00 = c01 = c11 = 0.0
        for i, state in enumerate(self._states):
            d0 = state[0] - offset
            d1 = state[1] - drift
            c00 += shares[i] * (state[2] + d0 * d0)
            c01 += shares[i] * (state[3] + d0 * d1)
            c11 += shares[i] * (state[4] + d1 * d1)
        return offset, drift, c00, c01, c11

    def _mix(self) -> None:
        """Make the mixture of the hypotheses the result."""
        offset, drift, *covariance = self._merged(self._weights)
        whole_ns = round(offset)
        self.offset_ns += whole_ns
        self._low = self._low - whole_ns
        self._high = self._high - whole_ns
        for state in self._states:
            state[0] -= whole_ns
        self.drift = max(-self._MOST_DRIFT, min(self._MOST_DRIFT, drift))
        self.covariance = (covariance[0], covariance[1], covariance[2])


class ClockSync:
    """Maps bridge time to vehicle time by an :class:`OffsetFilter` of four-timestamp exchanges.

    ``offset`` is vehicle minus bridge. ``epoch`` counts jumps of either clock, after which the
    filter starts over. ``simulated``: the bridge's time is slowed, sped up or stands; then the
    vehicle's time is the bridge's own.
    """

    def __init__(self) -> None:
        self.simulated = False
        self._filter = OffsetFilter()

    def __len__(self) -> int:
        """Return the number of exchanges since the last jump."""
        return self._filter.count

    @property
    def epoch(self) -> int:
        """Number of jumps of either clock."""
        return self._filter.epoch

    def add(self, t1: int, t2: int, t3: int, t4: int) -> None:
        """Account an exchange.

        Sent t1 (vehicle), received t2 and answered t3 (bridge), received t4 (vehicle).
        """
        if t4 >= t1 and t3 >= t2:
            self._filter.add((t1 + t4) // 2, t1 - t2, t4 - t3)

    @property
    def best_rtt_ns(self) -> float:
        """The shortest round trip of the last minute."""
        return self._filter.best_rtt_ns

    def offset_ns(self, t_vehicle_ns: int) -> int:
        """Return the offset, vehicle minus bridge, at a vehicle time."""
        return self._filter.offset_at(t_vehicle_ns)

    def uncertainty_ns(self, t_vehicle_ns: int) -> int:
        """Return the bound of the offset's error that holds 95 times of 100.

        See :class:`OffsetFilter`.
        """
        return self._filter.uncertainty_at(t_vehicle_ns)

    def to_vehicle_ns(self, t_bridge_ns: int) -> int:
        """Return the vehicle time of a bridge time."""
        if self.simulated:
            return t_bridge_ns
        known = self._filter
        guess = t_bridge_ns + known.offset_ns
        return guess + round((guess - known.t_ref_ns) * known.drift / (1.0 - known.drift))

    def to_bridge_ns(self, t_vehicle_ns: int) -> int:
        """Return the bridge time of a vehicle time."""
        if self.simulated:
            return t_vehicle_ns
        return t_vehicle_ns - self.offset_ns(t_vehicle_ns)


@dataclass
class _Arrival:
    header: dict[str, Any]
    payload: Any
    t_ns: int
    t_received_ns: int  # bridge time
    uncertainty_ns: int
    t_expires_ns: float  # this vehicle's time, after which it is too old to be handed over
    sync: ClockSync  # of the bridge that sent it


class Receiver:
    """Reads one stream in a thread of its own and hands out the newest picture.

    Args:
        endpoint: the bridge's control channel, ``tcp://host:port``.
        camera: its name in the bridge's configuration.
        modality: ``rgb``, ``gray``, ``rgba``, ``depth``, ``depth32``, ``normals``, ``semantic``,
            ``instance`` or ``flow``, as far as the camera is configured to have it.
        color: ``gray`` or ``rgb``.
        variant: ``compensated`` or ``raw`` (as rendered, for a VIO that fuses delayed pictures).
        encoding: ``jpeg`` or ``raw``; None picks what can be decoded here. ``events`` = those of an
            event camera between the pictures, ``points`` = those that a depth picture shows, as a
            structured array instead of pixels; both need ``variant="raw"``.
        quality: of JPEG, 1 to 100.
        adaptive: let the bridge lower the quality while the link is too slow for it.
        rate_hz: pictures per second at most, evenly; None = all.
        transport: ``tcp``; ``shm`` (shared memory, for a reader on the bridge's host, of the same
            user; tcp where that is not possible); ``udp`` (with parity, for lossy radio links).
        queue: pictures that wait for you: 1 = the newest only, more = in order, the oldest are
            given up.
        server_key: the bridge's public CURVE key, where it asks for keys: 40 characters, or its
            ``.key`` file.
        secret_key: this reader's ``.key_secret`` file, or its secret key.
        access_token: for commands to a bridge with ``http.token_file``: a token of the role
            ``control``, or a file with the line ``control = TOKEN``; by default the environment's
            ``VIL_ACCESS_TOKEN``.
        name: shown in the bridge's status; the host's name by default. Where the bridge asks for
            keys, the name of this reader's key file there.
        timeout_s: silence, or age of pictures, after which ``alive`` is False.
        imu: the vehicle's ``client_warp.ImuRing``, or a ``LateWarper`` over it where distance,
            mounting or bias are your own. Compensated pictures are then moved to the moment at
            which they are handed out, by the samples since the newest instant that the bridge
            measured; without usable samples the bridge's picture comes.
        clock: the vehicle's monotonic clock, ns.

    Attributes:
        counters: ``received``, ``delivered``, ``superseded`` (newer ones came before you asked),
            ``late`` (not newer than the one before), ``too_old`` (beyond the camera's
            ``max_age_ms``), ``malformed``, ``overwritten`` (in shared memory, before it was read),
            ``registrations``; of UDP ``packets``, ``repaired`` (by parity), ``incomplete``
            pictures; ``imu`` samples sent and ``imu_dropped``; with ``imu`` pictures ``warped``
            here and ``unwarped`` for want of samples.
        transport: in use: ``tcp``, ``shm`` or ``udp``.
        fallback: why ``shm`` was not possible; empty otherwise.
        camera_info: the bridge's description of the camera (size, intrinsics, T_body_camera...).
        problem: why no usable pictures come, as far as known, in the bridge's words where it says
            so; empty while all is well.
        clock_sync: the clock mapping in use.
    """

    def __init__(
        self,
        endpoint: str,
        camera: str = "front",
        modality: str = "rgb",
        color: str = "gray",
        variant: str = "compensated",
        *,
        encoding: str | None = None,
        quality: int = 90,
        adaptive: bool = False,
        rate_hz: float | None = None,
        transport: str = "tcp",
        queue: int = 1,
        server_key: str | pathlib.Path = "",
        secret_key: str | pathlib.Path = "",
        access_token: str | pathlib.Path = "",
        name: str = "",
        timeout_s: float = 0.5,
        imu: Any = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if transport not in _TRANSPORTS:
            raise ValueError(f"transport must be one of {_TRANSPORTS}, got {transport!r}")
        if rate_hz is not None and not 0.01 < rate_hz <= 10_000:
            raise ValueError(f"rate_hz must be above 0.01 and at most 10000, got {rate_hz}")
        found = re.match(r"(tcp://.+):\d+$", endpoint)
        if not found:
            raise ValueError(f"endpoint must be tcp://host:port, got {endpoint!r}")
        self._warper = None if imu is None else _late_warper(imu, variant, modality)
        self._endpoint, self._host, self._clock, self._timeout_s = (
            endpoint,
            found.group(1),
            clock,
            timeout_s,
        )
        if encoding is None:
            encoding = "raw"
            if _jpeg is not None and modality in _JPEG_MODALITIES:
                encoding = "jpeg"
        self._registration = {
            "type": "register",
            "v": _PROTOCOL,
            "camera": camera,
            "modality": modality,
            "color": color,
        }
        self._registration.update(
            variant=variant,
            encoding=encoding,
            quality=quality,
            name=name or socket.gethostname()[:64],
        )
        self._registration.update(transport=transport, rate_hz=rate_hz, adaptive=adaptive)
        self._transport = transport
        self._keys = _curve_keys(server_key, secret_key)
        self._access = _access_token(access_token or os.environ.get("VIL_ACCESS_TOKEN", ""))
        self._prepare(queue)
        self._thread = threading.Thread(target=self._run, name="vil-receiver", daemon=True)
        self._thread.start()

    def _prepare(self, queue: int) -> None:
        """Set the state before the thread starts."""
        self.transport = self._transport
        self.fallback = ""
        self.counters: collections.Counter[str] = collections.Counter()
        self.camera_info: dict[str, Any] = {}
        self.problem = f"no answer from {self._endpoint} yet"
        self.clock_sync = ClockSync()
        self._changed = threading.Condition()
        self._arrivals: collections.deque[_Arrival] = collections.deque(maxlen=max(1, queue))
        self._imu: collections.deque[tuple[int, list[float], list[float]]] = collections.deque(
            maxlen=_IMU_WAITING
        )
        self._closing = False
        self._failure: BaseException | None = None
        self._answers: dict[int, dict[str, Any]] = {}
        self._outbox: collections.deque[tuple[float, dict[str, Any]]] = collections.deque()
        self._last_id = 0
        self._token = self._instance = self._refusal = ""
        self._pings: collections.deque[int] = collections.deque(maxlen=64)
        self._last_t_ns = self._last_t_bridge_ns = self._handed_t_ns = -(1 << 63)
        self._t_simulated_ns = 0
        self._aged = False  # the newest picture arrived too old
        self._t_frame_s = self._t_heard_s = self._t_usable_s = float("-inf")
        self._t_ping_s = self._t_register_s = self._t_imu_s = self._t_again_s = 0.0
        self._credit: dict[str, Any] | None = None  # that could not be given back yet
        self._data: Any = None
        self._ring: _Ring | None = None
        self._packets: _Packets | None = None
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Frame]:
        while True:
            frame = self.next(1.0)
            if frame is not None:
                yield frame
            elif self._closing:
                return

    @property
    def alive(self) -> bool:
        """The dead man's signal: True while usable pictures arrive.

        The last one came, and showed an instant, less than ``timeout_s`` ago, and the bridge has
        not said since that its poses or pictures are frozen. Black pictures (the vehicle is not
        tracked), repeated or broken ones do not count.
        """
        return time.monotonic() - self._t_usable_s < self._timeout_s

    def next(self, timeout: float = 1.0) -> Frame | None:
        """Return the newest picture not handed out yet (of a ``queue`` the next).

        None after ``timeout`` seconds.
        """
        deadline_s = time.monotonic() + timeout
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._arrivals or self._closing, max(0.0, deadline_s - time.monotonic())
                )
                arrival = self._arrivals.popleft() if self._arrivals else None
            if self._failure is not None:
                raise RuntimeError("the receiving thread failed") from self._failure
            if arrival is None:
                return None
            if self._is_too_old(arrival):
                continue
            try:
                frame = self._frame(arrival)
                if self._warper is not None:
                    frame = self._moved(frame, self._warper)
            except _BAD_MESSAGE:
                self._count("malformed")
                self._t_usable_s = float("-inf")
                continue
            if self._is_too_old(arrival):  # decoding takes time
                continue
            with self._changed:
                other_time = arrival.sync is not self.clock_sync and (
                    arrival.sync.simulated or self.clock_sync.simulated
                )
                # Of another simulation, or the bridge's picture behind one that was moved ahead of
                # it.
                if other_time or frame.t_ns <= self._handed_t_ns:
                    self._count("late")
                    continue
                self._handed_t_ns = frame.t_ns
            self.counters["delivered"] += 1
            return frame

    def _count(self, name: str, n: int = 1) -> None:
        """Account what the receiving thread and the one that takes pictures both count."""
        with self._changed:
            self.counters[name] += n

    def _is_too_old(self, arrival: _Arrival) -> bool:
        """Return True, and count it, when a picture is beyond its camera's ``max_age_ms`` by
        this vehicle's clock.
        """
        if self._now_ns() <= arrival.t_expires_ns:
            return False
        self._count("too_old")
        return True

    def status(self, timeout: float = 1.0) -> dict[str, Any]:
        """Return the bridge's status, as soon as this reader is registered. Raises TimeoutError."""
        answer: dict[str, Any] = self._ask({"type": "status"}, timeout)["status"]
        return answer

    def send_command(self, command: str, timeout: float = 1.0, **args: Any) -> Any:
        """Run a command of the bridge and return its result.

        Raises TimeoutError; ValueError when refused.
        """
        message = {"type": "command", "name": command, "args": args, "access": self._access}
        answer = self._ask(message, timeout)
        if not answer.get("ok"):
            raise ValueError(str(answer.get("error")))
        return answer.get("value")

    def send_imu(self, t_ns: Any, w_radps: Any, f_mps2: Any) -> None:
        """Send inertial samples of this vehicle to the bridge, whose ``onboard-imu`` source
        predicts with them.

        They leave in batches a few milliseconds apart; what waits for long without a bridge is
        dropped.

        Args:
            t_ns: instants in this vehicle's clock, increasing: one, or shape (n,).
            w_radps: angular rate, IMU axes, shape (3,) or (n, 3).
            f_mps2: specific force (at rest: gravity's opposite), likewise.
        """
        times = np.atleast_1d(np.asarray(t_ns, dtype=np.int64))
        rates, forces = (
            np.asarray(v, dtype=float).reshape(len(times), 3) for v in (w_radps, f_mps2)
        )
        if not (np.isfinite(rates).all() and np.isfinite(forces).all()):
            raise ValueError("inertial samples must be finite")
        rates, forces = rates.round(7), forces.round(6)  # shorter as text
        samples = [(int(t), rates[i].tolist(), forces[i].tolist()) for i, t in enumerate(times)]
        with self._changed:
            # Under the lock: else the thread may take what is there, and not see what comes.
            idle = not self._imu
            self.counters["imu_dropped"] += max(0, len(self._imu) + len(samples) - _IMU_WAITING)
            self._imu.extend(samples)
        if idle:
            self._wake()

    def close(self) -> None:
        """Say goodbye and stop; may be called twice."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._wake()
        self._thread.join(2.0)
        self._wake_out.close()

    def _wake(self) -> None:
        if self._wake_out.fileno() >= 0:
            with contextlib.suppress(OSError):  # the thread has ended, or another one closes
                self._wake_out.send(b"x")

    def _ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        with self._changed:
            self._last_id += 1
            request_id = self._last_id
            self._outbox.append((time.monotonic() + timeout, dict(message, id=request_id)))
        self._wake()
        with self._changed:
            self._changed.wait_for(lambda: request_id in self._answers or self._closing, timeout)
            answer = self._answers.pop(request_id, None)
        if answer is None:
            why = f": {self.problem}" if self.problem else ""
            raise TimeoutError(f"no answer from {self._endpoint} within {timeout} s{why}")
        return answer

    def _frame(self, arrival: _Arrival) -> Frame:
        header = arrival.header
        stamps = dict(arrival.header.get("stamps_ns") or {})
        stamps["received"] = arrival.t_received_ns
        request_ns = stamps.get("request")
        return Frame(
            image=_decode(header, arrival.payload),
            t_ns=arrival.t_ns,
            t_bridge_ns=header["t_display_ns"],
            frame_id=header["frame_id"],
            K=_intrinsics(header.get("K")),
            pose_rendered=_pose(header.get("pose_rendered")),
            pose_display=_pose(header.get("pose_display")),
            motion=_motion(header.get("motion"), arrival.t_ns - header["t_display_ns"]),
            compensation=dict(header.get("compensation") or {}),
            stamps=stamps,
            metadata=header,
            age_s=(self._now_ns() - arrival.t_ns) * 1e-9,
            latency_s=None if request_ns is None else (stamps["received"] - request_ns) * 1e-9,
            tracking_state=str(header.get("tracking") or "unknown"),
            clock_uncertainty_ns=arrival.uncertainty_ns,
            race=_race(header.get("race")),
        )

    def _moved(self, frame: Frame, warper: Any) -> Frame:
        """Return a picture moved to this moment.

        Where the samples do not suffice, unchanged, with the reason.
        """
        t_now_ns = max(self._now_ns(), self._handed_t_ns + 1)  # simulated time may stand
        late = warper.warp(frame, self.camera_info, t_now_ns, constant_rate=False)
        done = {"motion": late.motion, "problem": late.problem}
        self.counters["warped" if late.motion == "inertial" else "unwarped"] += 1
        if late.motion != "inertial":
            return dataclasses.replace(frame, compensation=dict(frame.compensation, late=done))
        done.update(
            method=late.method,
            d_m=late.d_m,
            imu_age_ns=late.imu_age_ns,
            valid_fraction=late.valid_fraction,
        )
        done.update(moved_ns=late.t_ns - frame.t_ns)
        late.image.flags.writeable = False
        motion: Any = frame.motion
        return dataclasses.replace(
            frame,
            image=late.image,
            t_ns=late.t_ns,
            t_bridge_ns=self.clock_sync.to_bridge_ns(late.t_ns),
            pose_display=Pose(*late.pose_display),
            motion=dataclasses.replace(
                motion, v_world_mps=late.v_world_mps, w_body_radps=late.w_body_radps
            ),
            compensation=dict(frame.compensation, late=done),
            age_s=(self._now_ns() - late.t_ns) * 1e-9,
        )

    # --- the receiving thread ------------------------------------------------------------------

    def _run(self) -> None:
        context = zmq.Context()
        self._poller = zmq.Poller()
        self._poller.register(self._wake_in, zmq.POLLIN)
        try:
            self._open_control(context)
            while not self._closing:
                self._talk(time.monotonic())
                due_s = self._t_ping_s
                if self._imu and self._token:
                    due_s = min(due_s, self._t_imu_s)
                for ready, _ in self._poller.poll(
                    max(1, int(1000 * (due_s - time.monotonic())) + 1)
                ):
                    if ready is self._control:
                        self._drain(self._control, self._on_control)
                    elif ready is self._data:
                        self._drain(self._data, self._on_message)
                    elif ready is self._events:
                        self._drain(self._events, self._on_event)
                    elif self._packets is not None and ready == self._packets.fileno():
                        self._on_packets(self._packets)
                    elif ready == self._wake_in.fileno():
                        self._wake_in.recv(4096)
            self._send({"type": "unregister", "token": self._token})
        except BaseException as exc:  # raised in next()
            self._failure = exc
            with self._changed:
                self._closing = True
                self._changed.notify_all()
        finally:
            self._leave()
            context.destroy(linger=100)
            self._wake_in.close()

    def _open_control(self, context: Any) -> None:
        self._control = self._new_socket(context, _MAX_CONTROL_BYTES)
        self._events = self._control.get_monitor_socket(_HANDSHAKES)
        self._poller.register(self._events, zmq.POLLIN)
        # Now: a handshake that fails unseen is never tried again.
        self._control.connect(self._endpoint)

    def _close_control(self) -> None:
        for sock in (self._control, self._events):
            self._poller.unregister(sock)
        self._control.disable_monitor()
        self._events.close()
        self._control.close()

    def _new_socket(self, context: Any, limit_bytes: int, identity: str = "") -> Any:
        sock = context.socket(zmq.DEALER)
        options = [
            (zmq.LINGER, 0),
            (zmq.IMMEDIATE, 1),
            (zmq.MAXMSGSIZE, limit_bytes),
            (zmq.RCVHWM, 16),
        ]
        options += [(zmq.RECONNECT_IVL, 50), (zmq.RECONNECT_IVL_MAX, 500), (zmq.TCP_MAXRT, 5000)]
        options += [
            (zmq.TCP_KEEPALIVE, 1),
            (zmq.TCP_KEEPALIVE_IDLE, 2),
            (zmq.TCP_KEEPALIVE_INTVL, 1),
        ]
        options.append((zmq.TCP_KEEPALIVE_CNT, 3))  # not ZeroMQ's heartbeats: libzmq's issue 4364
        for option, value in options:
            sock.setsockopt(option, value)
        if identity:
            sock.setsockopt(zmq.ROUTING_ID, identity.encode())
        if self._keys is not None:
            sock.curve_serverkey, sock.curve_publickey, sock.curve_secretkey = self._keys
        self._poller.register(sock, zmq.POLLIN)
        return sock

    def _drain(self, sock: Any, handle: Callable[[list[Any]], None]) -> None:
        for _ in range(64):
            if sock.closed:
                return
            try:
                handle(sock.recv_multipart(_NOBLOCK, copy=False))
            except zmq.Again:
                return
            except _BAD_MESSAGE:
                self._count("malformed")

    def _send(self, message: dict[str, Any]) -> bool:
        try:
            self._control.send(json.dumps(message).encode(), _NOBLOCK)
        except zmq.Again:  # not connected
            return False
        return True

    def _talk(self, now_s: float) -> None:
        """Say what is due: questions of other threads, a clock exchange, a registration."""
        for _ in range(len(self._outbox)):
            until_s, message = self._outbox.popleft()
            # For readers only.
            early = message["type"] == "status" and not self._token and self._keys is None
            if now_s <= until_s and (early or not self._send(dict(message, token=self._token))):
                self._outbox.append((until_s, message))
        # A socket whose key was refused never tries again by itself.
        if self._refusal and now_s >= self._t_again_s:
            self._t_again_s = now_s + _REFUSED_S
            context = self._control.context
            self._close_control()
            self._open_control(context)
        if self._credit is not None and self._send(self._credit):
            self._credit = None
        if now_s - self._t_heard_s > _SILENT_S:
            self.problem = self._refusal or f"no answer from {self._endpoint}"
        # Simulated time needs no mapping, and would seem to jump at each exchange.
        clock_known = self.clock_sync.simulated or len(self.clock_sync) >= _BURST
        if now_s >= self._t_ping_s:
            t1 = self._clock()
            if self._send(
                {
                    "type": "ping",
                    "token": self._token,
                    "t1": t1,
                    "too_old": self.counters["too_old"],
                }
            ):
                self._pings.append(t1)
            pause_s = _WAITING_PING_S
            if not clock_known:
                pause_s = 0.02
            elif self._token:
                pause_s = _PING_S
            self._t_ping_s = now_s + pause_s
            if self._packets is not None:
                self._packets.report()
        if self._imu and self._token and now_s >= self._t_imu_s:
            self._t_imu_s = now_s + _IMU_S
            self._send_samples()
        if not self._token and clock_known and now_s >= self._t_register_s:
            self._send(self._registration)
            self._t_register_s = now_s + _RETRY_S

    def _send_samples(self) -> None:
        with self._changed:
            taken = [self._imu.popleft() for _ in range(min(len(self._imu), _IMU_BATCH))]
        samples: list[tuple[int, list[float], list[float]]] = []
        for t_ns, w_radps, f_mps2 in taken:
            t_bridge_ns = self.clock_sync.to_bridge_ns(t_ns)
            # One that does not increase spoils a whole message.
            if not samples or t_bridge_ns > samples[-1][0]:
                samples.append((t_bridge_ns, w_radps, f_mps2))
        message: dict[str, Any] = {"type": "imu", "token": self._token}
        message["t_ns"] = [t_bridge_ns for t_bridge_ns, _, _ in samples]
        message["w_radps"] = [w for _, w, _ in samples]
        message["f_mps2"] = [f for _, _, f in samples]
        sent = 0
        if self._send(message):
            sent = len(samples)
        self.counters["imu"] += sent
        self._count("imu_dropped", len(taken) - sent)

    def _on_event(self, parts: list[Any]) -> None:
        """Account a handshake; with keys, a failed one is the bridge's only refusal."""
        event = struct.unpack_from("=H", parts[0].bytes)[0]
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._refusal = ""
        else:
            self._t_again_s = time.monotonic() + _REFUSED_S
            if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._refusal = _KEY_REFUSED
            else:
                self._refusal = _KEYS_DIFFER

    def _on_control(self, parts: list[Any]) -> None:
        t4 = self._clock()
        message = json.loads(parts[0].bytes)
        kind = message["type"]
        if kind == "pong":
            self._on_pong(message, t4)
        elif kind == "registered":
            self._on_registered(message)
        elif kind == "error":
            known = message.get("known")
            problem = str(message["reason"])
            if known:
                problem += f", known: {known}"
            self.problem = problem
        elif kind in ("status", "result"):
            with self._changed:
                self._answers[_int64(message["id"])] = message
                while len(self._answers) > 64:  # answers to questions given up
                    del self._answers[min(self._answers)]
                self._changed.notify_all()
        else:
            raise ValueError("unknown message")

    def _on_pong(self, pong: dict[str, Any], t4: int) -> None:
        t1 = _int64(pong["t1"])
        t2 = _int64(pong["t2"])
        t3 = _int64(pong["t3"])
        self._pings.remove(t1)  # ValueError: never asked
        self._t_heard_s = time.monotonic()
        simulated = pong.get("simulated") is True
        if pong["instance"] != self._instance:  # another process, perhaps another clock
            self._instance = str(pong["instance"])
            with self._changed:
                begins_again = simulated or self.clock_sync.simulated
                self.clock_sync = ClockSync()
                self._t_simulated_ns = 0
                self.clock_sync.simulated = simulated
                self._last_t_bridge_ns = -(1 << 63)
                if begins_again:
                    self._last_t_ns = self._handed_t_ns = -(1 << 63)
            # What it lacked it may have now.
            self._registration["transport"] = self._transport
            self.fallback = ""
            self._leave()
        self.clock_sync.simulated = simulated
        self._t_simulated_ns = max(self._t_simulated_ns, t3)
        self.clock_sync.add(t1, t2, t3, t4)
        stalled = (
            pong["in_flight"] >= 2
            and self._t_heard_s - max(self._t_frame_s, self._t_register_s) > _STALL_S
        )
        if self._token and (stalled or not pong["known"]):
            self._leave()
        elif self._token:
            self.problem = self._obstacle() or str(pong.get("problem") or "")[:_LONGEST_PROBLEM]
            if pong.get("frozen") is True:
                self._t_usable_s = float("-inf")

    def _obstacle(self) -> str:
        """Describe what is between us and the pictures although the bridge answers.

        Empty = nothing known.
        """
        if self._aged:
            return (
                "pictures arrive older than the camera's max_age_ms: the link is too slow "
                "for their size"
            )
        if self._packets is not None:
            return "" if self._packets.received else "no packet came by UDP so far"
        if self._data.getsockopt(zmq.EVENTS) & zmq.POLLOUT:  # by IMMEDIATE: a connection stands
            return ""
        return f"no connection to {self._address} so far, from where the pictures come"

    def _now_ns(self, header: dict[str, Any] | None = None) -> int:
        """Return this vehicle's time.

        In a simulation the newest time heard of, that of ``header`` included.
        """
        if header is not None and self.clock_sync.simulated:
            self._t_simulated_ns = max(self._t_simulated_ns, _int64(header["stamps_ns"]["send"]))
        if self.clock_sync.simulated:
            return self._t_simulated_ns
        return self._clock()

    def _leave(self) -> None:
        self._token = ""
        self._credit = None
        self._aged = False
        self._t_ping_s = self._t_register_s = 0.0
        self.problem = "not registered"
        if self._data is not None:
            self._poller.unregister(self._data)
            self._data.close()
            self._data = None
        if self._ring is not None:
            self._ring.close()
            self._ring = None
        if self._packets is not None:
            self._poller.unregister(self._packets.fileno())
            self._packets.close()
            self._packets = None

    def _on_registered(self, message: dict[str, Any]) -> None:
        token = str(message["token"])[:255]
        port = _int64(message["data_port"])
        info = dict(message["camera"])
        if not token or not 0 < port < 65536:
            raise ValueError("bad registration")
        self._leave()
        self._token = token
        self.camera_info = info
        self.problem = ""
        self.transport = str(message.get("transport", "tcp"))
        if self.transport == "udp":
            try:
                self._packets = _Packets(
                    self._host, _int64(message["udp_port"]), token, self._count
                )
            except OSError as exc:  # the name is not known at this moment, or no way leads there
                self._leave()
                self.problem, self._t_register_s = (
                    f"no UDP to {self._host}: {exc}",
                    time.monotonic() + _RETRY_S,
                )
                return
            self._poller.register(self._packets.fileno(), zmq.POLLIN)
            self._packets.report()
        else:
            self._address = f"{self._host}:{port}"
            self._data = self._new_socket(self._control.context, _MAX_DATA_BYTES, token)
            self._data.connect(self._address)
        self._t_register_s = time.monotonic()
        self.counters["registrations"] += 1

    def _on_message(self, parts: list[Any]) -> None:
        t_received_ns = self._clock()  # first: reading the header takes time
        self.counters["received"] += 1
        self._t_frame_s = time.monotonic()
        if len(parts) != 2 or len(parts[0]) > _MAX_HEADER_BYTES:
            raise ValueError("not a header and a picture")
        header = json.loads(parts[0].bytes)
        credit = {"type": "credit", "token": self._token, "frame_id": _int64(header["frame_id"])}
        memory = header.get("memory")
        payload = parts[1].buffer if memory is None else self._from_memory(memory)
        if memory is not None or self.clock_sync.simulated:
            t_received_ns = self._now_ns(header)
        credit["t_received_ns"] = self.clock_sync.to_bridge_ns(t_received_ns)
        credit["uncertainty_ns"] = self.clock_sync.uncertainty_ns(t_received_ns)
        self._credit = None if self._send(credit) else credit  # the newest settles those before it
        if payload is not None:
            self._on_picture(header, payload, t_received_ns)

    def _from_memory(self, memory: dict[str, Any]) -> Any:
        """Return a copy of a picture in shared memory.

        None when it is gone, or not available here.
        """
        address = _int64(memory["pid"]), _int64(memory["fd"]), str(memory["nonce"])
        try:
            if self._ring is None or self._ring.address != address:
                if self._ring is not None:
                    self._ring.close()
                self._ring = _Ring(*address)
        except OSError as exc:
            self._registration["transport"] = "tcp"
            self.fallback = f"no shared memory here: {exc}"
            self._leave()
            return None
        payload = self._ring.read(_int64(memory["sequence"]), _int64(memory["size"]))
        self.counters["overwritten"] += payload is None
        return payload

    def _on_packets(self, packets: _Packets) -> None:
        for message in packets.receive():
            self.counters["received"] += 1
            self._t_frame_s = time.monotonic()
            try:
                size = struct.unpack_from("<I", message)[0]
                header = json.loads(bytes(message[4 : 4 + min(size, _MAX_HEADER_BYTES)]))
                t_received_ns = self._now_ns(header)
                frame_id = _int64(header["frame_id"])
                sync = self.clock_sync
                packets.report(
                    frame_id, sync.to_bridge_ns(t_received_ns), sync.uncertainty_ns(t_received_ns)
                )
                self._on_picture(header, message[4 + size :], t_received_ns)
            except _BAD_MESSAGE:
                self._count("malformed")

    def _on_picture(self, header: dict[str, Any], payload: Any, t_received_ns: int) -> None:
        t_bridge_ns = _int64(header["t_display_ns"])
        sync = self.clock_sync
        t_ns = sync.to_vehicle_ns(t_bridge_ns)
        if t_ns - t_received_ns > _AHEAD_NS:
            raise ValueError("a stamp after which nothing would be newer for long")
        expires = header.get("t_expires_ns")  # older bridges do not say it
        t_expires_ns = math.inf if expires is None else sync.to_vehicle_ns(_int64(expires))
        if t_bridge_ns <= self._last_t_bridge_ns or t_ns <= self._last_t_ns:
            self._count("late")
            return
        self._last_t_bridge_ns = t_bridge_ns
        self._last_t_ns = t_ns
        # Now, since a restart forgets it.
        known = sync.to_bridge_ns(t_received_ns), sync.uncertainty_ns(t_received_ns)
        arrival = _Arrival(header, payload, t_ns, *known, t_expires_ns, sync)
        self._aged = self._is_too_old(arrival)
        if self._aged:
            return
        if not header.get("blank") and t_received_ns - t_ns < self._timeout_s * 1e9:
            self._t_usable_s = time.monotonic()
            self.problem = ""
        with self._changed:
            self.counters["superseded"] += len(self._arrivals) == self._arrivals.maxlen
            self._arrivals.append(arrival)
            self._changed.notify_all()


# --- other ways of pictures -------------------------------------------------------------------


class _Ring:
    """The bridge's pictures in memory that both map, read as
    ``vil_bridge/protocols/shared_memory.py`` writes them.

    Raises OSError: there is no such memory that this process may read, as on another host.
    """

    _FIRST_SEAL_QUERY = 1034  # F_GET_SEALS, which Python names from 3.9 on
    _SEALS = 7  # it neither shrinks nor grows, for ever: a page never goes away under its reader
    _PAGE = 4096

    def __init__(self, pid: int, fd: int, nonce: str) -> None:
        self.address = (pid, fd, nonce)
        path = f"/proc/{pid}/fd/{fd}"
        if (
            _fcntl is None
            or pid <= 0
            or fd < 0
            or not os.readlink(path).startswith("/memfd:vil-ring")  # noqa: PTH115
        ):
            raise OSError("the bridge has none on this host")
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            found = os.fstat(file)
            sealed = _fcntl.fcntl(file, self._FIRST_SEAL_QUERY) & self._SEALS == self._SEALS
            if (
                found.st_uid != os.geteuid()
                or not sealed
                or not self._PAGE < found.st_size <= _MAX_DATA_BYTES
            ):
                raise OSError("it belongs to somebody else")
            self._map = mmap.mmap(file, found.st_size, prot=mmap.PROT_READ)
        finally:
            os.close(file)
        magic, self._slots, self._slot_bytes, found_nonce = struct.unpack_from(
            "<8sII16s", self._map
        )
        size = self._PAGE + self._slots * (self._PAGE + self._slot_bytes)
        if (
            magic != b"VILRING\x01"
            or found_nonce.hex() != nonce
            or not self._slots
            or size != found.st_size
        ):
            self._map.close()
            raise OSError("it is not the bridge's")

    def read(self, sequence: int, size: int) -> Any:
        """Return a copy of the bytes with this number.

        None when they were overwritten, before or during the copy.
        """
        if not 0 < sequence < 1 << 63 or not 0 <= size <= self._slot_bytes:
            raise ValueError("no slot of the ring is like this")
        at = self._PAGE + sequence % self._slots * (self._PAGE + self._slot_bytes)
        if struct.unpack_from("<QQ", self._map, at) != (sequence, size):
            return None
        taken = np.frombuffer(self._map, np.uint8, size, at + self._PAGE).copy()
        if struct.unpack_from("<QQ", self._map, at) != (sequence, size):
            return None
        return taken.data

    def close(self) -> None:
        self._map.close()


class _Packets:
    """A picture stream by UDP: puts packets together, repairs by parity, and reports what came.

    The counterpart of ``vil_bridge/outputs/stream/fec.py``. Only the newest pictures are under
    work, in bounded memory; packets of pictures before the last complete one are late.
    """

    # Magic, stream, number, frame, size, index, chunks, bytes per chunk.
    _PACKET = struct.Struct("<4s8sQIIHHH")
    _REPORT = struct.Struct(
        "<4s8sQQQqqq16s"
    )  # magic, stream, serial, highest, received, frame id, received at, uncertainty, cookie
    _AT_ONCE = 256
    _UNDER_WORK = 4
    _MAX_BYTES = 4 << 20
    _BUFFER_BYTES = 1 << 21

    def __init__(self, host: str, port: int, token: str, count: Callable[..., None]) -> None:
        self._token = token.encode()
        self._stream = hashlib.sha256(b"vil-udp" + self._token).digest()[:8]
        self._count = count
        self._cookie = bytes(16)
        self._serial = self._highest = self._complete = self.received = 0
        self._pictures: dict[int, _Assembly] = {}
        name = host.partition("//")[2].strip("[]")
        found = socket.getaddrinfo(name, port, type=socket.SOCK_DGRAM)
        # The control channel took the IPv4 address, where the name has both.
        family, kind, protocol, _, address = min(
            found, key=lambda entry: entry[0] != socket.AF_INET
        )
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._BUFFER_BYTES)
            self._socket.connect(address)  # the kernel drops what comes from elsewhere
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def report(self, frame_id: int = 0, t_received_ns: int = 0, uncertainty_ns: int = 0) -> None:
        """Say that we are there, what came, and which picture is complete.

        Also opens firewalls and translations.
        """
        self._serial += 1
        numbers = (
            self._serial,
            self._highest,
            self.received,
            frame_id,
            t_received_ns,
            uncertainty_ns,
        )
        body = self._REPORT.pack(b"VILR", self._stream, *numbers, self._cookie)
        with contextlib.suppress(OSError):
            self._socket.send(body + self._mac(body))

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._token, body, hashlib.sha256).digest()[:16]

    def _on_challenge(self, packet: bytes) -> None:
        """Send the bridge's cookie back, which proves that we receive at this address."""
        body = packet[:28]
        mac = packet[28:]
        if body[4:12] != self._stream or not hmac.compare_digest(mac, self._mac(body)):
            raise ValueError("a challenge of somebody else")
        self._cookie = body[12:]
        self.report()

    def receive(self) -> Iterator[Any]:
        """Yield the pictures that became complete, with their headers."""
        for _ in range(self._AT_ONCE):
            try:
                packet = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:  # an earlier report met a closed port
                continue
            try:
                if packet[:4] == b"VILC":
                    self._on_challenge(packet)
                    continue
                message = self._add(packet)
            except _BAD_MESSAGE:
                self._count("malformed")
                continue
            if message is not None:
                yield message

    def _add(self, packet: bytes) -> Any:
        magic, stream, number, frame, size, index, chunks, chunk_bytes = self._PACKET.unpack_from(
            packet
        )
        if magic != b"VILU" or stream != self._stream:
            raise ValueError("a packet of somebody else")
        if (
            not 4 <= size <= self._MAX_BYTES
            or chunk_bytes < 256
            or chunks != -(-size // chunk_bytes)
        ):
            raise ValueError("sizes that cannot be")
        self._count("packets")
        self.received = self.received + 1
        self._highest = max(self._highest, number)
        if frame <= self._complete:
            return None
        picture = self._pictures.get(frame)
        if picture is None:
            picture = self._pictures[frame] = _Assembly(size, chunks, chunk_bytes)
            self._give_up(sorted(self._pictures)[: -self._UNDER_WORK])
            if frame not in self._pictures:
                return None
        elif (size, chunks, chunk_bytes) != picture.shape:
            raise ValueError("packets that do not fit together")
        if not picture.add(index, packet[self._PACKET.size :]):
            return None
        self._count("repaired", picture.repaired)
        self._complete = frame
        del self._pictures[frame]
        self._give_up([f for f in self._pictures if f < frame])
        return picture.message()

    def _give_up(self, frames: list[int]) -> None:
        for frame in frames:
            del self._pictures[frame]
        self._count("incomplete", len(frames))


class _Assembly:
    """One picture under work.

    Its chunks, and two parities (P and Q of RAID 6) of every group of them.
    """

    def __init__(self, size: int, chunks: int, chunk_bytes: int) -> None:
        self.shape = (size, chunks, chunk_bytes)
        self.repaired = 0
        self._groups = -(-chunks // 16)
        rows = -(-chunks // self._groups)
        self._data = np.zeros((rows * self._groups, chunk_bytes), np.uint8)
        self._missing = [set(range(g, chunks, self._groups)) for g in range(self._groups)]
        self._parity: dict[int, np.ndarray[Any, Any]] = {}

    def add(self, index: int, body: bytes) -> bool:
        """Take a packet; True when the picture is complete by it."""
        size, chunks, chunk_bytes = self.shape
        if index >= chunks + 2 * self._groups:
            raise ValueError("no such chunk")
        length = chunk_bytes
        if index == chunks - 1:
            length = size - (chunks - 1) * chunk_bytes
        if len(body) != length:
            raise ValueError("a chunk of another size")
        group = (index if index < chunks else index - chunks) % self._groups
        if index >= chunks:
            self._parity[index - chunks] = np.frombuffer(body, np.uint8)
        elif index in self._missing[group]:
            self._data[index, :length] = np.frombuffer(body, np.uint8)
            self._missing[group].remove(index)
        self._repair(group)
        return not any(self._missing)

    def message(self) -> Any:
        return self._data.reshape(-1)[: self.shape[0]].data

    def _repair(self, group: int) -> None:
        """Make up to two missing chunks of a group again, as soon as its parities allow."""
        missing = sorted(self._missing[group])
        p = self._parity.get(group)
        q = self._parity.get(group + self._groups)
        if not missing or len(missing) > (p is not None) + (q is not None):
            return
        i = missing[0] // self._groups
        j = missing[-1] // self._groups
        rows = self._data[group :: self._groups]  # those missing are zero
        if p is not None:
            p = np.bitwise_xor.reduce(rows, axis=0) ^ p
        if q is not None and (p is None or i != j):
            q = (
                np.bitwise_xor.reduce([_times(row, _EXP[k]) for k, row in enumerate(rows)], axis=0)
                ^ q
            )
            first = q
            scale = _EXP[i]
            if p is not None:
                first = q ^ _times(p, _EXP[j])
                scale = _EXP[i] ^ _EXP[j]
            rows[i] = _times(first, _EXP[-_EXP.index(scale) % 255])
            if p is not None:
                rows[j] = p ^ rows[i]
        elif p is not None:
            rows[i] = p
        self.repaired += len(missing)
        self._missing[group].clear()


def _powers_of_two() -> list[int]:
    """Return 1, 2, 4... in GF(2^8) with the polynomial 0x11D: 255 of them, then they repeat."""
    powers = [1]
    for _ in range(254):
        doubled = powers[-1] << 1
        powers.append(doubled ^ 0x11D if doubled & 0x100 else doubled)
    return powers


_EXP = _powers_of_two()


def _times(values: np.ndarray[Any, Any], factor: int) -> np.ndarray[Any, Any]:
    """Multiply bytes by a constant in that field."""
    total = np.zeros_like(values)
    while factor:
        if factor & 1:
            total ^= values
        values = (values << 1) ^ ((values >> 7) * np.uint8(0x1D))
        factor >>= 1
    return total


def _curve_keys(
    server: str | pathlib.Path, secret: str | pathlib.Path
) -> tuple[bytes, bytes, bytes] | None:
    """Read the bridge's public key, our public and our secret one, from texts or files.

    None where no key is given.
    """
    if not server and not secret:
        return None
    theirs = _key(server, "public-key")
    ours = _key(secret, "secret-key")
    return theirs, zmq.curve_public(ours), ours


def _access_token(given: str | pathlib.Path) -> str:
    """Return a token, or that of the role ``control`` in a file."""
    text = str(given)
    if not text or (
        re.fullmatch(r"[A-Za-z0-9_-]{32,256}", text) and not pathlib.Path(text).exists()
    ):
        return text
    found = re.search(
        r"^\s*control\s*=\s*(\S+)", pathlib.Path(text).read_text(encoding="utf-8"), re.MULTILINE
    )
    if found is None:
        raise ValueError(f"{text} holds no control token")
    return found.group(1)


def _key(given: str | pathlib.Path, kind: str) -> bytes:
    text = str(given)
    if not re.fullmatch(r"\S{40}", text) or pathlib.Path(text).exists():
        found = re.search(
            rf'^\s*{kind}\s*=\s*"(\S{{40}})"',
            pathlib.Path(text).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        if found is None:
            raise ValueError(f"{text} holds no {kind}")
        text = found.group(1)
    return text.encode()


def _int64(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"not a 64-bit integer: {value!r}"[:80])
    return value


def _pose(value: Any) -> Pose | None:
    if value is None:
        return None
    return Pose(_vector(value["p_m"]), np.array(value["q_xyzw"], dtype=float).reshape(4))


def _vector(value: Any) -> np.ndarray[Any, Any]:
    return np.array(value, dtype=float).reshape(3)


def _motion(value: Any, offset_ns: int) -> Motion | None:
    """Read a header's motion; ``offset_ns``: this vehicle's time minus the bridge's."""
    if value is None:
        return None
    known = {key: value.get(key) for key in ("gyro_bias_radps", "gyro_scale", "accel_bias_mps2")}
    late_ns = value.get("imu_late_ns")
    measured = value.get("measured")
    return Motion(
        v_world_mps=_vector(value["v_world_mps"]),
        w_body_radps=_vector(value["w_body_radps"]),
        **{key: None if vector is None else _vector(vector) for key, vector in known.items()},
        imu_late_ns=None if late_ns is None else _int64(late_ns),
        pose_covariance=_covariance(value.get("pose_covariance")),
        measured=None if measured is None else _measured(measured, offset_ns),
    )


def _measured(value: Any, offset_ns: int) -> MeasuredBody:
    pose = Pose(_vector(value["p_m"]), np.array(value["q_xyzw"], dtype=float).reshape(4))
    velocity = _vector(value["v_world_mps"])
    rate = _vector(value["w_body_radps"])
    return MeasuredBody(_int64(value["t_ns"]) + offset_ns, pose, velocity, rate)


def _race(value: Any) -> Race | None:
    if value is None:
        return None
    return Race(
        state=str(value["state"]),
        next_gate=str(value["next_gate"]),
        passed=int(value["passed"]),
        lap=int(value["lap"]),
        laps=int(value["laps"]),
        race_s=float(value["race_s"]),
        penalty_s=float(value["penalty_s"]),
    )


def _covariance(upper: Any) -> np.ndarray[Any, Any] | None:
    """Return the symmetric matrix (6, 6) of its upper triangle, row by row."""
    if upper is None:
        return None
    matrix = np.zeros((6, 6))
    matrix[np.triu_indices(6)] = np.array(upper, dtype=float).reshape(21)
    return matrix + np.triu(matrix, 1).T


def _late_warper(imu: Any, variant: str, modality: str) -> Any:
    """Return a warper over a ring, or the one given. Raises ValueError, TypeError, ImportError."""
    if variant != "compensated" or modality not in _MOVED_MODALITIES:
        raise ValueError(
            f"imu moves compensated pictures of {_MOVED_MODALITIES}, not {variant} {modality}"
        )
    if hasattr(imu, "warp"):
        return imu
    if not hasattr(imu, "between"):
        raise TypeError(
            f"imu must be an ImuRing or a LateWarper of client_warp.py, got {type(imu).__name__}"
        )
    name = f"{__package__}.client_warp" if __package__ else "client_warp"
    try:
        warping = importlib.import_module(name)
    except ImportError as exc:
        folder = pathlib.Path(__file__).parent
        raise ImportError(
            f"imu needs client_warp.py next to client.py: copy it to {folder} too ({exc})"
        ) from exc
    return warping.LateWarper(imu)


def _intrinsics(value: Any) -> np.ndarray[Any, Any] | None:
    if value is None:
        return None
    fx, fy, cx, cy = value
    return np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]], dtype=float)


_FORMATS = {
    "gray8": ("u1", 1),
    "rgb8": ("u1", 3),
    "rgba8": ("u1", 4),
    "depth16": ("<u2", 1),
    "depth32f": ("<f4", 1),
    "ids16": ("<u2", 1),
    "normals16f": ("<f2", 3),
    "flow32f": ("<f4", 2),
}


_EVENT = np.dtype(
    {
        "names": ["dt_ns", "x", "y", "polarity"],
        "formats": ["<i8", "<u2", "<u2", "i1"],
        "offsets": [0, 8, 10, 12],
        "itemsize": 16,
    }
)
"""Of encoding ``events``.

Time from the picture's instant (not positive), pixel from the top left, 1 or -1.
"""


_POINT = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("u", "<u2"), ("v", "<u2")])
"""Of encoding ``points``: metres in the camera's optical axes, and the pixel from the top left."""

_LISTS = {"events": (_EVENT, "x", "y"), "points": (_POINT, "u", "v")}
"""Of encodings without pixels: what the payload lists, and its fields with column and row."""


def _decode(header: dict[str, Any], payload: Any) -> np.ndarray[Any, Any]:
    """Return a picture's pixels, top row first, or its list.

    Raises ValueError: the bytes do not fit the header.
    """
    width = _int64(header["width"])
    height = _int64(header["height"])
    if not (0 < width <= _MAX_SIDE_PX and 0 < height <= _MAX_SIDE_PX):
        raise ValueError("size out of range")
    if header["encoding"] in _LISTS:
        kind, column, row = _LISTS[header["encoding"]]
        found: np.ndarray[Any, Any] = np.frombuffer(payload, kind)
        if len(found) and not (found[column].max() < width and found[row].max() < height):
            raise ValueError("an event or a point outside the picture")
        return found
    dtype, channels = _FORMATS[header["format"]]
    shape = (height, width) if channels == 1 else (height, width, channels)
    if header["encoding"] == "jpeg":
        if _jpeg_size(payload) != (height, width):
            raise ValueError("the JPEG has another size than the header")
        image = _decode_jpeg(payload, channels)
    else:
        image = np.frombuffer(payload, dtype)
    image = image.reshape(shape)
    if header.get("rows") == "bottom_up":
        return image[::-1]
    return image


def _jpeg_size(data: Any) -> tuple[int, int]:
    """Return height and width from a JPEG's frame header, read before anything is allocated."""
    at = 2
    while at + 9 <= len(data):
        marker, length = struct.unpack_from(">xBH", data, at)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return height, width
        at += 2 + length
    raise ValueError("no JPEG")


def _decode_jpeg(data: Any, channels: int) -> np.ndarray[Any, Any]:
    if _jpeg is None:
        raise ValueError("neither simplejpeg nor cv2 is installed")
    if _jpeg.__name__ == "simplejpeg":
        image: np.ndarray[Any, Any] = _jpeg.decode_jpeg(data, "GRAY" if channels == 1 else "RGB")
        return image
    decoded: np.ndarray[Any, Any] | None = _jpeg.imdecode(
        np.frombuffer(data, "u1"), 0 if channels == 1 else 1
    )
    if decoded is None:
        raise ValueError("damaged JPEG")
    return decoded if channels == 1 else decoded[:, :, ::-1]


def write_png(path: pathlib.Path | str, image: np.ndarray[Any, Any]) -> None:
    """Write gray, RGB, RGBA or 16-bit pictures without any image library."""
    rows = np.ascontiguousarray(image, ">u2" if image.dtype.itemsize == 2 else "u1")
    lines = rows.view("u1").reshape(rows.shape[0], -1)
    body = np.concatenate((np.zeros((len(lines), 1), "u1"), lines), axis=1).tobytes()
    colour = {2: 0, 3: 2, 4: 6}[rows.ndim if rows.ndim == 2 else rows.shape[2]]
    head = struct.pack(
        ">IIBBBBB", rows.shape[1], rows.shape[0], 8 * rows.dtype.itemsize, colour, 0, 0, 0
    )
    with pathlib.Path(path).open("wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        for tag, data in ((b"IHDR", head), (b"IDAT", zlib.compress(body, 1)), (b"IEND", b"")):
            out.write(
                struct.pack(">I", len(data))
                + tag
                + data
                + struct.pack(">I", zlib.crc32(tag + data))
            )


# --- from a shell ------------------------------------------------------------------------------


class _Spread:
    """Histogram of milliseconds, to 0.1 % (1 us below 1 ms): the same memory after a day."""

    _STEPS = 1000
    _FARTHEST = 15 * _STEPS

    def __init__(self) -> None:
        self._counts = np.zeros(2 * self._FARTHEST + 1, np.uint32)

    def add(self, seconds: float) -> None:
        step = round(self._STEPS * math.asinh(1e3 * seconds))
        self._counts[self._FARTHEST + max(-self._FARTHEST, min(step, self._FARTHEST))] += 1

    def percentiles(self, *percents: float) -> list[float | None]:
        """Return the values in milliseconds; None without values."""
        steps = np.flatnonzero(self._counts)
        if not len(steps):
            return [None] * len(percents)
        values = np.sinh((steps - self._FARTHEST) / self._STEPS)
        found: list[float | None] = np.percentile(
            np.repeat(values, self._counts[steps]), percents
        ).tolist()
        return found


class _Tally:
    """Figures of a stretch of time."""

    def __init__(self) -> None:
        self.t0_s = time.monotonic()
        self.frames = 0
        self.age_ms, self.latency_ms = _Spread(), _Spread()

    def add(self, frame: Frame) -> None:
        self.frames += 1
        self.age_ms.add(frame.age_s)
        if frame.latency_s is not None:
            self.latency_ms.add(frame.latency_s)

    def summary(self) -> dict[str, Any]:
        seconds = time.monotonic() - self.t0_s
        result: dict[str, Any] = {
            "frames": self.frames,
            "seconds": seconds,
            "fps": self.frames / seconds,
        }
        for name, spread in (("age_ms", self.age_ms), ("latency_ms", self.latency_ms)):
            p50, p95, worst = spread.percentiles(50, 95, 100)
            result[name] = {"p50": p50, "p95": p95, "max": worst}
        return result

    def line(self, receiver: Receiver) -> str:
        if not self.frames:
            return "no pictures: " + (receiver.problem or "registered, none came")
        s = self.summary()
        parts = ["{:5.1f} fps".format(s["fps"]), "age {:.1f} ms".format(s["age_ms"]["p50"])]
        if s["latency_ms"]["p50"] is not None:
            parts.append("latency {:.1f} ms".format(s["latency_ms"]["p50"]))
        drops = [
            f"{name} {receiver.counters[name]}"
            for name in ("superseded", "late", "too_old", "malformed")
        ]
        return "  ".join(parts + drops)


def _show(image: np.ndarray[Any, Any]) -> None:
    import cv2

    if image.dtype.kind == "f":  # how large, relative to the largest
        size = np.linalg.norm(
            np.nan_to_num(image.astype("f4")).reshape(*image.shape[:2], -1), axis=2
        )
        image = (255 * size / max(float(size.max()), 1e-9)).astype("u1")
    elif image.dtype.itemsize == 2:
        image = (image >> 8).astype("u1")
    if image.ndim == 3:
        image = image[:, :, :3][:, :, ::-1]
    cv2.imshow("VIL Bridge", np.ascontiguousarray(image))
    cv2.waitKey(1)


def _save(stem: pathlib.Path, image: np.ndarray[Any, Any]) -> None:
    if image.dtype.kind == "f":
        np.save(stem.with_suffix(".npy"), image)
    else:
        write_png(stem.with_suffix(".png"), image)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Receive a camera's pictures from VIL Bridge.")
    parser.add_argument("endpoint", help="the bridge's control channel, tcp://host:port")
    parser.add_argument("--camera", default="front")
    parser.add_argument("--modality", default="rgb", choices=_MODALITIES)
    parser.add_argument("--color", default="gray", choices=("gray", "rgb"))
    parser.add_argument("--variant", default="compensated", choices=("compensated", "raw"))
    parser.add_argument(
        "--encoding", choices=("raw", "jpeg"), help="default: what can be decoded here"
    )
    parser.add_argument("--transport", default="tcp", choices=_TRANSPORTS)
    parser.add_argument("--rate", type=float, metavar="HZ", help="pictures per second at most")
    parser.add_argument("--quality", type=int, default=90, help="of JPEG, 1 to 100")
    parser.add_argument(
        "--adaptive", action="store_true", help="lower the quality while the link is too slow"
    )
    parser.add_argument(
        "--server-key",
        default="",
        metavar="FILE",
        help="the bridge's public key, where it asks for keys",
    )
    parser.add_argument("--key", default="", metavar="FILE", help="this reader's .key_secret file")
    parser.add_argument(
        "--show", action="store_true", help="show the pictures (needs cv2 with a display)"
    )
    parser.add_argument(
        "--save",
        metavar="DIR",
        type=pathlib.Path,
        help="write each picture as PNG, or .npy where it is floating point",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after this time")
    parser.add_argument(
        "--json", metavar="FILE", type=pathlib.Path, help="write a summary at the end"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Receive until the time is over or Ctrl-C; 0 when pictures came, 1 when none did."""
    args = _arguments(argv)
    if args.save:
        args.save.mkdir(parents=True, exist_ok=True)
    total = _Tally()
    second = _Tally()
    options: dict[str, Any] = {
        "quality": args.quality,
        "adaptive": args.adaptive,
        "rate_hz": args.rate,
        "transport": args.transport,
    }
    options.update(server_key=args.server_key, secret_key=args.key)
    kind = (args.camera, args.modality, args.color, args.variant)
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set())  # the picture at hand is saved whole
    with Receiver(args.endpoint, *kind, encoding=args.encoding, **options) as receiver:
        while not interrupted.is_set() and time.monotonic() - total.t0_s < args.seconds:
            frame = receiver.next(0.1)
            if frame is not None:
                total.add(frame)
                second.add(frame)
                if args.save:
                    _save(
                        args.save / f"{frame.frame_id:09d}_{args.camera}_{args.modality}",
                        frame.image,
                    )
                if args.show:
                    _show(frame.image)
            if time.monotonic() - second.t0_s >= 1.0:
                sys.stdout.write(second.line(receiver) + "\n")
                sys.stdout.flush()
                second = _Tally()
        if args.json:  # before close(), which forgets the problem
            summary = dict(
                total.summary(), counters=dict(receiver.counters), problem=receiver.problem
            )
            args.json.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return 0 if total.frames else 1


if __name__ == "__main__":
    sys.exit(main())
