"""A running bridge as people read it: one immutable snapshot, made on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from vil_bridge import __version__
from vil_bridge.core.clock import NS_PER_S, machine_ns, now_ns
from vil_bridge.core.peer_faults import PeerFaults
from vil_bridge.core.ports import RendererClient
from vil_bridge.core.supervisor import ComponentState
from vil_bridge.core.types import ActorKind, ActorState, FloatArray
from vil_bridge.daemon.readiness import dropped_pictures
from vil_bridge.daemon.room_monitor import warning_text
from vil_bridge.monitoring.camera_history import CameraPoint
from vil_bridge.monitoring.frame_records import CameraHead, CameraLedger
from vil_bridge.monitoring.process_stats import process_view
from vil_bridge.monitoring.snapshot import (
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
    WarningView,
)

if TYPE_CHECKING:
    from vil_bridge.daemon.bridge import Bridge
    from vil_bridge.daemon.cameras import CameraRunner
    from vil_bridge.daemon.sources import SourceRunner

__all__ = ["brief_status_of", "ledger_of", "modes_of", "points_of", "shed_of", "snapshot_of", "words_of"]

_LATE_S: Final = 0.05
"""At a hundred poses a second, five of them are on their way at once."""


def snapshot_of(bridge: Bridge) -> BridgeSnapshot:
    """Everything, as of now."""
    t_ns = now_ns()
    sources = {n: _source(bridge, n, line, t_ns) for n, line in bridge.sources.items()}
    renderers = {n: _renderer(bridge, n, client, t_ns) for n, client in bridge.renderers.items()}
    actors = {a.name: _actor(bridge, a) for a in bridge.world.snapshot(t_ns).actors}
    reasons = bridge.readiness.reasons()
    lag_s = _seconds(bridge.vitals.loop_lag.view(machine_ns()).last_10_s.p99_ms)
    return BridgeSnapshot(
        t_ns=t_ns,
        name=bridge.config.name,
        version=__version__,
        uptime_s=(machine_ns() - bridge.started_ns) / NS_PER_S,
        ready=not reasons,
        not_ready_because=reasons,
        modes=modes_of(bridge),
        startup={**bridge.startup, "utc_offset_ns": bridge.wall_clock.offset_ns},
        sources=sources,
        actors=actors,
        renderers=renderers,
        cameras={n: _camera(bridge, n, path, t_ns) for n, path in bridge.paths.items()},
        streams={n: _stream(n, path) for n, path in bridge.paths.items()},
        outputs={
            n: OutputView(output.status.report(), config.type)
            for n, (output, config) in bridge.ways_out.outputs.items()
        },
        faults={
            "control": bridge.hub.faults(),
            "http": bridge.http.faults(),
            "loop": dict(bridge.loop_errors.counters),
            "world": bridge.world.counters(),
            **{f"stream/{n}": path.sink.faults() for n, path in bridge.paths.items()},
        },
        warnings=tuple(
            WarningView(w.kind, w.actors, w.rooms, w.distance_m, w.in_s, warning_text(w))
            for w in bridge.room_watch.warnings
        ),
        publish=None if bridge.publisher is None else bridge.publisher.report(),
        loop_lag_s=lag_s,
        overload=(*_late(lag_s), *bridge.overload_watch.words, *_warned(bridge), *bridge.descriptors.words),
        peer_faults=tuple(row for faults in _peer_faults(bridge) for row in faults.rows()),
        process=process_view(bridge.vitals.tasks),
        simulation=bridge.time.state() if bridge.config.simulation.clock == "simulated" else None,
        pages=bridge.web.pages(),
    )


def modes_of(bridge: Bridge) -> tuple[str, ...]:
    """Return the words of :attr:`BridgeSnapshot.modes` that are true now."""
    config = bridge.config
    flown = {actor.source for actor in config.actors.values() if actor.kind is ActorKind.VEHICLE}
    recorded = any(s.type == "replay" or (s.type == "motion-file" and n in flown) for n, s in config.sources.items())
    modes = {
        "REPLAY": recorded or bridge.records.replay().state == "playing",
        "FAULTS": any(line.faults for line in bridge.sources.values()),
        "REC": bridge.records.recording().state == "recording",
        "PAUSED": bridge.time.state().paused and config.simulation.clock == "simulated",
    }
    return tuple(word for word, is_true in modes.items() if is_true)


def _peer_faults(bridge: Bridge) -> list[PeerFaults]:
    links = [] if bridge.publisher is None else bridge.publisher.links
    cameras = [path.sink.peer_faults for path in bridge.paths.values()]
    return [bridge.hub.peer_faults, bridge.access.peer_faults, *cameras, *(link.peer_faults for link in links)]


def _warned(bridge: Bridge) -> list[str]:
    return [text for faults in _peer_faults(bridge) for text in faults.warnings()]


def brief_status_of(bridge: Bridge) -> dict[str, Any]:
    """What an onboard client gets for its question: states by name."""
    now = snapshot_of(bridge)
    return {
        "ready": now.ready,
        "not_ready_because": list(now.not_ready_because),
        "sources": {n: str(s.report.state) for n, s in now.sources.items()},
        "renderers": {n: str(r.report.state) for n, r in now.renderers.items()},
        "cameras": {n: c.problem or "delivers" for n, c in now.cameras.items()},
        "actors": {n: str(a.state) for n, a in now.actors.items()},
        "outputs": {n: str(o.report.state) for n, o in now.outputs.items()},
    }


def words_of(bridge: Bridge) -> str:
    """One line for ``systemctl status``."""
    now = snapshot_of(bridge)
    told = [*now.not_ready_because, *now.overload, *filter(None, [bridge.http.trouble])]
    return ("ready" if now.ready else "not ready") + (f": {'; '.join(told)}" if told else "")


def shed_of(bridge: Bridge) -> tuple[dict[str, Counter[str]], dict[str, float]]:
    """What the cameras of working renderers left out since the start, by reason; their rates, Hz."""
    drawn = {
        name: path
        for name, path in bridge.paths.items()
        if bridge.renderers[bridge.pool.assigner.place_of(name).renderer].status.state is ComponentState.RUNNING
    }
    return {n: dropped_pictures(bridge, n) for n in drawn}, {n: path.camera.rate_hz for n, path in drawn.items()}


def points_of(bridge: Bridge) -> dict[str, CameraPoint]:
    """Return one row of every camera's history: the last second."""
    t_ns = now_ns()
    ages_ns = {actor.name: actor.age_ns for actor in bridge.world.snapshot(t_ns, quick=True).actors}

    def point(path: CameraRunner) -> CameraPoint:
        age_ns, stages = ages_ns.get(path.config.actor), path.ledger.stages
        medians_ms = (stages[s].recent(t_ns, NS_PER_S).p50_ms for s in ("capture_to_output", "capture_to_received"))
        return CameraPoint(
            path.meter.rate_hz(t_ns),
            path.meter.age_s(t_ns),
            None if age_ns is None else age_ns / NS_PER_S,
            *medians_ms,
        )

    return {name: point(path) for name, path in bridge.paths.items()}


def ledger_of(bridge: Bridge, camera: str, last: int) -> CameraLedger:
    """A camera's newest frames, at most so many."""
    path = bridge.paths[camera]
    head = CameraHead(
        bridge=bridge.config.name,
        version=__version__,
        camera=camera,
        t_ns=now_ns(),
        utc_offset_ns=bridge.wall_clock.offset_ns,
        rate_hz=path.camera.rate_hz,
        dropped=dict(dropped_pictures(bridge, camera)),
        unsent=dict(path.sink.dropped),
    )
    return CameraLedger(head, path.ledger.rows(last))


def _late(lag_s: float | None) -> tuple[str, ...]:
    if lag_s is None or lag_s < _LATE_S:
        return ()
    return (f"overloaded: the realtime loop is {1e3 * lag_s:.0f} ms late (99th percentile of 10 s): use a faster CPU",)


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else 1e-3 * value_ms


def _source(bridge: Bridge, name: str, line: SourceRunner, t_ns: int) -> SourceView:
    clock = bridge.world.clocks.get(name)
    fit = clock.line if clock is not None else None
    view = ClockView("none")
    if fit is not None:
        view = ClockView(fit.method, fit.offset_at(t_ns), fit.uncertainty_at(t_ns), 1e6 * fit.drift, fit.samples)
    return SourceView(
        report=line.status.report(),
        type=bridge.config.sources[name].type,
        frames=line.meter.count,
        rate_hz=line.meter.rate_hz(t_ns),
        age_s=line.meter.age_s(t_ns),
        clock=view,
    )


def _actor(bridge: Bridge, state: ActorState) -> ActorView:
    config = bridge.config.actors[state.name]
    known = state.age_ns is not None
    seen = dict(bridge.world.transitions[state.name])  # in one go: other threads go on counting
    p, q = state.T_world_body.p_m.tolist(), state.T_world_body.q_xyzw.tolist()
    return ActorView(
        kind=state.kind,
        source=config.source,
        subject=config.subject,
        state=state.state,
        age_s=None if state.age_ns is None else state.age_ns / NS_PER_S,
        p_world_m=(p[0], p[1], p[2]) if known else None,
        q_xyzw=(q[0], q[1], q[2], q[3]) if known else None,
        speed_mps=bridge.world.speed_mps(state.name),
        seen={str(s): n for s, n in seen.items()},
        problem=bridge.subject_watch.problems.get(state.name, ""),
        imu=_imu(bridge, state.name),
    )


def _imu(bridge: Bridge, actor: str) -> ImuView | None:
    predictor = bridge.world.predictor(actor)
    if predictor is None:
        return None
    bias = predictor.bias
    return ImuView(bias.late_s, _three(bias.bias_radps), _three(bias.std_radps), _three(bias.accel.bias_mps2))


def _three(v: FloatArray) -> tuple[float, float, float]:
    x, y, z = v.tolist()
    return x, y, z


def _renderer(bridge: Bridge, name: str, client: RendererClient, t_ns: int) -> RendererView:
    report, load = client.status.report(), bridge.pool.loads[name].report(t_ns)
    return RendererView(
        report=report,
        type=bridge.config.renderers[name].type,
        in_flight=client.in_flight,
        cameras=tuple(bridge.pool.assigner.cameras_of(name)),
        pictures_hz=load.pictures_hz,
        render_ms=None if load.render_ns is None else 1e-6 * load.render_ns,
        utilisation=load.utilisation,
        note=_shortfall(report.facts.get("info", {})),
    )


def _shortfall(info: Mapping[str, Any]) -> str:
    """In words, that a renderer draws with less quality than it was asked for."""
    profile, wanted = info.get("profile"), info.get("profile_wanted")
    if profile == wanted or not profile or not wanted:
        return ""
    return f"draws with profile {profile} instead of {wanted}: {info.get('profile_reason') or 'it does not say why'}"


def _camera(bridge: Bridge, name: str, path: CameraRunner, t_ns: int) -> CameraView:
    config, relay = path.config, path.relay
    place = bridge.pool.assigner.place_of(name)
    waits_for = bridge.pool.waits_for(name)
    header = relay.newest[0] if relay.newest else None
    return CameraView(
        actor=config.actor,
        renderer=place.renderer,
        assigned=f"waits for {' or '.join(waits_for)}" if waits_for else place.why,
        modalities=tuple(str(m) for m in config.modalities),
        width_px=config.width_px,
        height_px=config.height_px,
        rate_hz=config.rate_hz,
        measured_hz=path.meter.rate_hz(t_ns),
        age_s=path.meter.age_s(t_ns),
        in_flight=bridge.renderers[place.renderer].in_flight,
        frames={"received": relay.rendered, **relay.delivered, **relay.warped},
        dropped=dict(dropped_pictures(bridge, name)),
        problem=bridge.readiness.problem_of(name),
        compensation=None
        if header is None
        else CompensationView(
            **{k: v for k, v in header.compensation.items() if k in CompensationView.__dataclass_fields__}
        ),
        collision=None if header is None else header.collision,
        landmarks=() if header is None else tuple(LandmarkView(*landmark) for landmark in header.landmarks),
        range_m=None if header is None else header.range_m,
        latency={stage: histogram.view(t_ns) for stage, histogram in path.ledger.stages.items()},
    )


def _stream(name: str, path: CameraRunner) -> StreamView:
    reports = tuple(s.report() for s in path.sink.subscribers)
    return StreamView(camera=name, frames=path.sink.sent, dropped=dict(path.sink.dropped), subscribers=reports)
