"""Checks of the configured sources, from their events of a few seconds."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from vil_bridge.bodies.posture import axis_cure, extent_problem, skeleton_extent_m
from vil_bridge.config.root import ActorConfig, BridgeConfig
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.types import (
    ActorKind,
    ClockExchange,
    ImuSample,
    SourceEvent,
    SourceFrame,
    SourceReset,
)
from vil_bridge.daemon.source_session import listening
from vil_bridge.daemon.subject_check import subject_problem
from vil_bridge.runtime.supervisor import ComponentState, StatusReport
from vil_bridge.setup.doctor.finding import Finding, fail, ok, warn
from vil_bridge.world.clock_sync import ClockModel

LISTEN_S: Final = 4.5
"""Longer than the three seconds after which a source says why it hears nothing."""
_ENOUGH_S: Final = 2.0
_FROZEN_FRAMES: Final = 30
_LOST_SHARE: Final = 0.01
_UNSURE_NS: Final = 2 * NS_PER_MS
_WHO: Final = {"server": "", "version": "protocol ", "mode": ""}
"""Facts that identify the peer, with the word before each."""


@dataclass(slots=True)
class SourceActivity:
    """Events of one source.

    Attributes:
        events: frames or inertial samples. measured: those in which anything was tracked.
        changes: measured ones that differ from the one before.
        bodies, skeletons: subject to the frames in which it was tracked; 0 = only listed.
        extent_m: room x, y, z of the box around a whole skeleton, the newest, by name.
        report: the source's own at the end.
    """

    events: int = 0
    measured: int = 0
    first_ns: int = 0
    last_ns: int = 0
    changes: int = 0
    bodies: Counter[str] = field(default_factory=Counter)
    skeletons: Counter[str] = field(default_factory=Counter)
    extent_m: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    clock: ClockModel = field(default_factory=ClockModel)
    report: StatusReport | None = None
    _before: bytes = b""

    @property
    def seconds(self) -> float:
        """From the first event to the last."""
        return (self.last_ns - self.first_ns) / NS_PER_S

    def handle(self, event: SourceEvent) -> None:
        """Count an event."""
        match event:
            case SourceFrame():
                self._mark(event.t_arrival_ns, event.t_foreign_ns, event.latency_ns)
                self._handle_frame(event)
            case ImuSample():
                self._mark(event.t_arrival_ns, event.t_foreign_ns, 0)
                self._compare(event.f_mps2.tobytes() + event.w_radps.tobytes())
            case ClockExchange():
                self.clock.add_exchange(event.t_sent_ns, event.t_foreign_ns, event.t_received_ns)
            case SourceReset() if event.clock:
                self.clock.reset()

    def _mark(self, t_arrival_ns: int, t_foreign_ns: int | None, latency_ns: int) -> None:
        self.events += 1
        self.first_ns = self.first_ns or t_arrival_ns
        self.last_ns = t_arrival_ns
        if t_foreign_ns is not None:
            self.clock.add_stamp(t_foreign_ns, t_arrival_ns - latency_ns)

    def _handle_frame(self, frame: SourceFrame) -> None:
        for name, tracked in zip(frame.subjects, frame.tracked.tolist(), strict=True):
            self.bodies[name] += tracked
        for skeleton in frame.skeletons:
            whole = bool(skeleton.tracked.all())
            self.skeletons[skeleton.model.name] += bool(skeleton.tracked.any())
            if whole and len(skeleton.p_m) > 1:
                self.extent_m[skeleton.model.name] = skeleton_extent_m(skeleton)
        if not frame.tracked.any() and not any(s.tracked.any() for s in frame.skeletons):
            return  # an empty room stands still rightly
        poses = [
            frame.p_m,
            frame.q_xyzw,
            *(s.p_m for s in frame.skeletons),
            *(s.q_xyzw for s in frame.skeletons),
        ]
        self._compare(b"".join(p.tobytes() for p in poses))

    def _compare(self, content: bytes) -> None:
        self.measured += 1
        self.changes += content != self._before
        self._before = content


async def listen(
    config: BridgeConfig, names: Collection[str], seconds: float = LISTEN_S
) -> dict[str, SourceActivity]:
    """Run some sources of a configuration, for less long when all of them speak.

    Raises:
        ConfigError: a plug-in cannot be had.
    """
    activity = {name: SourceActivity() for name in names}
    enough = asyncio.Event()

    def take(event: SourceEvent) -> None:
        activity[event.source].handle(event)
        if all(h.seconds > _ENOUGH_S for h in activity.values()):
            enough.set()

    async with listening(config, activity, take) as statuses:
        if activity:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await enough.wait()
        for name, status in statuses.items():
            activity[name].report = status.report()
    return activity


def check_answer(source: str, activity: SourceActivity) -> Finding:
    """Check that the source sends, at what rate and with what losses.

    Its own reason says why not.
    """
    name = f"source {source}"
    report = activity.report
    if report is None or report.state is not ComponentState.RUNNING:
        state = "silent"
        reason = "nothing came"
        if report is not None:
            state = str(report.state)
            reason = report.reason or reason
        return fail(
            name,
            f"{state}: {reason}",
            "follow the questions above; `vil-bridge discover` shows who answers",
        )
    rate_hz = (activity.events - 1) / activity.seconds if activity.seconds > 0 else math.nan
    who = ", ".join(
        f"{word}{report.facts[key]}" for key, word in _WHO.items() if report.facts.get(key)
    )
    text = f"{who or 'answers'}, {rate_hz:.0f} per second"
    lost = report.counters.get("lost", 0)
    malformed = report.counters.get("malformed", 0)
    if lost > _LOST_SHARE * activity.events or malformed:
        cure = (
            "a cable instead of Wi-Fi; see `socket buffers`; fewer streamed elements in the "
            "mocap program"
        )
        return warn(name, f"{text}; {lost} frames were lost and {malformed} malformed", cure)
    return ok(name, text)


def check_subject(name: str, actor: ActorConfig, activity: SourceActivity) -> Finding:
    """Check that the stream has the actor under its configured name and tracks it."""
    title = f"actor {name}"
    facts: dict[str, Any] = activity.report.facts if activity.report is not None else {}
    bodies = (*activity.bodies, *facts.get("subjects", ()))
    skeletons = (*activity.skeletons, *facts.get("skeletons", ()))
    problem = subject_problem(actor, bodies, skeletons)
    if problem:
        cure = (
            f"`subject:` of actors.{name} as the mocap program shows it, upper and lower case alike"
        )
        if actor.subject in {*bodies, *skeletons}:
            cure = f"`kind:` of actors.{name}"
        return fail(title, problem, cure)
    tracked = (activity.skeletons if actor.kind is ActorKind.HUMAN else activity.bodies)[
        actor.subject
    ]
    if not tracked:
        text = f"{actor.subject!r} is in the stream, but was not tracked"
        return warn(title, text, "put it into the cameras' view; are enough of its markers seen?")
    return ok(title, f"{actor.subject!r} tracked in {tracked} of {activity.events} frames")


def check_frozen(source: str, activity: SourceActivity) -> Finding | None:
    """Check that frames differ, since real measurements never repeat to the last bit.

    None with too few of them.
    """
    if activity.measured < _FROZEN_FRAMES:
        return None
    name = f"motion of {source}"
    if activity.changes <= 1:
        text = (
            f"{activity.measured} frames are equal to the last bit: old data are sent again "
            "and again"
        )
        return warn(
            name,
            text,
            "is playback of a take paused, or the mocap program in edit mode? Switch it to live",
        )
    return ok(name, f"{activity.changes} of {activity.measured} frames differ from the one before")


def check_up_axis(source: str, activity: SourceActivity, up_axis: str | None) -> Finding | None:
    """Check that a standing person is tallest along z; None without one."""
    if not activity.extent_m:
        return None
    name = f"up axis of {source}"
    who, (x, y, z) = next(iter(activity.extent_m.items()))
    problem = extent_problem((x, y, z))
    if not problem:
        return ok(name, f"{who!r} measures {x:.2f} x {y:.2f} x {z:.2f} m along x, y, z")
    return warn(name, f"{who!r} {problem}", axis_cure(source, up_axis))


def check_clock(source: str, activity: SourceActivity) -> Finding | None:
    """Check the fit of the source's clock; None while it sends nothing."""
    if not activity.events:
        return None
    name = f"time of {source}"
    line = activity.clock.line
    if line is None:
        cure = "let the firewall pass the protocol's echo; this source may have no stamps at all"
        return warn(name, "no usable stamps: arrival times stand in for capture times", cure)
    text = (
        f"{line.method}, within {line.uncertainty_ns / NS_PER_MS:.2f} ms after "
        f"{activity.seconds:.0f} s"
    )
    if line.uncertainty_ns > _UNSURE_NS:
        return warn(name, text, "a cable instead of Wi-Fi between mocap computer and bridge")
    return ok(name, text)
