"""A running bridge as people read it: one immutable snapshot, made on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from vil_bridge import __version__
from vil_bridge.core.clock import NS_PER_S, WallClock, machine_ns, now_ns
from vil_bridge.core.motion import pose_covariance
from vil_bridge.core.types import ActorKind, ActorState, FloatArray
from vil_bridge.daemon.cameras import CameraRunner
from vil_bridge.daemon.context import BridgeContext
from vil_bridge.daemon.readiness import Readiness, dropped_pictures
from vil_bridge.daemon.sources import SourceRunner
from vil_bridge.interfaces.ports import RendererClient
from vil_bridge.interfaces.services import services
from vil_bridge.monitoring.camera_history import CameraPoint
from vil_bridge.monitoring.frame_records import CameraHead, CameraLedger
from vil_bridge.monitoring.process_stats import process_view
from vil_bridge.monitoring.snapshot import (
    MODES,
    ActorView,
    BridgeSnapshot,
    CameraView,
    ClockView,
    CompensationView,
    ImuView,
    LandmarkView,
    OutputView,
    RendererView,
    SourceView,
    StreamView,
)
from vil_bridge.runtime.peer_faults import PeerFaults
from vil_bridge.runtime.supervisor import ComponentState
from vil_bridge.web.schemas.status import BridgeStatus
from vil_bridge.web.server import HttpServer

_LATE_S: Final = 0.05
"""At a hundred poses a second, five of them are on their way at once."""

PAGE_COUNTS: Final = ("watching", "reading", "sent", "skipped", "refused")
"""Numbers of pages that watch and readers of events, and of what was sent to them, left out and
refused.
"""


class StatusReporter:
    """Reports on one bridge; any thread may ask.

    Args:
        context: of the bridge. readiness: its judgement.
        http: returns the HTTP server. pages: returns counts of the pages that watch.
    """

    def __init__(
        self,
        context: BridgeContext,
        readiness: Readiness,
        http: Callable[[], HttpServer],
        pages: Callable[[], dict[str, int]],
    ) -> None:
        self._context = context
        self._readiness = readiness
        self._http = http
        self._pages = pages

    def snapshot(self) -> BridgeSnapshot:
        """Return everything, as of now."""
        context = self._context
        t_ns = now_ns()
        reasons = self._readiness.reasons()
        views = self._views()
        lag_ms = context.health.watchdog.loop_lag.view(machine_ns()).last_10_s.p99_ms
        lag_s = None if lag_ms is None else 1e-3 * lag_ms
        return BridgeStatus(
            t_ns=t_ns,
            name=context.config.name,
            version=__version__,
            uptime_s=(machine_ns() - context.health.started_ns) / NS_PER_S,
            ready=not reasons,
            not_ready_because=reasons,
            degraded_because=self._readiness.degraded(),
            modes=self.modes(),
            startup={**context.health.startup, "utc_offset_ns": WallClock.of_run().offset_ns},
            sources={n: self._source(n, runner, t_ns) for n, runner in context.sources.items()},
            actors={a.name: _actor(context, a, t_ns) for a in context.world.snapshot(t_ns).actors},
            renderers={
                n: _renderer(context, n, client, t_ns)
                for n, client in context.pool.renderers.items()
            },
            cameras={n: self._camera(n, runner, t_ns) for n, runner in context.cameras.items()},
            streams={n: _stream(n, runner) for n, runner in context.cameras.items()},
            outputs={
                n: OutputView(output.status.report(), config.type)
                for n, (output, config) in context.outputs.outputs.items()
            },
            faults=self._faults(),
            publish=None if context.publisher is None else context.publisher.report(),
            loop_lag_s=lag_s,
            overload=(
                *_late(lag_s),
                *context.health.overload.words,
                *self._warned(),
                *context.health.descriptors.words,
            ),
            peer_faults=tuple(row for faults in self._peer_faults() for row in faults.rows()),
            process=process_view(context.health.watchdog.tasks),
            simulation=context.simulation.state()
            if context.config.simulation.clock == "simulated"
            else None,
            pages=self._pages(),
            services=tuple(views),
            **views,
        )

    def _views(self) -> dict[str, Any]:
        """Return the services' parts, by their names in the status."""
        views = {
            services()[name].status or name: service.view()
            for name, service in self._context.services.items()
        }
        return {name: view for name, view in views.items() if view is not None}

    def modes(self) -> tuple[str, ...]:
        """Return the words of :attr:`BridgeSnapshot.modes` that are true now."""
        config = self._context.config
        sources = self._context.sources
        flown = {
            actor.source for actor in config.actors.values() if actor.kind is ActorKind.VEHICLE
        }
        recorded = any(
            s.type == "replay" or (s.type == "motion-file" and n in flown)
            for n, s in config.sources.items()
        )
        modes = {
            "REPLAY": recorded,
            "FAULTS": any(runner.faults for runner in sources.values()),
            "PAUSED": self._context.simulation.state().paused
            and config.simulation.clock == "simulated",
        }
        words = {word for word, is_true in modes.items() if is_true}
        for service in self._context.services.values():
            words.update(service.modes())
        return (*(word for word in MODES if word in words), *sorted(words.difference(MODES)))

    def summary_status(self) -> dict[str, Any]:
        """Return states by name, for an onboard client's question."""
        now = self.snapshot()
        return {
            "ready": now.ready,
            "not_ready_because": list(now.not_ready_because),
            "degraded_because": list(now.degraded_because),
            "sources": {n: str(s.report.state) for n, s in now.sources.items()},
            "renderers": {n: str(r.report.state) for n, r in now.renderers.items()},
            "cameras": {n: c.problem or "delivers" for n, c in now.cameras.items()},
            "actors": {n: str(a.state) for n, a in now.actors.items()},
            "outputs": {n: str(o.report.state) for n, o in now.outputs.items()},
        }

    def status_line(self) -> str:
        """Return one line for ``systemctl status``."""
        now = self.snapshot()
        problems = [
            *now.not_ready_because,
            *now.degraded_because,
            *now.overload,
            *filter(None, [self._http().trouble]),
        ]
        if not problems:
            return now.state
        return f"{now.state}: {'; '.join(problems)}"

    def _faults(self) -> dict[str, dict[str, int]]:
        context = self._context
        return {
            **{name: dict(found) for name, s in context.services.items() if (found := s.faults())},
            "control": context.hub.faults(),
            "http": self._http().faults(),
            "loop": dict(context.health.loop_errors.counters),
            "world": context.world.counters(),
            **{f"stream/{n}": runner.sink.faults() for n, runner in context.cameras.items()},
        }

    def _peer_faults(self) -> list[PeerFaults]:
        context = self._context
        links = [] if context.publisher is None else context.publisher.links
        cameras = [runner.sink.peer_faults for runner in context.cameras.values()]
        services = [service.peer_faults() for service in context.services.values()]
        links_faults = (link.peer_faults for link in links)
        return [
            context.hub.peer_faults,
            context.access.peer_faults,
            *cameras,
            *(found for found in services if found is not None),
            *links_faults,
        ]

    def _warned(self) -> list[str]:
        return [text for faults in self._peer_faults() for text in faults.warnings()]

    def _source(self, name: str, runner: SourceRunner, t_ns: int) -> SourceView:
        clock = self._context.world.clocks.get(name)
        fit = clock.line if clock is not None else None
        view = ClockView("none")
        if fit is not None:
            view = ClockView(
                fit.method,
                fit.offset_at(t_ns),
                fit.uncertainty_at(t_ns),
                1e6 * fit.drift,
                fit.samples,
            )
        return SourceView(
            report=runner.status.report(),
            type=self._context.config.sources[name].type,
            frames=runner.meter.count,
            rate_hz=runner.meter.rate_hz(t_ns),
            age_s=runner.meter.age_s(t_ns),
            clock=view,
            degraded=self._readiness.lossy_source(name),
        )

    def _camera(self, name: str, runner: CameraRunner, t_ns: int) -> CameraView:
        context = self._context
        config = runner.config
        relay = runner.relay
        place = context.pool.assigner.place_of(name)
        waits_for = context.pool.waits_for(name)
        header = relay.newest[0] if relay.newest else None
        compensation: CompensationView | None = None
        collision: bool | None = None
        landmarks: tuple[LandmarkView, ...] = ()
        range_m: float | None = None
        if header is not None:
            fields = CompensationView.__dataclass_fields__
            known = {key: value for key, value in header.compensation.items() if key in fields}
            compensation = CompensationView(**known)
            collision = header.collision
            landmarks = tuple(LandmarkView(*landmark) for landmark in header.landmarks)
            range_m = header.range_m
        problem = self._readiness.problem_of(name)
        return CameraView(
            actor=config.actor,
            renderer=place.renderer,
            assigned=f"waits for {' or '.join(waits_for)}" if waits_for else place.why,
            modalities=tuple(str(m) for m in config.modalities),
            width_px=config.width_px,
            height_px=config.height_px,
            rate_hz=config.rate_hz,
            measured_hz=runner.meter.rate_hz(t_ns),
            age_s=runner.meter.age_s(t_ns),
            in_flight=context.pool.renderers[place.renderer].in_flight,
            frames={
                "received": relay.rendered,
                "repeated": relay.repeated,
                **relay.delivered,
                **relay.warped,
            },
            dropped=dict(dropped_pictures(context, name)),
            problem=problem,
            degraded="" if problem else self._readiness.slow_camera(name),
            compensation=compensation,
            collision=collision,
            landmarks=landmarks,
            range_m=range_m,
            latency={
                stage: histogram.view(t_ns) for stage, histogram in runner.ledger.stages.items()
            },
        )


def dropped_frames(context: BridgeContext) -> tuple[dict[str, Counter[str]], dict[str, float]]:
    """Return dropped frames per camera and reason since startup, and camera rates in Hz.

    Of working renderers only.
    """
    drawn = {
        name: runner
        for name, runner in context.cameras.items()
        if context.pool.renderers[context.pool.assigner.place_of(name).renderer].status.state
        is ComponentState.RUNNING
    }
    return {n: dropped_pictures(context, n) for n in drawn}, {
        n: r.camera.rate_hz for n, r in drawn.items()
    }


def camera_points(context: BridgeContext) -> dict[str, CameraPoint]:
    """Return one row of every camera's history: the last second."""
    t_ns = now_ns()
    ages_ns = {
        actor.name: actor.age_ns for actor in context.world.snapshot(t_ns, quick=True).actors
    }

    def point(runner: CameraRunner) -> CameraPoint:
        age_ns = ages_ns.get(runner.config.actor)
        stages = runner.ledger.stages
        medians_ms = (
            stages[s].recent(t_ns, NS_PER_S).p50_ms
            for s in ("capture_to_output", "capture_to_received")
        )
        return CameraPoint(
            runner.meter.rate_hz(t_ns),
            runner.meter.age_s(t_ns),
            None if age_ns is None else age_ns / NS_PER_S,
            *medians_ms,
        )

    return {name: point(runner) for name, runner in context.cameras.items()}


def ledger_of(context: BridgeContext, camera: str, last: int) -> CameraLedger:
    """Return a camera's newest frames, ``last`` at most."""
    runner = context.cameras[camera]
    head = CameraHead(
        bridge=context.config.name,
        version=__version__,
        camera=camera,
        t_ns=now_ns(),
        utc_offset_ns=WallClock.of_run().offset_ns,
        rate_hz=runner.camera.rate_hz,
        dropped=dict(dropped_pictures(context, camera)),
        unsent=dict(runner.sink.dropped),
    )
    return CameraLedger(head, runner.ledger.rows(last))


def _late(lag_s: float | None) -> tuple[str, ...]:
    if lag_s is None or lag_s < _LATE_S:
        return ()
    return (
        f"overloaded: the realtime loop is {1e3 * lag_s:.0f} ms late (99th percentile of "
        "10 s): use a faster CPU",
    )


def _actor(context: BridgeContext, state: ActorState, t_ns: int) -> ActorView:
    config = context.config.actors[state.name]
    seen = dict(context.world.transitions[state.name])  # in one go: other threads go on counting
    age_s: float | None = None
    p_world_m: tuple[float, float, float] | None = None
    q_xyzw: tuple[float, float, float, float] | None = None
    if state.age_ns is not None:
        age_s = state.age_ns / NS_PER_S
        p = state.T_world_body.p_m.tolist()
        p_world_m = (p[0], p[1], p[2])
        q = state.T_world_body.q_xyzw.tolist()
        q_xyzw = (q[0], q[1], q[2], q[3])
    return ActorView(
        kind=state.kind,
        source=config.source,
        subject=config.subject,
        state=state.state,
        age_s=age_s,
        p_world_m=p_world_m,
        q_xyzw=q_xyzw,
        speed_mps=context.world.speed_mps(state.name),
        seen={str(s): n for s, n in seen.items()},
        problem=context.health.subject_check.problems.get(state.name, ""),
        imu=_imu(context, state.name),
        **_stds(context, state, t_ns),
    )


def _stds(
    context: BridgeContext, state: ActorState, t_ns: int
) -> dict[str, tuple[float, float, float]]:
    """Return the standard deviations of a rigid actor's pose, where they are known."""
    if state.kind is ActorKind.HUMAN or state.age_ns is None:
        return {}
    covariance = context.world.motion_at(state.name, t_ns).covariance
    if covariance is None:
        return {}
    std = np.sqrt(np.diag(pose_covariance(covariance)))
    return {"position_std_m": _three(std[:3]), "attitude_std_rad": _three(std[3:])}


def _imu(context: BridgeContext, actor: str) -> ImuView | None:
    predictor = context.world.predictor(actor)
    if predictor is None:
        return None
    sensors = predictor.body.sensors
    return ImuView(
        sensors.late_s,
        _three(sensors.gyro_bias_radps),
        _three(sensors.gyro_bias_std_radps),
        _three(sensors.accel_bias_mps2),
    )


def _three(v: FloatArray) -> tuple[float, float, float]:
    x, y, z = v.tolist()
    return x, y, z


def _renderer(context: BridgeContext, name: str, client: RendererClient, t_ns: int) -> RendererView:
    report = client.status.report()
    load = context.pool.loads[name].report(t_ns)
    return RendererView(
        report=report,
        type=context.config.renderers[name].type,
        in_flight=client.in_flight,
        cameras=tuple(context.pool.assigner.cameras_of(name)),
        pictures_hz=load.pictures_hz,
        render_ms=None if load.render_ns is None else 1e-6 * load.render_ns,
        utilisation=load.utilisation,
        note=_shortfall(report.facts.get("info", {})),
    )


def _shortfall(info: Mapping[str, Any]) -> str:
    """In words, that a renderer draws with less quality than it was asked for."""
    profile = info.get("profile")
    wanted = info.get("profile_wanted")
    if profile == wanted or not profile or not wanted:
        return ""
    return (
        f"draws with profile {profile} instead of {wanted}: "
        f"{info.get('profile_reason') or 'it does not say why'}"
    )


def _stream(name: str, runner: CameraRunner) -> StreamView:
    reports = tuple(s.report() for s in runner.sink.subscribers)
    return StreamView(
        camera=name, frames=runner.sink.sent, dropped=dict(runner.sink.dropped), subscribers=reports
    )
