"""Views of a running bridge for people: immutable, filled by the daemon on demand.

The REST answers, the status page and the metrics are all made from one :class:`BridgeSnapshot`.
None means unknown, and is shown as unknown. Times are of the bridge's clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer

from vil_bridge.core.types import ActorKind, TrackingState
from vil_bridge.monitoring.process_stats import ProcessView
from vil_bridge.runtime.peer_faults import PeerFault
from vil_bridge.runtime.supervisor import StatusReport

__all__ = [
    "MODES",
    "ActorView",
    "BridgeSnapshot",
    "CameraView",
    "ClockView",
    "CompensationView",
    "Histogram",
    "ImuView",
    "LandmarkView",
    "OutputView",
    "Percentiles",
    "ProcessView",
    "RendererView",
    "SimulationView",
    "SourceView",
    "StageView",
    "StreamView",
]


@dataclass(frozen=True, slots=True)
class ClockView:
    """Mapping of a source's clock to the bridge's.

    Attributes:
        method: "two-way", "one-way" or "none".
        offset_ns: foreign minus bridge.
        samples: exchanges or stamps behind the estimate.
    """

    method: str
    offset_ns: int | None = None
    uncertainty_ns: int | None = None
    drift_ppm: float | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class SourceView:
    """A source of poses or inertial samples.

    Attributes:
        frames: frames or samples received since the start.
        rate_hz: over the last seconds.
        age_s: since the last frame or sample arrived.
        degraded: the reason why it is worse than it should be although data flow, with the cure;
            empty = it is not.
    """

    report: StatusReport
    type: str
    frames: int
    rate_hz: float
    age_s: float | None
    clock: ClockView
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class ImuView:
    """Estimates about an actor's IMU.

    Attributes:
        late_s: how much later its stamps are than the mocap system's of the same instant, taken
            out.
        gyro_bias_radps, accel_bias_mps2: taken out, IMU axes.
        gyro_bias_std_radps: standard deviation of the former, each axis.
    """

    late_s: float
    gyro_bias_radps: tuple[float, float, float]
    gyro_bias_std_radps: tuple[float, float, float]
    accel_bias_mps2: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class ActorView:
    """A body of the shared world, as now predicted.

    Attributes:
        age_s: since the newest tracked pose was captured.
        seen: entries into each tracking state since the start.
        problem: why it cannot be tracked as configured, empty while nothing speaks against it.
        imu: None where it has none.
        position_std_m, attitude_std_rad: of the pose now, world axes and the body's; None = not
            known.
    """

    kind: ActorKind
    source: str
    subject: str
    state: TrackingState
    age_s: float | None
    p_world_m: tuple[float, float, float] | None
    q_xyzw: tuple[float, float, float, float] | None
    speed_mps: float | None
    seen: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    imu: ImuView | None = None
    position_std_m: tuple[float, float, float] | None = None
    attitude_std_rad: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class RendererView:
    """A renderer connection.

    Attributes:
        cameras: that it draws now.
        pictures_hz, render_ms, utilisation: over the last 2 s; time per answer, share of its time
            that it worked (0 to 1).
        note: what is worse than it was asked to be, empty when nothing is.
    """

    report: StatusReport
    type: str
    in_flight: int
    cameras: tuple[str, ...] = ()
    pictures_hz: float = 0.0
    render_ms: float | None = None
    utilisation: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class CompensationView:
    """Latency compensation of a camera's newest picture.

    Attributes:
        d_m: depth of the homography's plane.
        angle_rad: rotation between the pose rendered for and the newest one.
        valid_fraction: share of the output's pixels that the rendered picture covers.
        horizon_ns: how far ahead the rendered pose was predicted.
    """

    method: str
    d_m: float | None = None
    angle_rad: float | None = None
    valid_fraction: float | None = None
    imu_age_ns: int | None = None
    horizon_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A latency distribution in milliseconds; None while there are no samples."""

    count: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative counts since the start: ``counts[i]`` samples took at most ``edges_s[i]`` seconds.

    The last edge is infinite, null in JSON.
    """

    edges_s: Annotated[
        tuple[float, ...],
        BeforeValidator(lambda edges: [math.inf if edge is None else edge for edge in edges]),
        PlainSerializer(
            lambda edges: (*edges[:-1], None),
            return_type=tuple[float | None, ...],
            when_used="json",
        ),
    ]
    counts: tuple[int, ...]
    sum_s: float


@dataclass(frozen=True, slots=True)
class StageView:
    """Latency of one stage of the frame ledger, over the last 10 s and since the start."""

    last_10_s: Percentiles
    since_start: Percentiles
    histogram: Histogram


@dataclass(frozen=True, slots=True)
class LandmarkView:
    """An IR beacon: pixel (centres at integers) and z-depth."""

    name: str
    u_px: float
    v_px: float
    depth_m: float


@dataclass(frozen=True, slots=True)
class CameraView:
    """A virtual camera and the way of its pictures.

    Attributes:
        renderer: that draws it now. assigned: why this one: ``preferred``, ``load`` or ``fail-over
            from NAME``; or which ones it waits for.
        rate_hz: configured. measured_hz: pictures handed over in the last seconds, or that a reader
            would have got; dropped and black ones do not count.
        frames: pictures from the renderer ("received") and handed to the sink
            ("rgb/compensated"...), and ticks for which a late renderer's last picture was warped
            again ("repeated", in no other count).
        dropped: pictures dropped, by reason.
        problem: the reason why readers get no pictures that one may fly on, with the cure; empty =
            it delivers.
        degraded: the reason why readers get fewer pictures than asked, with the cure; empty = they
            get them.
        age_s: since the newest picture came, read by somebody or not; black ones do not count.
        collision: None where the camera does not ask for it.
        landmarks: beacons in the newest picture; only a renderer's first camera has them.
        latency: stage name ("capture_to_arrival"...) to its distribution, in the order of the way.
    """

    actor: str
    renderer: str
    modalities: tuple[str, ...]
    width_px: int
    height_px: int
    rate_hz: float
    measured_hz: float
    in_flight: int
    assigned: str = "preferred"
    frames: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    compensation: CompensationView | None = None
    age_s: float | None = None
    collision: bool | None = None
    landmarks: tuple[LandmarkView, ...] = ()
    range_m: float | None = None
    latency: dict[str, StageView] = field(default_factory=dict)
    problem: str = ""
    degraded: str = ""


@dataclass(frozen=True, slots=True)
class StreamView:
    """One output stream and who reads it.

    Attributes:
        frames, dropped: since the start, over all subscribers that ever were.
        subscribers: facts and counters of each present subscriber.
    """

    camera: str
    frames: int
    dropped: dict[str, int] = field(default_factory=dict)
    subscribers: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class OutputView:
    """A further way out."""

    report: StatusReport
    type: str


@dataclass(frozen=True, slots=True)
class SimulationView:
    """State of the bridge's time.

    Attributes:
        clock: ``real`` or ``simulated``.
        paused: it stands, but for steps.
        speed: seconds per second asked for. reached: those of the last quarter of a second.
        t_ns: bridge time.
    """

    clock: str
    paused: bool
    speed: float
    reached: float
    t_ns: int


MODES: Final = ("REPLAY", "FAULTS", "REC", "PAUSED")
"""Words of :attr:`BridgeSnapshot.modes` in their order; those of other services follow."""


@dataclass(frozen=True, slots=True)
class BridgeSnapshot:
    """The whole bridge at ``t_ns``.

    Attributes:
        not_ready_because: sentences for people, empty when ready.
        degraded_because: what is worse than asked although vehicles can fly on it, as sentences.
        modes: the words that are true now, in this order: REPLAY (poses of a recording take the
            place of live ones), FAULTS (faults are injected into a source), REC (a recording is
            written), PAUSED (simulated time stands still).
        startup: what the daemon asked of the system and whether it got it.
        faults: what came in at our own ports that should not have, by port ("control", "http",
            "stream/front"...) and reason; connections that ended included.
        peer_faults: the senders of such input, as far as the port knows them.
        publish: where other bridges listen and how many, counters; None = nothing is published.
        overload: sentences for people, empty while everything follows.
        process: what the daemon uses; None = not measured.
        simulation: how time passes; None = it is real.
        services: names of the parts of services that run, such as ``twins``.
        pages: who looks on over HTTP now, ``watching`` the live feed and ``reading`` the updates;
            messages ``sent`` and ``skipped`` (a page did not read), subscriptions ``refused`` since
            the start.
    """

    t_ns: int
    name: str
    version: str
    uptime_s: float
    ready: bool
    not_ready_because: tuple[str, ...] = ()
    degraded_because: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    startup: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, SourceView] = field(default_factory=dict)
    actors: dict[str, ActorView] = field(default_factory=dict)
    renderers: dict[str, RendererView] = field(default_factory=dict)
    cameras: dict[str, CameraView] = field(default_factory=dict)
    streams: dict[str, StreamView] = field(default_factory=dict)
    outputs: dict[str, OutputView] = field(default_factory=dict)
    faults: dict[str, dict[str, int]] = field(default_factory=dict)
    peer_faults: tuple[PeerFault, ...] = ()
    publish: dict[str, Any] | None = None
    loop_lag_s: float | None = None
    overload: tuple[str, ...] = ()
    process: ProcessView | None = None
    simulation: SimulationView | None = None
    services: tuple[str, ...] = ()
    pages: dict[str, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """``ready``, ``degraded`` (ready, but worse than asked) or ``not ready``."""
        if not self.ready:
            return "not ready"
        return "degraded" if self.degraded_because else "ready"
