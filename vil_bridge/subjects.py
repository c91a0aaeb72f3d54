"""Actors whose sources stream nobody of that name or kind: a typing mistake that would look like silence."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from vil_bridge.config.references import similar
from vil_bridge.config.root import ActorConfig
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ActorKind, SourceEvent, SourceFrame, SourceReset

__all__ = ["SubjectWatch", "subject_problem"]

logger = logging.getLogger(__name__)

_PATIENCE_NS: Final = 2 * NS_PER_S
_MOST_NAMES: Final = 1000


def subject_problem(actor: ActorConfig, bodies: Iterable[str], skeletons: Iterable[str]) -> str:
    """Why an actor's subject cannot be among these bodies and skeletons, empty when it is."""
    human = actor.kind is ActorKind.HUMAN
    right, wrong = (skeletons, bodies) if human else (bodies, skeletons)
    names, others = dict.fromkeys(right), dict.fromkeys(wrong)
    if actor.subject in names:
        return ""
    if actor.subject in others:
        return (
            f"{actor.subject!r} is a rigid body, and `kind: human` wants a skeleton"
            if human
            else f"{actor.subject!r} is a skeleton, which only `kind: human` can be"
        )
    known = names | others
    has = ", ".join(map(repr, known)) or "nobody"
    return f"config wants {actor.subject!r}; stream has {has}{similar(actor.subject, known)}"


class SubjectWatch:
    """Compares what the sources stream with what the actors want.

    Attributes:
        problems: actor to what is wrong, as of the last look.
    """

    def __init__(self, actors: Mapping[str, ActorConfig]) -> None:
        self.problems: dict[str, str] = {}
        self._actors = dict(actors)
        self._begun_ns: dict[str, int] = {}
        self._bodies: dict[str, dict[str, None]] = {}
        self._skeletons: dict[str, dict[str, None]] = {}

    def take(self, event: SourceEvent) -> None:
        """Note whom an event is about; they are forgotten when their source starts over."""
        if isinstance(event, SourceReset):
            for known in (self._begun_ns, self._bodies, self._skeletons):
                known.pop(event.source, None)
        elif isinstance(event, SourceFrame):
            if event.source not in self._begun_ns:
                self._begun_ns[event.source] = event.t_arrival_ns
                self._bodies[event.source], self._skeletons[event.source] = {}, {}
            _note(self._bodies[event.source], event.subjects)
            _note(self._skeletons[event.source], [s.model.name for s in event.skeletons])

    def look(self, statuses: Mapping[str, Status]) -> None:
        """Judge again; what is new is logged.

        Args:
            statuses: of the sources, whose facts list the subjects that are described and not seen yet.
        """
        before, self.problems = self.problems, dict(self._found(statuses))
        for name, text in self.problems.items():
            if before.get(name) != text:
                logger.warning("actor %s: %s", name, text)

    def _found(self, statuses: Mapping[str, Status]) -> Iterable[tuple[str, str]]:
        t_ns = now_ns()
        for name, actor in self._actors.items():
            begun_ns = self._begun_ns.get(actor.source)
            if begun_ns is None or t_ns - begun_ns < _PATIENCE_NS:
                continue
            facts = statuses[actor.source].facts
            bodies = (*self._bodies[actor.source], *facts.get("subjects", ()))
            skeletons = (*self._skeletons[actor.source], *facts.get("skeletons", ()))
            problem = subject_problem(actor, bodies, skeletons)
            if problem:
                yield name, problem


def _note(known: dict[str, None], names: Iterable[str]) -> None:
    if len(known) < _MOST_NAMES:
        known.update(dict.fromkeys(names))
