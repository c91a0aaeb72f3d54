"""Actors that their sources stream otherwise than configured.

By another name or kind, or with a wrong up axis.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from vil_bridge.bodies.posture import axis_cure, body_problem, skeleton_problem
from vil_bridge.bodies.skeleton import is_human
from vil_bridge.config.references import similar
from vil_bridge.config.root import ActorConfig
from vil_bridge.core.clock import NS_PER_S, machine_ns, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceEvent, SourceFrame, SourceReset
from vil_bridge.monitoring.state_changes import TransitionLog
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_PATIENCE_NS: Final = 2 * NS_PER_S
_MOST_NAMES: Final = 1000
NOT_HUMAN: Final = (
    "its skeleton is not recognised as human: it wants hips with two legs, a spine with "
    "two arms and a head."
    " It is drawn as bones; see docs/guides/humans.md"
)


class _Problem(NamedTuple):
    """A kind of problem, logged once, and its text, which may hold live numbers.

    Both empty = no problem.
    """

    kind: str = ""
    text: str = ""


def subject_problem(actor: ActorConfig, bodies: Iterable[str], skeletons: Iterable[str]) -> str:
    """Return why an actor's subject is not among these bodies and skeletons, empty when it is."""
    human = actor.kind is ActorKind.HUMAN
    right, wrong = (skeletons, bodies) if human else (bodies, skeletons)
    names = dict.fromkeys(right)
    others = dict.fromkeys(wrong)
    if actor.subject in names:
        return ""
    if actor.subject in others and human:
        return f"{actor.subject!r} is a rigid body, and `kind: human` wants a skeleton"
    if actor.subject in others:
        return f"{actor.subject!r} is a skeleton, which only `kind: human` can be"
    known = names | others
    has = ", ".join(map(repr, known)) or "nothing"
    return f"config wants {actor.subject!r}; stream has {has}{similar(actor.subject, known)}"


class SubjectCheck:
    """Comparison of the subjects that sources stream with those that actors need.

    Attributes:
        problems: actor to what is wrong, as of the last check.
    """

    def __init__(
        self, actors: Mapping[str, ActorConfig], up_axes: Mapping[str, str] | None = None
    ) -> None:
        """Watch the actors.

        ``up_axes`` holds the configured up axis of each source that has one.
        """
        self.problems: dict[str, str] = {}
        self._actors = dict(actors)
        self._up_axes = dict(up_axes or {})
        self._log = TransitionLog(logger, map(_logged, actors), "")
        self._tilted_ns: dict[str, int] = {}
        self._begun_ns: dict[str, int] = {}
        self._newest_ns: dict[str, int] = {}
        self._bodies: dict[str, dict[str, None]] = {}
        self._skeletons: dict[str, dict[str, None]] = {}
        # The newest frame that holds an actor's subject: a server may send each subject in a frame
        # of its own.
        self._frames: dict[tuple[str, bool], dict[str, SourceFrame | None]] = {}
        for actor in actors.values():
            self._frames.setdefault(_stream(actor), {})[actor.subject] = None

    def record(self, event: SourceEvent) -> None:
        """Record the subjects of an event.

        They are dropped when all of their source starts over.
        """
        if isinstance(event, SourceReset):
            if event.subjects:
                return
            for recorded in (self._begun_ns, self._newest_ns, self._bodies, self._skeletons):
                recorded.pop(event.source, None)
        elif isinstance(event, SourceFrame):
            if event.source not in self._begun_ns:
                self._begun_ns[event.source] = event.t_arrival_ns
                self._bodies[event.source] = {}
                self._skeletons[event.source] = {}
            self._newest_ns[event.source] = event.t_arrival_ns
            skeletons = tuple(s.model.name for s in event.skeletons)
            for known, names, human in (
                (self._bodies, event.subjects, False),
                (self._skeletons, skeletons, True),
            ):
                _add(known[event.source], names)
                frames = self._frames.get((event.source, human), {})
                frames.update(dict.fromkeys(frames.keys() & names, event))

    def check(self, statuses: Mapping[str, Status]) -> None:
        """Judge again.

        Log each kind of problem once until it is gone; a restart of the source does not end it.

        Args:
            statuses: of the sources, whose facts list the subjects that are described and not seen
                yet.
        """
        found = {
            name: self._judge(name, actor, statuses[actor.source].facts)
            for name, actor in self._actors.items()
            if actor.source in self._begun_ns
        }
        self.problems = {name: problem.text for name, problem in found.items() if problem.text}
        for name, (kind, text) in found.items():
            level = logging.WARNING if text else logging.INFO
            self._log.update(
                _logged(name), kind, text or "no problem with its subject now", level, machine_ns()
            )

    def _judge(self, name: str, actor: ActorConfig, facts: Mapping[str, Any]) -> _Problem:
        # Some servers list their subjects one by one; a pose can be judged at once, in a short loop
        # of a file too.
        if now_ns() - self._begun_ns[actor.source] < _PATIENCE_NS:
            return self._misshapen(name, actor)
        bodies = (*self._bodies[actor.source], *facts.get("subjects", ()))
        skeletons = (*self._skeletons[actor.source], *facts.get("skeletons", ()))
        if text := subject_problem(actor, bodies, skeletons):
            return _Problem("subject", text)
        return self._misshapen(name, actor)

    def _misshapen(self, name: str, actor: ActorConfig) -> _Problem:
        """Say what is wrong with an actor's newest pose, unless nothing is, or not for long
        enough.
        """
        frame = self._frames[_stream(actor)][actor.subject]
        problem = ""
        if frame is not None and self._newest_ns[actor.source] - frame.t_arrival_ns < _PATIENCE_NS:
            human = actor.kind is ActorKind.HUMAN
            names = [s.model.name for s in frame.skeletons] if human else frame.subjects
            if (count := names.count(actor.subject)) > 1:
                text = (
                    f"{count} in the stream are named {actor.subject!r}: the first is used. "
                    "Rename the others"
                )
                return _Problem("shared name", text)
            if human:
                skeleton = frame.skeletons[names.index(actor.subject)]
                if not is_human(skeleton.model):
                    return _Problem("skeleton", NOT_HUMAN)
                problem = skeleton_problem(skeleton) if skeleton.tracked.all() else ""
            else:
                problem = self._body_problem(actor, frame)
        if frame is None or not problem:
            self._tilted_ns.pop(name, None)
            return _Problem()
        since_ns = self._tilted_ns.setdefault(name, frame.t_arrival_ns)
        if frame.t_arrival_ns - since_ns < _PATIENCE_NS:
            return _Problem()
        return _Problem(
            "posture", f"{problem}. {axis_cure(actor.source, self._up_axes.get(actor.source))}"
        )

    def _body_problem(self, actor: ActorConfig, frame: SourceFrame) -> str:
        """Judge vehicles of sources with an up axis only.

        What rolls over in a simulation does so rightly.
        """
        if actor.kind is not ActorKind.VEHICLE or actor.source not in self._up_axes:
            return ""
        row = frame.subjects.index(actor.subject)
        if not frame.tracked[row]:
            return ""
        T_room_body = (
            Transform(frame.p_m[row], frame.q_xyzw[row])
            @ actor.T_body_markers.transform().inverse()
        )
        return body_problem(T_room_body)


def _logged(actor: str) -> str:
    return f"actor {actor}"


def _stream(actor: ActorConfig) -> tuple[str, bool]:
    """Return the source of an actor, and True where its subject is a skeleton."""
    return actor.source, actor.kind is ActorKind.HUMAN


def _add(known: dict[str, None], names: Iterable[str]) -> None:
    if len(known) < _MOST_NAMES:
        known.update(dict.fromkeys(names))
