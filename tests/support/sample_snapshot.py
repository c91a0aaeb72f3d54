"""A bridge in full flight, made by hand: what the dashboard and the metrics are shown."""

from __future__ import annotations

from vil_bridge.core.types import ActorKind, TrackingState
from vil_bridge.monitoring.frame_records import STAGES
from vil_bridge.monitoring.latency import StageHistogram
from vil_bridge.monitoring.snapshot import (
    ActorView,
    BridgeSnapshot,
    CameraView,
    ClockView,
    CompensationView,
    LandmarkView,
    RendererView,
    SourceView,
    StageView,
    StreamView,
)
from vil_bridge.runtime.supervisor import ComponentState, StatusReport
from vil_bridge.web.schemas.status import BridgeStatus

NOW_NS = 5_000_000_000_000


def report(
    name: str,
    state: ComponentState = ComponentState.RUNNING,
    *,
    reason: str = "",
    last_error: str | None = None,
    counters: dict[str, int] | None = None,
    facts: dict[str, object] | None = None,
) -> StatusReport:
    """A component that has been in its state for 42 s."""
    return StatusReport(
        name=name,
        state=state,
        reason=reason,
        since_ns=NOW_NS - 42_000_000_000,
        last_error=last_error,
        retries=0 if last_error is None else 3,
        counters=counters or {},
        facts=facts or {},
    )


def stage(*latencies_ms: float) -> StageView:
    """A stage that took these latencies within the last second."""
    histogram = StageHistogram()
    for latency_ms in latencies_ms:
        histogram.record(round(latency_ms * 1e6), NOW_NS - 1_000_000_000)
    return histogram.view(NOW_NS)


_STAGE_TIMES_MS = (
    *((4.4, 4.6, 4.9), (2.0, 6.0, 12.0), (19.0, 21.0, 33.0), (0.9, 1.1, 1.4), (1.9, 2.0, 2.4)),
    *(
        (0.05, 0.06, 0.2),
        (0.6, 0.7, 1.9),
        (1.0, 1.2, 2.0),
        (26.0, 31.0, 47.0),
        (22.0, 25.0, 39.0),
        (29.0, 35.0, 55.0),
    ),
)


def sample_snapshot() -> BridgeSnapshot:
    """Two rooms, a drone and a human, two cameras, one renderer, one reader.

    The IMU's cable is out.
    """
    return BridgeStatus(
        t_ns=NOW_NS,
        name="two-rooms",
        version="0.1.0",
        uptime_s=3725.0,
        ready=False,
        not_ready_because=("imu: /dev/ttyACM0 does not exist; is the cable in?",),
        startup={"switch interval": "0.5 ms", "gc": "frozen", "SCHED_FIFO": "not permitted"},
        sources={
            "motive-flight": SourceView(
                report(
                    "motive-flight",
                    counters={"malformed": 1, "lost": 7, "superseded": 0},
                    facts={"server": "Motive 3.1", "protocol": "NatNet 4.1", "mode": "unicast"},
                ),
                type="optitrack",
                frames=894_312,
                rate_hz=240.02,
                age_s=0.0031,
                clock=ClockView("two-way", -123_456_789_012, 21_000, 17.3, 240),
            ),
            "motive-actor": SourceView(
                report("motive-actor", facts={"server": "Motive 3.0", "protocol": "NatNet 4.0"}),
                type="optitrack",
                frames=447_000,
                rate_hz=120.0,
                age_s=0.0052,
                clock=ClockView("two-way", 98_000_000, 34_000, -4.1, 240),
            ),
            "imu": SourceView(
                report(
                    "imu",
                    ComponentState.WAITING,
                    reason="/dev/ttyACM0 does not exist; is the cable in?",
                    last_error="read failed: device disconnected",
                ),
                type="mavlink-imu",
                frames=0,
                rate_hz=0.0,
                age_s=None,
                clock=ClockView("none"),
            ),
        },
        actors={
            "drone": ActorView(
                ActorKind.VEHICLE,
                "motive-flight",
                "drone",
                TrackingState.TRACKED,
                0.0078,
                (-1.52, 0.31, 1.64),
                (0.0, 0.0, 0.1, 0.995),
                1.31,
                {"tracked": 3, "coasting": 2},
            ),
            "walker": ActorView(
                ActorKind.HUMAN,
                "motive-actor",
                "Actor",
                TrackingState.COASTING,
                0.081,
                (4.2, -0.4, 0.95),
                (0.0, 0.0, 0.0, 1.0),
                0.9,
                {"tracked": 1, "coasting": 1},
            ),
            "gate": ActorView(
                ActorKind.PROP,
                "motive-flight",
                "gate",
                TrackingState.LOST,
                None,
                None,
                None,
                None,
                {"lost": 1},
            ),
        },
        renderers={
            "unity": RendererView(
                report(
                    "unity",
                    facts={"renderer": "llvmpipe", "protocol": "v3"},
                    counters={"duplicates": 2},
                ),
                type="flightgoggles",
                in_flight=1,
            )
        },
        cameras={
            "front": CameraView(
                actor="drone",
                renderer="unity",
                modalities=("rgb", "depth"),
                width_px=640,
                height_px=480,
                rate_hz=60.0,
                measured_hz=59.8,
                in_flight=1,
                frames={"received": 990, "rgb/compensated": 985},
                dropped={"renderer_busy": 10, "too_old": 5},
                compensation=CompensationView(
                    "homography", 4.2, 0.031, 0.973, 3_100_000, 38_000_000
                ),
                landmarks=tuple(
                    LandmarkView(f"Gate1_{i}", 100.0 * i, 50.0, 4.0) for i in range(1, 5)
                ),
                range_m=1.58,
                latency={
                    name: stage(*times) for name, times in zip(STAGES, _STAGE_TIMES_MS, strict=True)
                },
            ),
            "observer": CameraView(
                actor="world",
                renderer="unity",
                modalities=("rgb",),
                width_px=640,
                height_px=480,
                rate_hz=20.0,
                measured_hz=0.0,
                in_flight=0,
            ),
        },
        streams={
            "front": StreamView(
                "front",
                985,
                {"superseded": 12},
                ({"name": "jetson", "encoding": "jpeg", "variant": "compensated", "sent": 985},),
            ),
            "observer": StreamView("observer", 0),
        },
        loop_lag_s=0.00031,
    )
