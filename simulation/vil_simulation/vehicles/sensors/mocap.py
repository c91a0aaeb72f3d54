"""Motion capture as a sensor.

Rate, latency, noise, occlusions, swapped labels, spikes and losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_bridge.bodies.marker_tracking import MarkerTemplate
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.elementary import expm1, sin_cos
from vil_bridge.core.geometry import q_exp, q_mul, q_rotate
from vil_bridge.core.random.noise import NoiseStream, natural_log
from vil_bridge.core.types import BoolArray, FloatArray, SkeletonModel, SourceFrame
from vil_simulation.vehicles.model import TrueState
from vil_simulation.vehicles.sensors.sensor import CENTRE, Sensor, SensorMount

_STREAM: Final = 1500
_POSE: Final = 6
_EVENTS: Final = 7
_ROOM: Final = np.zeros(1, dtype=np.int64)
_FEWEST_MARKERS: Final = 3
_LEVEL: Final = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MocapParameters:
    """A motion-capture room, by default perfect except for its rate and latency.

    Attributes:
        rate_hz: frames a second. latency_s: from exposure to arrival at the least.
        jitter_s: mean of what comes on top of the latency (exponential); frames stay in order.
        position_m: density of white noise, m/sqrt(Hz) as counted on one side of the spectrum:
            deviation position_m sqrt(rate/2) per frame and axis (rotorpy's default: 5e-4).
        attitude_rad: likewise, of small rotations (rotorpy's default: 5e-4).
        markers_body_m: where markers sit; given, poses are least-squares fits to what is seen of
            them.
        marker_noise_m: deviation of each marker's coordinates.
        marker_hidden: probability that a marker is not seen in a frame; fewer than three make no
            pose.
        occlusions_hz: how often a body vanishes, times a second. occlusion_s: for how long, mean
            (exponential).
        swaps_hz: how often a body's label is exchanged with the nearest one's within
            ``swap_within_m``.
        swap_s: for how long, mean (exponential).
        spikes: probability of a spike in a body's frame. spike_m: its length, in any direction.
        loss: probability that a whole frame never arrives.
        clock_offset_s, clock_drift_ppm: of the room's clock, which stamps the frames.
        mounting: of the tracked body's origin.
    """

    rate_hz: float = 200.0
    latency_s: float = 0.005
    jitter_s: float = 0.0
    position_m: float = 0.0
    attitude_rad: float = 0.0
    markers_body_m: tuple[tuple[float, float, float], ...] = ()
    marker_noise_m: float = 0.0
    marker_hidden: float = 0.0
    occlusions_hz: float = 0.0
    occlusion_s: float = 0.2
    swaps_hz: float = 0.0
    swap_s: float = 0.2
    swap_within_m: float = 1.0
    spikes: float = 0.0
    spike_m: float = 0.1
    loss: float = 0.0
    clock_offset_s: float = 0.0
    clock_drift_ppm: float = 0.0
    mounting: SensorMount = CENTRE


class MocapReading(NamedTuple):
    """One frame.

    Attributes:
        t_ns: exposure, simulation time. t_room_ns: the same by the room's clock, which is its
            stamp.
        t_arrival_ns: when it arrives, simulation time.
        number: counts frames that are lost, too.
        p_world_m: (n, 3). q_world_body: (n, 4). tracked: (n,), False = no pose: zero and identity.
    """

    t_ns: int
    t_room_ns: int
    t_arrival_ns: int
    number: int
    p_world_m: FloatArray
    q_world_body: FloatArray
    tracked: BoolArray

    def source_frame(self, source: str, subjects: Sequence[str]) -> SourceFrame:
        """Return the frame as a source of the bridge emits it."""
        poses = self.p_world_m, self.q_world_body, self.tracked
        return SourceFrame(
            source, self.number, self.t_room_ns, self.t_arrival_ns, tuple(subjects), *poses
        )


class Mocap(Sensor[MocapReading]):
    """A room that tracks all vehicles.

    What happens to a vehicle depends on the seed and its identity alone, but for exchanged labels,
    which take two.

    Args:
        vehicles: see :class:`~vil_simulation.vehicles.sensors.sensor.Sensor`; seed and stream too
            (the next three streams are used as well).

    Raises:
        ValueError: markers that make no pose, or a value out of its range.
    """

    def __init__(
        self,
        vehicles: int | npt.ArrayLike,
        parameters: MocapParameters,
        *,
        seed: int = 0,
        stream: int = _STREAM,
    ) -> None:
        super().__init__(
            vehicles,
            seed=seed,
            stream=stream,
            rate_hz=parameters.rate_hz,
            latency_s=parameters.latency_s,
        )
        _check(parameters)
        self.parameters: Final = parameters
        self._events = NoiseStream(seed, stream + 1)
        self._markers = NoiseStream(seed, stream + 2)
        self._room = NoiseStream(seed, stream + 3)
        self._troubled = bool(parameters.spikes or parameters.occlusions_hz or parameters.swaps_hz)
        self._template = _template(parameters) if parameters.markers_body_m else None
        self._begin()

    def reset(self) -> None:
        """Start over, as switched on again."""
        super().reset()
        self._begin()

    def take(self, truth: TrueState) -> None:
        """Measure, and send the frame on its way unless it gets lost."""
        reading = self.measure(truth)
        self._arrived_ns = reading.t_arrival_ns
        if self._fate[1] >= self.parameters.loss:
            self.release_at(reading.t_arrival_ns, reading)

    def measure(self, truth: TrueState) -> MocapReading:
        """Read all vehicles now."""
        parameters = self.parameters
        self._number += 1
        t_ns = truth.t_ns
        p_true, q_true = parameters.mounting.pose(truth)
        # One that is lost has no pose.
        here = np.asarray(np.isfinite(np.hstack((p_true, q_true))).all(axis=1))
        p_true = np.where(here[:, None], p_true, 0.0)
        q_true = np.where(here[:, None], q_true, _LEVEL)
        p, q, tracked = self._seen(p_true, q_true)
        tracked &= here
        if self._troubled:
            chances = self._events.uniforms(self._number, self.vehicles, _EVENTS)
            p = p + _spikes(parameters, chances[:, :3])
            tracked &= ~self._hidden(t_ns, chances[:, 3:5])
            label = self._labels(t_ns, p_true, here, chances[:, 5:7])
            p = p[label]
            q = q[label]
            tracked = tracked[label]
        p[~tracked] = 0.0
        q[~tracked] = _LEVEL
        self._fate = self._room.uniforms(self._number, _ROOM, 2)[0]
        late_s = -parameters.jitter_s * float(natural_log(self._fate[:1])[0])
        delay_ns = round((parameters.latency_s + late_s) * NS_PER_S)
        room_ns = round(
            t_ns * parameters.clock_drift_ppm * 1e-6 + parameters.clock_offset_s * NS_PER_S
        )
        arrival_ns = max(t_ns + delay_ns, self._arrived_ns)
        return MocapReading(t_ns, t_ns + room_ns, arrival_ns, self._number, p, q, tracked)

    def _begin(self) -> None:
        self._number = 0
        self._fate = np.ones(2)
        self._arrived_ns = -(1 << 62)
        self._hidden_until_ns = np.full(self.n, -(1 << 62))
        self._swapped_until_ns = self._hidden_until_ns.copy()
        self._partner = np.arange(self.n)

    def _seen(
        self, p_world_m: FloatArray, q_world_body: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return poses as measured, and which there are; arrays of their own."""
        parameters = self.parameters
        if self._template is None:
            scale = math.sqrt(0.5 * parameters.rate_hz)
            normals = scale * self.normals(_POSE)
            q = q_mul(q_world_body, q_exp(parameters.attitude_rad * normals[:, 3:]))
            return (
                p_world_m + parameters.position_m * normals[:, :3],
                q,
                np.ones(self.n, dtype=np.bool_),
            )
        rest = self._template.rest_m
        chances = self._markers.uniforms(self._number, self.vehicles, len(rest))
        noise = self.normals(rest.size).reshape(self.n, *rest.shape)
        carried = np.stack(
            [q_rotate(q_world_body, np.broadcast_to(r, p_world_m.shape)) for r in rest], axis=1
        )
        # Measured from where the body is: coordinates of a large room would cost digits.
        poses = self._template.solve(
            carried + parameters.marker_noise_m * noise, chances >= parameters.marker_hidden
        )
        q = poses.q_xyzw[:, 0]
        side = np.copysign(1.0, (q * q_world_body).sum(axis=1, keepdims=True))
        return p_world_m + poses.p_m[:, 0], q * side, poses.known[:, 0].copy()

    def _hidden(self, t_ns: int, chances: FloatArray) -> BoolArray:
        """Return bodies in an occlusion, which begins at any time and lasts for an exponentially
        distributed one.
        """
        parameters = self.parameters
        begins = (t_ns >= self._hidden_until_ns) & (
            chances[:, 0] < -expm1(-parameters.occlusions_hz * self.dt_s)
        )
        self._hidden_until_ns = np.where(
            begins, t_ns + _lasting_ns(parameters.occlusion_s, chances[:, 1]), self._hidden_until_ns
        )
        return np.asarray(t_ns < self._hidden_until_ns)

    def _labels(
        self, t_ns: int, p_world_m: FloatArray, here: BoolArray, chances: FloatArray
    ) -> npt.NDArray[np.int64]:
        """Return the index of the body whose pose each label gets."""
        parameters = self.parameters
        over = t_ns >= self._swapped_until_ns
        self._partner[over] = np.flatnonzero(over)
        begins = over & here & (chances[:, 0] < -expm1(-parameters.swaps_hz * self.dt_s))
        for one in np.flatnonzero(begins).tolist():
            distance = np.linalg.norm(p_world_m - p_world_m[one], axis=1)
            distance[~here | (self._partner != np.arange(self.n))] = np.inf
            distance[one] = np.inf
            other = int(distance.argmin())
            if self._partner[one] == one and distance[other] <= parameters.swap_within_m:
                self._partner[one] = other
                self._partner[other] = one
                until_ns = t_ns + _lasting_ns(parameters.swap_s, chances[one, 1])
                self._swapped_until_ns[[one, other]] = until_ns
        return self._partner


def _spikes(parameters: MocapParameters, chances: FloatArray) -> FloatArray:
    """Return jumps (n, 3): one chance decides, two give a direction, even over the sphere."""
    up = 2.0 * chances[:, 1] - 1.0
    around = 2.0 * math.pi * chances[:, 2]
    level = np.sqrt(1.0 - up * up)
    sine, cosine = sin_cos(around)
    direction = np.stack((level * cosine, level * sine, up), axis=1)
    return np.asarray(parameters.spike_m * (chances[:, :1] < parameters.spikes) * direction)


def _lasting_ns(mean_s: float, chances: npt.ArrayLike) -> npt.NDArray[np.int64]:
    return np.rint(-mean_s * NS_PER_S * natural_log(np.asarray(chances))).astype(np.int64)


def _check(parameters: MocapParameters) -> None:
    for name in ("marker_hidden", "spikes", "loss"):
        if not 0.0 <= getattr(parameters, name) <= 1.0:
            raise ValueError(f"{name} is a probability, got {getattr(parameters, name)}")
    for name in (
        "jitter_s",
        "occlusions_hz",
        "occlusion_s",
        "swaps_hz",
        "swap_s",
        "marker_noise_m",
    ):
        if not 0.0 <= getattr(parameters, name) < math.inf:
            raise ValueError(f"{name} must not be negative, got {getattr(parameters, name)}")


def _template(parameters: MocapParameters) -> MarkerTemplate:
    rest = np.array(parameters.markers_body_m, dtype=np.float64)
    if len(rest) < _FEWEST_MARKERS or np.linalg.matrix_rank(rest - rest.mean(axis=0), tol=1e-3) < 2:
        raise ValueError(
            "markers_body_m: at least three markers that are not on one line make a pose"
        )
    model = SkeletonModel("body", ("body",), (-1,), np.zeros((1, 3)))
    labels = tuple(str(i) for i in range(len(rest)))
    return MarkerTemplate(
        model, labels, np.zeros(len(rest), dtype=np.intp), rest, np.zeros(len(rest))
    )
