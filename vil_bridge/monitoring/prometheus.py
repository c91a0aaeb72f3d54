"""Prometheus metrics, computed from a snapshot when they are asked for: nothing on the hot path.

Labels are configured names and fixed words only, so their number is bounded. What is unknown has
no sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from vil_bridge.core.measure import Measure, Sample, marked
from vil_bridge.core.types import TrackingState
from vil_bridge.interfaces.services import service_views
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.runtime.supervisor import ComponentState

_NS: float = 1e-9


def metrics_registry(snapshot: Callable[[], BridgeSnapshot]) -> CollectorRegistry:
    """Return a registry whose every collection reads one snapshot."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_SnapshotCollector(snapshot))
    return registry


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: Callable[[], BridgeSnapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        now = self._snapshot()
        yield from _bridge(now)
        yield from _sources(now)
        yield from _actors(now)
        yield from _renderers(now)
        yield from _outputs(now)
        yield from _cameras(now)
        yield _latency(now)
        yield from _streams(now)
        yield from _joined_rooms(now)
        for name, view in service_views().items():
            yield from _service(name, view, now)


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    family = GaugeMetricFamily(f"vil_{name}", text, labels=labels)
    for values, number in samples:
        if number is not None:
            family.add_metric(values, number)
    return family


def _counter(name: str, text: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    family = CounterMetricFamily(f"vil_{name}", text, labels=labels)
    for values, number in samples:
        if number is not None:
            family.add_metric(values, number)
    return family


def _bridge(now: BridgeSnapshot) -> Iterator[Metric]:
    yield _gauge("build_info", "Version of the bridge.", ("version",), [((now.version,), 1)])
    yield _gauge("ready", "1 while every camera delivers.", (), [((), now.ready)])
    degraded = bool(now.degraded_because)
    yield _gauge(
        "degraded",
        "1 while something is worse than asked: rates, losses, twins in alarm.",
        (),
        [((), degraded)],
    )
    yield _gauge("uptime_seconds", "Time since the start.", (), [((), now.uptime_s)])
    yield _gauge(
        "event_loop_lag_seconds", "Delay of the loop's wake-ups.", (), [((), now.loop_lag_s)]
    )
    faults: list[Sample] = [
        ((port, reason), n) for port, counts in now.faults.items() for reason, n in counts.items()
    ]
    yield _counter(
        "port_faults",
        "Unwanted input at our own ports, ended connections.",
        ("port", "reason"),
        faults,
    )


def _sources(now: BridgeSnapshot) -> Iterator[Metric]:
    label = ("source",)
    views = now.sources.items()

    def counted(event: str) -> list[Sample]:
        return [((name,), view.report.counters.get(event, 0)) for name, view in views]

    yield _gauge(
        "source_up",
        "1 while data flow.",
        label,
        [((n,), _running(v.report.state)) for n, v in views],
    )
    yield _counter(
        "source_frames", "Frames or samples received.", label, [((n,), v.frames) for n, v in views]
    )
    yield _counter("source_gap_frames", "Frames missing in the numbering.", label, counted("lost"))
    yield _counter("source_bad_datagrams", "Malformed input.", label, counted("malformed"))
    events: list[Sample] = [
        ((name, event), count)
        for name, view in views
        for event, count in sorted(view.report.counters.items())
    ]
    yield _counter("source_events", "Events by kind.", ("source", "event"), events)
    yield _counter(
        "source_retries",
        "Restarts of the source.",
        label,
        [((n,), v.report.retries) for n, v in views],
    )
    yield _gauge(
        "source_rate_hertz", "Frames a second.", label, [((n,), v.rate_hz) for n, v in views]
    )
    yield _gauge(
        "source_age_seconds",
        "Since the last frame arrived.",
        label,
        [((n,), v.age_s) for n, v in views],
    )
    offsets: list[Sample] = [((n,), _scaled(v.clock.offset_ns, _NS)) for n, v in views]
    yield _gauge("clock_offset_seconds", "Foreign clock minus bridge clock.", label, offsets)
    doubts: list[Sample] = [((n,), _scaled(v.clock.uncertainty_ns, _NS)) for n, v in views]
    yield _gauge("clock_uncertainty_seconds", "Uncertainty of the offset.", label, doubts)
    drifts: list[Sample] = [((n,), _scaled(v.clock.drift_ppm, 1e-6)) for n, v in views]
    yield _gauge("clock_drift_ratio", "Rate of the foreign clock minus 1.", label, drifts)


def _actors(now: BridgeSnapshot) -> Iterator[Metric]:
    views = now.actors.items()
    yield _gauge(
        "body_age_seconds",
        "Age of the newest tracked pose.",
        ("body",),
        [((n,), v.age_s) for n, v in views],
    )
    states: list[Sample] = [((n, s.value), v.state is s) for n, v in views for s in TrackingState]
    yield _gauge("body_state", "1 for the present tracking state.", ("body", "state"), states)
    entries: list[Sample] = [
        ((n, s.value), v.seen.get(s.value, 0)) for n, v in views for s in TrackingState
    ]
    yield _counter(
        "body_state_entries", "Entries into a tracking state.", ("body", "state"), entries
    )


def _renderers(now: BridgeSnapshot) -> Iterator[Metric]:
    label = ("renderer",)
    views = now.renderers.items()
    yield _gauge(
        "renderer_up",
        "1 while pictures come.",
        label,
        [((n,), _running(v.report.state)) for n, v in views],
    )
    yield _gauge(
        "render_inflight", "Requests unanswered.", label, [((n,), v.in_flight) for n, v in views]
    )
    yield _gauge(
        "renderer_cameras",
        "Cameras that it draws now.",
        label,
        [((n,), len(v.cameras)) for n, v in views],
    )
    yield _gauge(
        "renderer_pictures_hertz",
        "Pictures a second.",
        label,
        [((n,), v.pictures_hz) for n, v in views],
    )
    yield _gauge(
        "renderer_busy_ratio",
        "Share of its time at work.",
        label,
        [((n,), v.utilisation) for n, v in views],
    )
    events: list[Sample] = [
        ((name, event), count)
        for name, view in views
        for event, count in sorted(view.report.counters.items())
    ]
    yield _counter("renderer_events", "Events by kind.", ("renderer", "event"), events)


def _outputs(now: BridgeSnapshot) -> Iterator[Metric]:
    label = ("output",)
    views = now.outputs.items()
    yield _gauge(
        "output_up",
        "1 while it sends.",
        label,
        [((n,), _running(v.report.state)) for n, v in views],
    )
    events: list[Sample] = [
        ((name, event), count)
        for name, view in views
        for event, count in sorted(view.report.counters.items())
    ]
    yield _counter("output_events", "Events by kind.", ("output", "event"), events)


def _cameras(now: BridgeSnapshot) -> Iterator[Metric]:
    label = ("camera",)
    views = now.cameras.items()
    frames: list[Sample] = [
        ((n, what), count) for n, v in views for what, count in v.frames.items()
    ]
    yield _counter(
        "camera_frames", "Pictures by what became of them.", ("camera", "outcome"), frames
    )
    dropped: list[Sample] = [
        ((n, reason), count) for n, v in views for reason, count in v.dropped.items()
    ]
    yield _counter("camera_dropped", "Pictures dropped, by reason.", ("camera", "reason"), dropped)
    yield _gauge(
        "camera_up",
        "1 while readers get pictures.",
        label,
        [((n,), not v.problem) for n, v in views],
    )
    yield _gauge(
        "camera_rate_hertz", "Pictures a second.", label, [((n,), v.measured_hz) for n, v in views]
    )
    warps = [(name, view.compensation) for name, view in views if view.compensation is not None]
    angles: list[Sample] = [((n,), c.angle_rad) for n, c in warps]
    yield _gauge("warp_angle_radians", "Rotation that the warp made up for.", label, angles)
    valid: list[Sample] = [((n,), c.valid_fraction) for n, c in warps]
    yield _gauge("warp_valid_ratio", "Share of the picture that the warp could fill.", label, valid)


def _latency(now: BridgeSnapshot) -> Metric:
    text = "Latency of each stage of the frame ledger."
    family = HistogramMetricFamily("vil_stage_latency_seconds", text, labels=("stage", "camera"))
    for camera, view in now.cameras.items():
        for stage, latency in view.latency.items():
            histogram = latency.histogram
            edges = ("+Inf" if math.isinf(edge) else repr(edge) for edge in histogram.edges_s)
            family.add_metric(
                (stage, camera), list(zip(edges, histogram.counts, strict=True)), histogram.sum_s
            )
    return family


def _streams(now: BridgeSnapshot) -> Iterator[Metric]:
    label = ("stream",)
    views = now.streams.items()
    yield _counter("stream_frames", "Pictures sent.", label, [((n,), v.frames) for n, v in views])
    dropped: list[Sample] = [
        ((n, reason), count) for n, v in views for reason, count in v.dropped.items()
    ]
    yield _counter("stream_dropped", "Pictures not sent, by reason.", ("stream", "reason"), dropped)
    yield _gauge(
        "stream_subscribers",
        "Present readers.",
        label,
        [((n,), len(v.subscribers)) for n, v in views],
    )


def _joined_rooms(now: BridgeSnapshot) -> Iterator[Metric]:
    publish = now.publish or {}
    events: list[Sample] = [
        ((event,), count) for event, count in sorted(publish.get("counters", {}).items())
    ]
    yield _counter(
        "publish_events", "Frames to other bridges and refusals, by kind.", ("event",), events
    )
    yield _gauge(
        "publish_subscribers", "Bridges that listen.", (), [((), publish.get("subscribers"))]
    )


def _service(name: str, view: ModuleType, now: BridgeSnapshot) -> Iterator[Metric]:
    """Yield the metrics of a service: those that it yields, or one for each marked field."""
    shown = getattr(now, name)
    if hasattr(view, "metrics"):
        for measure, labels, samples in view.metrics(shown):
            yield _measured(measure, labels, samples)
        return
    for measure, samples in marked(get_args(view.View)[1], shown):
        yield _measured(measure, (view.LABEL,), samples)


def _measured(measure: Measure, labels: tuple[str, ...], samples: Iterable[Sample]) -> Metric:
    if measure.counts:
        return _counter(measure.name, measure.help, labels, samples)
    return _gauge(measure.name, measure.help, labels, samples)


def _running(state: ComponentState) -> bool:
    return state is ComponentState.RUNNING


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value * unit
