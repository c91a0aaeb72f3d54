"""The judgement of a bridge by what its vehicles get: cameras that deliver, and the actors that carry them.

Status page, ``/readyz``, metrics, readers and systemd all read this one judgement.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.core.names import source_of
from vil_bridge.core.supervisor import ComponentState, Status
from vil_bridge.core.types import TrackingState
from vil_bridge.monitoring.overload import DropWindow
from vil_bridge.monitoring.state_changes import TransitionLog

if TYPE_CHECKING:
    from vil_bridge.daemon.bridge import Bridge
    from vil_bridge.daemon.cameras import CameraRunner

__all__ = ["Readiness", "dropped_pictures"]

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
_OTHER_CURE: Final = "See docs/concepts/reliability.md"
_FLOW, _STOPPED, _UNKNOWN = "flow", "stopped", ""
_START_NS: Final = 10 * NS_PER_S
"""Until then the first picture may stay away without an event: sources and renderers connect."""
_UNDER_WAY_NS: Final = 200 * NS_PER_MS
"""As long may a picture be on its way when its renderer ends."""
_LONGEST_WAIT_NS: Final = 10 * NS_PER_S
"""A simulation that waits for its cameras has no time of its own to be late in."""
_UNSENT: Final = "unsent"
_SENT: Final = "sent"


class Readiness:
    """Judge of one bridge. Any thread may ask; :meth:`check` belongs to the loop.

    Attributes:
        problems: by camera, the reason why its readers get no pictures, as of the last check; empty = it delivers.
    """

    def __init__(self, bridge: Bridge) -> None:
        self.problems: dict[str, str] = {}
        self._bridge = bridge
        self._window = DropWindow()
        self._progress: dict[str, tuple[int, int]] = dict.fromkeys(bridge.paths, (0, machine_ns()))
        self._cameras = TransitionLog(logger, bridge.paths, _UNKNOWN)
        self._actors = TransitionLog(logger, bridge.config.actors, TrackingState.LOST)

    # --- a few times a second, in the loop ------------------------------------------------------

    def check(self) -> None:
        """Judge again. Log the first and the last picture of each camera, and actors that are lost or found."""
        t_ns, paths = machine_ns(), self._bridge.paths
        self._window.add(now_ns(), {name: self._counts(name, path) for name, path in paths.items()})
        for name, path in paths.items():
            if self._progress[name][0] != path.meter.count:
                self._progress[name] = path.meter.count, t_ns
        self.problems = {name: self.problem_of(name) for name in paths}
        for name, problem in self.problems.items():
            if problem and (paths[name].meter.count or t_ns - self._bridge.started_ns >= _START_NS):
                text = f"pictures stopped: {problem.removeprefix('no pictures: ')}"
                self._cameras.update(name, _STOPPED, text, logging.WARNING, t_ns)
            elif not problem:
                self._cameras.update(name, _FLOW, "pictures flow", logging.INFO, t_ns)
        for name in self._bridge.config.actors:
            self._log_actor(name, t_ns)

    def _log_actor(self, name: str, t_ns: int) -> None:
        state = self._bridge.world.state_of(name)
        if state is TrackingState.STALE:  # soon lost, or seen again
            return
        if state in _UNSEEN:
            level = logging.WARNING if self._carried_by(name) else logging.INFO
            self._actors.update(name, state, self._why_unseen(name, state), level, t_ns)
        else:
            self._actors.update(name, TrackingState.TRACKED, "tracked", logging.INFO, t_ns)

    def _counts(self, name: str, path: CameraRunner) -> Counter[str]:
        sink = Counter({_UNSENT: path.sink.dropped["too_old"], _SENT: path.sink.sent})
        return dropped_pictures(self._bridge, name) + sink

    # --- asked by any thread --------------------------------------------------------------------

    def reasons(self) -> tuple[str, ...]:
        """Return why the bridge is not ready, as sentences with the cure; empty when every camera delivers."""
        bridge = self._bridge
        found = [f"source {n} is {_words(s.status)}" for n, s in bridge.sources.items() if self._lacks_source(n)]
        found += [
            f"renderer {n} is {_words(r.status)}"
            for n, r in bridge.renderers.items()
            if not _works(r.status) and bridge.pool.needs(n) and not self._delivers(n)
        ]
        for actor in dict.fromkeys(path.camera.actor for path in bridge.paths.values() if not path.camera.fixed):
            state = bridge.world.state_of(actor)
            if state in _UNSEEN:
                cameras = ", ".join(self._carried_by(actor))
                found.append(f"actor {actor} is {self._why_unseen(actor, state)} (it carries {cameras})")
        own = ((name, self._own_problem(name)) for name in bridge.paths)
        found += [f"camera {name}: {problem}" for name, problem in own if problem]
        if not bridge.paths and bridge.config.require_cameras:
            found.append(_NO_CAMERA)
        return (*bridge.vitals.hung(), *found)

    def problem_of(self, camera: str) -> str:
        """Return why a camera's readers get no pictures that one may fly on; empty = they get them."""
        path, bridge = self._bridge.paths[camera], self._bridge
        if not path.camera.fixed and (state := bridge.world.state_of(path.camera.actor)) in _UNSEEN:
            return f"actor {path.camera.actor} is {self._why_unseen(path.camera.actor, state)}"
        if waits_for := self._waits_for(camera):
            return "; ".join(f"renderer {n} is {_words(bridge.renderers[n].status)}" for n in waits_for)
        return self._own_problem(camera)

    def for_readers(self, camera: str) -> tuple[str, bool]:
        """Return the problem of a camera's readers as of the last check, and True while what they would get is frozen.

        The latter is as of now, since ``alive`` of the readers ends by it.
        """
        path = self._bridge.paths[camera]
        carrier = None if path.camera.fixed else self._bridge.world.state_of(path.camera.actor)
        frozen = carrier is TrackingState.FROZEN or bool(path.relay.freeze.words)
        return self.problem_of(camera) if frozen else self.problems.get(camera, ""), frozen

    def _own_problem(self, camera: str) -> str:
        """Return why a camera delivers nothing although its carrier is seen and its renderer works."""
        path, bridge = self._bridge.paths[camera], self._bridge
        if not path.camera.usable(bridge.world) or self._waits_for(camera):
            return ""
        recent, _ = self._window.recent(camera)
        sent, unsent = recent.pop(_SENT, 0), recent.pop(_UNSENT, 0)
        if words := path.relay.freeze.words:
            renderer = bridge.pool.assigner.place_of(camera).renderer
            return f"no pictures: renderer {renderer} repeats its picture, {words}. Restart the renderer"
        limit = f"max_age_ms {path.config.max_age_ms:g}"
        if not self._silent(camera, path):
            return (
                f"no pictures: all are older than {limit} when they are sent. Raise it" if unsent and not sent else ""
            )
        if bridge.time.state().paused:
            return "no pictures: the simulation is paused"
        reason = max(recent, key=recent.__getitem__, default="")
        if recent["too_old"]:  # what was drawn and not handed over says more than what was not asked for
            age_ms = path.relay.refused_age_ns / NS_PER_MS
            return (
                f"no pictures: all are too old when they are drawn, age {age_ms:.0f} ms, limit {limit}. {_TOO_OLD_CURE}"
            )
        if reason:
            return f"no pictures: {recent[reason]} left out lately ({reason}). {_CURES.get(reason, _OTHER_CURE)}"
        age_s = path.meter.age_s(now_ns())
        since = "no picture yet" if age_s is None else f"no pictures for {age_s:.1f} s"
        if self._waits_in_vain(quiet_ns := self._quiet_ns(camera, path)):
            since = f"the simulation has waited for a picture for {quiet_ns / NS_PER_S:.0f} s"
        renderer = bridge.pool.assigner.place_of(camera).renderer
        return f"{since}: renderer {renderer} works, but has not drawn this camera. See the renderer's log"

    def _waits_for(self, camera: str) -> tuple[str, ...]:
        """Return a camera's candidates while none of them works; empty while one does, or delivers all the same."""
        renderer = self._bridge.pool.assigner.place_of(camera).renderer
        return () if self._delivers(renderer) else self._bridge.pool.waits_for(camera)

    def _delivers(self, renderer: str) -> bool:
        """Return True for a renderer whose pictures go on although it does not work, since it is too slow."""
        report = self._bridge.renderers[renderer].status.report()
        paths = {name: self._bridge.paths[name] for name in self._bridge.pool.assigner.cameras_of(renderer)}
        slow = report.facts.get("too_slow", False) and bool(paths)
        newer = ((path.meter.newest_ns or 0) > report.since_ns + _UNDER_WAY_NS for path in paths.values())
        return slow and all(newer) and not any(self._silent(name, path) for name, path in paths.items())

    def _silent(self, camera: str, path: CameraRunner) -> bool:
        """Return True when no picture was handed over lately, neither in bridge time nor in the machine's."""
        newest_ns = path.meter.newest_ns
        if newest_ns is None:
            return True
        patience_ns = max(_PATIENCE_NS, round(_PERIODS * NS_PER_S / path.camera.rate_hz))
        quiet_ns = self._quiet_ns(camera, path)
        return quiet_ns > patience_ns and (now_ns() - newest_ns > patience_ns or self._waits_in_vain(quiet_ns))

    def _quiet_ns(self, camera: str, path: CameraRunner) -> int:
        """Return for how long nothing was handed over, in the machine's time."""
        count, t_counted_ns = self._progress[camera]
        return machine_ns() - t_counted_ns if count == path.meter.count else 0

    def _waits_in_vain(self, quiet_ns: int) -> bool:
        waits = self._bridge.config.simulation.wait_for_cameras and not self._bridge.time.state().paused
        return waits and quiet_ns > _LONGEST_WAIT_NS

    def _lacks_source(self, name: str) -> bool:
        """Return True for a source that does not run although a camera's carrier, or the configuration, needs it."""
        bridge, config = self._bridge, self._bridge.config.sources[name]
        if _works(bridge.sources[name].status):
            return False
        if not bridge.paths or getattr(config, "required_within_s", None) is not None:
            return True
        if getattr(config, "fed_by_readers", False):  # a camera without a reader is no reason
            return False
        carriers = (bridge.config.actors.get(path.camera.actor) for path in bridge.paths.values())
        return any(a is not None and name in (a.source, source_of(a.imu or "")) for a in carriers)

    def _carried_by(self, actor: str) -> list[str]:
        return [name for name, path in self._bridge.paths.items() if path.camera.actor == actor]

    def _why_unseen(self, actor: str, state: TrackingState) -> str:
        """Return state, age and cause of an actor that is not seen, with the cure."""
        bridge, config = self._bridge, self._bridge.config.actors[actor]
        if state is TrackingState.FROZEN:
            why = bridge.world.freeze_of(actor) or "its pose has just changed"
            return f"{state}: {why}. Check source {config.source}: it sends poses and measures none"
        newest = bridge.world.newest(actor)
        age = "" if newest is None else f", last seen {(now_ns() - newest[2]) / NS_PER_S:.1f} s ago"
        status = bridge.sources[config.source].status
        if not _works(status):
            return f"{state}{age}: source {config.source} is {_words(status)}"
        problem = bridge.subject_watch.problems.get(actor, "")
        return f"{state}{age}: " + (
            problem or f"source {config.source} does not see it. Check its markers and the volume"
        )


def dropped_pictures(bridge: Bridge, camera: str) -> Counter[str]:
    """Return the pictures of a camera that were not asked for, or not handed over, by reason."""
    dropped = dict(bridge.paths[camera].relay.dropped)  # in one go: its thread goes on counting
    return Counter(dropped) + bridge.pool.skipped(camera)


def _works(status: Status) -> bool:
    return status.state is ComponentState.RUNNING


def _words(status: Status) -> str:
    report = status.report()
    return f"{report.state}" + (f": {report.reason}" if report.reason else "")
