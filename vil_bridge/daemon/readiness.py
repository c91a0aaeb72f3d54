"""Judgement of a bridge by its cameras, which deliver or do not, and by the actors that carry them.

Status page, ``/readyz``, metrics, readers and systemd all read this one judgement.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.core.names import source_of
from vil_bridge.core.types import TrackingState
from vil_bridge.daemon.cameras import CameraRunner
from vil_bridge.daemon.context import BridgeContext
from vil_bridge.daemon.fault_injection import INJECTED_LOSSES
from vil_bridge.daemon.sources import SourceRunner
from vil_bridge.monitoring.overload import WINDOW_NS, CountWindow
from vil_bridge.monitoring.state_changes import TransitionLog
from vil_bridge.runtime.supervisor import ComponentState, Status

logger = logging.getLogger(__name__)

_PATIENCE_NS: Final = NS_PER_S
_PERIODS: Final = 3
_UNSEEN: Final = (TrackingState.STALE, TrackingState.LOST, TrackingState.FROZEN)
_NO_CAMERA: Final = (
    "no camera is configured, so no vehicle gets pictures. "
    "Add one under cameras, or set require_cameras: false for a bridge that is meant to have none"
)
_TOO_OLD_CURE: Final = "Raise it, lower the camera's rate_hz or size, or use a faster renderer"
_CURES: Final = {
    "renderer_busy": "Lower the camera's rate_hz or size, or use a faster renderer",
    "tick_missed": "Use a faster CPU",
    "superseded": "Lower the camera's rate_hz or size, or use a faster CPU",
    "delay_line_full": "Lower its artificial_delay_ms or its rate_hz",
    "tracking_lost": "Check the markers of its carrier",
}
_LOST_CURE: Final = (
    "Check the network between the server and the bridge, and the load of both computers"
)
_OTHER_CURE: Final = "See docs/concepts/reliability.md"
_FLOW: Final = "flow"
_SLOW: Final = "slow"
_STOPPED: Final = "stopped"
_TOO_FEW: Final = "too few pictures"
_UNKNOWN: Final = ""
_START_NS: Final = 10 * NS_PER_S
"""Until then the first picture may stay away without an event: sources and renderers connect."""
_UNDER_WAY_NS: Final = 200 * NS_PER_MS
"""As long may a picture be on its way when its renderer ends."""
_LONGEST_WAIT_NS: Final = 10 * NS_PER_S
"""A simulation that waits for its cameras has no time of its own to be late in."""
_UNSENT: Final = "unsent"
_SENT: Final = "sent"
_RATE_WINDOW_NS: Final = 5 * NS_PER_S
"""Time over which rates and losses are judged, bridge clock."""
_DEGRADED_SHARE: Final = 0.9
"""Share of the asked pictures below which a camera is degraded."""
_LEAST_SHARE: Final = 0.25
_LEAST_HZ: Final = 5.0
"""Below this share of the asked pictures, or below this rate where more were asked, one cannot
fly on them.
"""
_LOST_SHARE: Final = 0.05
"""Share of a source's frames that may be lost before it is degraded."""
_LOST: Final = "lost"
_RECEIVED: Final = "received"


class Readiness:
    """Judge of one context. Any thread may ask; :meth:`check` belongs to the loop.

    Attributes:
        problems: by camera, the reason why its readers get no pictures, as of the last check; empty
            = it delivers.
        findings: by service, what is worse than asked, as of its last check.
    """

    def __init__(self, context: BridgeContext) -> None:
        self.problems: dict[str, str] = {}
        self.findings: dict[str, Sequence[str]] = dict.fromkeys(context.services, ())
        self._context = context
        self._window = CountWindow(WINDOW_NS)
        self._pictures = CountWindow(_RATE_WINDOW_NS)
        self._frames = CountWindow(_RATE_WINDOW_NS)
        self._progress: dict[str, tuple[int, int]] = dict.fromkeys(
            context.cameras, (0, machine_ns())
        )
        self._cameras = TransitionLog(logger, context.cameras, _UNKNOWN)
        self._sources = TransitionLog(logger, context.sources, "")
        self._actors = TransitionLog(logger, context.config.actors, TrackingState.LOST)

    # --- a few times a second, in the loop ------------------------------------------------------

    def check(self) -> None:
        """Judge again.

        Log the first and the last picture of each camera, and actors that are lost or found.
        """
        t_ns = machine_ns()
        cameras = self._context.cameras
        self._window.add(
            now_ns(), {name: self._counts(name, runner) for name, runner in cameras.items()}
        )
        for name, runner in cameras.items():
            if self._progress[name][0] != runner.meter.count:
                self._progress[name] = runner.meter.count, t_ns
        self._pictures.add(
            now_ns(),
            {n: Counter({_SENT: r.meter.count}) for n, r in cameras.items() if self._flies(n)},
        )
        sources = self._context.sources.items()
        self._frames.add(
            now_ns(), {n: _frames(runner) for n, runner in sources if _works(runner.status)}
        )
        self.problems = {name: self.problem_of(name) for name in cameras}
        for name in cameras:
            self._log_camera(name, t_ns)
        for name in self._context.sources:
            self._log_source(name, t_ns)
        for name in self._context.config.actors:
            self._log_actor(name, t_ns)

    def _log_camera(self, name: str, t_ns: int) -> None:
        problem = self.problems[name]
        if not problem:
            slow = self.slow_camera(name)
            if slow:
                self._cameras.update(name, _SLOW, f"degraded: {slow}", logging.WARNING, t_ns)
            else:
                self._cameras.update(name, _FLOW, "pictures flow", logging.INFO, t_ns)
        elif (
            self._context.cameras[name].meter.count
            or t_ns - self._context.health.started_ns >= _START_NS
        ):
            text = problem
            if not problem.startswith(_TOO_FEW):
                text = f"pictures stopped: {problem.removeprefix('no pictures: ')}"
            self._cameras.update(name, _STOPPED, text, logging.WARNING, t_ns)

    def _log_source(self, name: str, t_ns: int) -> None:
        losses = self.lossy_source(name)
        if losses:
            self._sources.update(name, _SLOW, f"degraded: {losses}", logging.WARNING, t_ns)
        else:
            self._sources.update(name, "", "frames arrive", logging.INFO, t_ns)

    def _log_actor(self, name: str, t_ns: int) -> None:
        state = self._context.world.state_of(name)
        if state is TrackingState.STALE:  # soon lost, or seen again
            return
        if state in _UNSEEN:
            level = logging.WARNING if self._carried_by(name) else logging.INFO
            self._actors.update(name, state, self._why_unseen(name, state), level, t_ns)
        else:
            self._actors.update(name, TrackingState.TRACKED, "tracked", logging.INFO, t_ns)

    def _counts(self, name: str, runner: CameraRunner) -> Counter[str]:
        sink = Counter({_UNSENT: runner.sink.dropped["too_old"], _SENT: runner.sink.sent})
        return dropped_pictures(self._context, name) + sink

    # --- asked by any thread --------------------------------------------------------------------

    def reasons(self) -> tuple[str, ...]:
        """Return why the bridge is not ready, as sentences with the cure.

        Empty when every camera delivers.
        """
        context = self._context
        found = [
            f"source {n} is {_words(s.status)}"
            for n, s in context.sources.items()
            if self._lacks_source(n)
        ]
        found += [
            f"renderer {n} is {_words(r.status)}"
            for n, r in context.pool.renderers.items()
            if not _works(r.status) and context.pool.needs(n) and not self._delivers(n)
        ]
        for actor in dict.fromkeys(
            runner.camera.actor for runner in context.cameras.values() if not runner.camera.fixed
        ):
            state = context.world.state_of(actor)
            if state in _UNSEEN:
                cameras = ", ".join(self._carried_by(actor))
                found.append(
                    f"actor {actor} is {self._why_unseen(actor, state)} (it carries {cameras})"
                )
        own = ((name, self._own_problem(name)) for name in context.cameras)
        found += [f"camera {name}: {problem}" for name, problem in own if problem]
        if not context.cameras and context.config.require_cameras:
            found.append(_NO_CAMERA)
        return (*context.health.watchdog.hung(), *found)

    def degraded(self) -> tuple[str, ...]:
        """Return what is worse than asked although vehicles can fly on it, as sentences.

        Empty when nothing is.
        """
        context = self._context
        slow = (
            (name, self.slow_camera(name)) for name in context.cameras if not self.problem_of(name)
        )
        lossy = ((name, self.lossy_source(name)) for name in context.sources)
        found = [f"camera {name}: {words}" for name, words in slow if words]
        found += [f"source {name} {words}" for name, words in lossy if words]
        for sentences in self.findings.values():
            found += sentences
        return tuple(found)

    def slow_camera(self, camera: str) -> str:
        """Return why a camera that delivers is degraded: too few of the asked pictures.

        Empty = it is not.
        """
        rate_hz = self._pictures_hz(camera)
        asked_hz = self._context.cameras[camera].camera.rate_hz
        if rate_hz is None or not is_degraded(rate_hz, asked_hz):
            return ""
        return self._too_few(camera, rate_hz)

    def lossy_source(self, source: str) -> str:
        """Return why a source is degraded: too many of its frames are lost; empty = it is not."""
        counts, seconds = self._frames.recent(source)
        lost = counts[_LOST]
        all_frames = counts.total()
        if seconds < _RATE_WINDOW_NS / NS_PER_S or lost <= _LOST_SHARE * all_frames:
            return ""
        percent = 100.0 * lost / all_frames
        faults = self._context.sources[source].faults
        cure = f"Faults are injected: {faults}" if faults else _LOST_CURE
        return (
            f"loses {percent:.0f} % of its frames ({lost} of {all_frames} in {seconds:.0f} "
            f"s). {cure}"
        )

    def problem_of(self, camera: str) -> str:
        """Return why a camera's readers get no pictures that one may fly on.

        Empty = they get them.
        """
        runner = self._context.cameras[camera]
        context = self._context
        if (
            not runner.camera.fixed
            and (state := context.world.state_of(runner.camera.actor)) in _UNSEEN
        ):
            return f"actor {runner.camera.actor} is {self._why_unseen(runner.camera.actor, state)}"
        if waits_for := self._waits_for(camera):
            return "; ".join(
                f"renderer {n} is {_words(context.pool.renderers[n].status)}" for n in waits_for
            )
        return self._own_problem(camera)

    def for_readers(self, camera: str) -> tuple[str, bool]:
        """Return the problem of a camera's readers as of the last check, and True while what they
        would get is frozen.

        The latter is as of now, since ``alive`` of the readers ends by it.
        """
        runner = self._context.cameras[camera]
        carrier = None if runner.camera.fixed else self._context.world.state_of(runner.camera.actor)
        frozen = carrier is TrackingState.FROZEN or bool(runner.relay.freeze.description)
        if frozen:
            return self.problem_of(camera), frozen
        return self.problems.get(camera, ""), frozen

    def _own_problem(self, camera: str) -> str:
        """Return why a camera delivers nothing although its carrier is seen and its renderer
        works.
        """
        runner = self._context.cameras[camera]
        context = self._context
        if not runner.camera.usable(context.world) or self._waits_for(camera):
            return ""
        recent, _ = self._window.recent(camera)
        sent = recent.pop(_SENT, 0)
        unsent = recent.pop(_UNSENT, 0)
        if words := runner.relay.freeze.description:
            renderer = context.pool.assigner.place_of(camera).renderer
            return f"no pictures: renderer {renderer} {words}. Restart the renderer"
        limit = f"max_age_ms {runner.config.max_age_ms:g}"
        if not self._silent(camera, runner):
            if unsent and not sent:
                return f"no pictures: all are older than {limit} when they are sent. Raise it"
            return self._hardly_any(camera)
        if context.simulation.state().paused:
            return "no pictures: the simulation is paused"
        reason = max(recent, key=recent.__getitem__, default="")
        # What was drawn and not handed over says more than what was not asked for.
        if recent["too_old"]:
            age_ms = runner.relay.refused_age_ns / NS_PER_MS
            return (
                f"no pictures: all are too old when they are drawn, age {age_ms:.0f} ms, "
                f"limit {limit}. {_TOO_OLD_CURE}"
            )
        if reason:
            return (
                f"no pictures: {recent[reason]} left out lately ({reason}). "
                f"{_CURES.get(reason, _OTHER_CURE)}"
            )
        age_s = runner.meter.age_s(now_ns())
        since = "no picture yet" if age_s is None else f"no pictures for {age_s:.1f} s"
        if self._waits_in_vain(quiet_ns := self._quiet_ns(camera, runner)):
            since = f"the simulation has waited for a picture for {quiet_ns / NS_PER_S:.0f} s"
        renderer = context.pool.assigner.place_of(camera).renderer
        return (
            f"{since}: renderer {renderer} works, but has not drawn this camera. See the "
            "renderer's log"
        )

    def _hardly_any(self, camera: str) -> str:
        """Return why a camera delivers too few pictures to fly on; empty = it delivers enough."""
        rate_hz = self._pictures_hz(camera)
        asked_hz = self._context.cameras[camera].camera.rate_hz
        if rate_hz is None or is_enough(rate_hz, asked_hz):
            return ""
        return f"{_TOO_FEW}: {self._too_few(camera, rate_hz)}"

    def _too_few(self, camera: str, rate_hz: float) -> str:
        """Return the sentence for a camera with too few pictures, with the most frequent reason
        and its cure.
        """
        asked_hz = self._context.cameras[camera].camera.rate_hz
        text = f"{rate_hz:.1f} of {asked_hz:g} pictures a second"
        recent, _ = self._window.recent(camera)
        reasons = {
            reason: count for reason, count in recent.items() if reason not in (_SENT, _UNSENT)
        }
        if not reasons:
            return f"{text}. {_OTHER_CURE}"
        reason = max(reasons, key=reasons.__getitem__)
        return f"{text} ({reason}). {_CURES.get(reason, _OTHER_CURE)}"

    def _pictures_hz(self, camera: str) -> float | None:
        """Return the rate over the last 5 s, pictures a second of bridge time.

        None until there are 5 s to judge.
        """
        counts, seconds = self._pictures.recent(camera)
        if seconds < _RATE_WINDOW_NS / NS_PER_S:
            return None
        return counts[_SENT] / seconds

    def _flies(self, camera: str) -> bool:
        """Return True while a camera could deliver.

        Its carrier is seen, its renderer works, time passes.
        """
        runner = self._context.cameras[camera]
        context = self._context
        paused = context.simulation.state().paused
        return runner.camera.usable(context.world) and not self._waits_for(camera) and not paused

    def _waits_for(self, camera: str) -> tuple[str, ...]:
        """Return a camera's candidates while none of them works.

        Empty while one does, or delivers all the same.
        """
        renderer = self._context.pool.assigner.place_of(camera).renderer
        if self._delivers(renderer):
            return ()
        return self._context.pool.waits_for(camera)

    def _delivers(self, renderer: str) -> bool:
        """Return True for a renderer whose pictures go on although it does not work, since it is
        too slow.
        """
        report = self._context.pool.renderers[renderer].status.report()
        cameras = {
            name: self._context.cameras[name]
            for name in self._context.pool.assigner.cameras_of(renderer)
        }
        slow = report.facts.get("too_slow", False) and bool(cameras)
        newer = (
            (runner.meter.newest_ns or 0) > report.since_ns + _UNDER_WAY_NS
            for runner in cameras.values()
        )
        return (
            slow
            and all(newer)
            and not any(self._silent(name, runner) for name, runner in cameras.items())
        )

    def _silent(self, camera: str, runner: CameraRunner) -> bool:
        """Return True when no picture was handed over lately, neither in bridge time nor in the
        machine's.
        """
        newest_ns = runner.meter.newest_ns
        if newest_ns is None:
            return True
        patience_ns = max(_PATIENCE_NS, round(_PERIODS * NS_PER_S / runner.camera.rate_hz))
        quiet_ns = self._quiet_ns(camera, runner)
        return quiet_ns > patience_ns and (
            now_ns() - newest_ns > patience_ns or self._waits_in_vain(quiet_ns)
        )

    def _quiet_ns(self, camera: str, runner: CameraRunner) -> int:
        """Return for how long nothing was handed over, in the machine's time."""
        count, t_counted_ns = self._progress[camera]
        if count != runner.meter.count:
            return 0
        return machine_ns() - t_counted_ns

    def _waits_in_vain(self, quiet_ns: int) -> bool:
        waits = (
            self._context.config.simulation.wait_for_cameras
            and not self._context.simulation.state().paused
        )
        return waits and quiet_ns > _LONGEST_WAIT_NS

    def _lacks_source(self, name: str) -> bool:
        """Return True for a source that does not run although a camera's carrier, or the
        configuration, needs it.
        """
        context = self._context
        config = self._context.config.sources[name]
        if _works(context.sources[name].status):
            return False
        if not context.cameras or getattr(config, "required_within_s", None) is not None:
            return True
        if getattr(config, "fed_by_readers", False):  # a camera without a reader is not a reason
            return False
        carriers = (
            context.config.actors.get(runner.camera.actor) for runner in context.cameras.values()
        )
        return any(a is not None and name in (a.source, source_of(a.imu or "")) for a in carriers)

    def _carried_by(self, actor: str) -> list[str]:
        return [
            name for name, runner in self._context.cameras.items() if runner.camera.actor == actor
        ]

    def _why_unseen(self, actor: str, state: TrackingState) -> str:
        """Return state, age and cause of an actor that is not seen, with the cure."""
        context = self._context
        config = self._context.config.actors[actor]
        if state is TrackingState.FROZEN:
            why = context.world.freeze_of(actor) or "its pose has just changed"
            return f"{state}: {why}. Check source {config.source}: it sends poses and measures none"
        newest = context.world.newest(actor)
        age = ""
        if newest is not None:
            age = f", last seen {(now_ns() - newest[2]) / NS_PER_S:.1f} s ago"
        status = context.sources[config.source].status
        if not _works(status):
            return f"{state}{age}: source {config.source} is {_words(status)}"
        problem = context.health.subject_check.problems.get(actor, "")
        return f"{state}{age}: " + (
            problem or f"source {config.source} does not see it. Check its markers and the volume"
        )


def is_degraded(rate_hz: float, asked_hz: float) -> bool:
    """Return True for a rate of pictures below the share of the asked one that a vehicle may
    expect.
    """
    return rate_hz < _DEGRADED_SHARE * asked_hz


def is_enough(rate_hz: float, asked_hz: float) -> bool:
    """Return False for a rate of pictures that one cannot fly on."""
    if asked_hz > _LEAST_HZ and rate_hz < _LEAST_HZ:
        return False
    return rate_hz >= _LEAST_SHARE * asked_hz


def dropped_pictures(context: BridgeContext, camera: str) -> Counter[str]:
    """Return the pictures of a camera that were not asked for, or not handed over, by reason."""
    dropped = dict(context.cameras[camera].relay.dropped)  # in one go: its thread goes on counting
    return Counter(dropped) + context.pool.skipped(camera)


def _frames(runner: SourceRunner) -> Counter[str]:
    """Return the frames that a source received and lost since the start, those included that
    injected faults lost.
    """
    counters = runner.status.counters
    return Counter(
        {_RECEIVED: runner.received, _LOST: counters["lost"] + counters[INJECTED_LOSSES]}
    )


def _works(status: Status) -> bool:
    return status.state is ComponentState.RUNNING


def _words(status: Status) -> str:
    report = status.report()
    if not report.reason:
        return f"{report.state}"
    return f"{report.state}: {report.reason}"
