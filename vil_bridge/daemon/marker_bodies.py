"""Subjects known by their labelled markers alone (docs/guides/humans.md).

A template makes humans and bodies of the markers of any source, on their way to the world.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from vil_bridge.bodies.marker_tracking import MarkerTemplate, MarkerTracker, Segment
from vil_bridge.config.marker_template import read_template
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import (
    FloatArray,
    Markers,
    SkeletonFrame,
    SourceEvent,
    SourceFrame,
    SourceReset,
)
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_FIT_PERIOD_NS: Final = 50_000_000
_FIT_COUNTS: Final = (1, 8, 32)
"""A template is fitted to the first frame that shows all its markers, then to so many.

More make it no better.
"""

_PATIENCE_NS: Final = 3 * NS_PER_S
_FARTHEST_M: Final = 10_000.0


class MarkerBodies:
    """The subjects of one template in the frames of one source.

    Args:
        path: the template. status: of the source; gets the counters ``markers_followed``,
            ``markers_occluded`` and ``markers_assigned`` (unlabeled ones taken for hidden ones),
            and the fact ``template``.

    Raises:
        ConfigError: the template cannot be read.
    """

    def __init__(self, path: Path, status: Status) -> None:
        self._path = path
        self._status = status
        self._subjects = {
            name: _Subject(name, segments) for name, segments in read_template(path).items()
        }
        self._reported: dict[str, str] = {}

    def transformed(self, event: SourceEvent) -> SourceEvent:
        """Return an event of the source with the template's subjects in it.

        A reset makes them start over.
        """
        if isinstance(event, SourceFrame):
            return self.frame(event)
        if isinstance(event, SourceReset):
            for subject in self._subjects.values():
                subject.reset()
        return event

    def frame(self, frame: SourceFrame) -> SourceFrame:
        """Return the frame with the template's subjects, which replace the source's own of the
        same names.
        """
        markers = frame.markers
        if markers is None:
            self._report(
                "",
                "the frames carry no markers: set `markers` of the source, and stream them",
                warn=True,
            )
            return frame
        near = (np.abs(markers.p_m) < _FARTHEST_M).all(axis=1)  # False for what is not a number
        markers = replace(markers, tracked=markers.tracked & near)
        found = [
            self._follow(subject, markers, frame.t_arrival_ns)
            for subject in self._subjects.values()
        ]
        return _with_subjects(
            frame, self._subjects, [skeleton for skeleton in found if skeleton is not None]
        )

    def _follow(self, subject: _Subject, markers: Markers, t_ns: int) -> SkeletonFrame | None:
        found = subject.follow(markers, t_ns)
        self._report(subject.name, subject.trouble or subject.progress, warn=bool(subject.trouble))
        if found is not None:
            counters, (seen, assigned) = self._status.counters, subject.seen_and_assigned
            counters["markers_followed"] += seen - assigned
            counters["markers_assigned"] += assigned
            counters["markers_occluded"] += subject.marker_count - seen
        return found

    def _report(self, subject: str, text: str, *, warn: bool) -> None:
        """Say what became of a subject, of the template itself when empty, where that is new."""
        if self._reported.get(subject) == text:
            return
        self._reported[subject] = text
        if subject:
            self._reported.pop("", None)
        self._status.facts["template"] = [
            f"{name}: {said}" if name else said for name, said in self._reported.items()
        ]
        level = logging.WARNING if warn else logging.INFO
        logger.log(level, "%s: template %s: %s %s", self._status.name, self._path, subject, text)


def _with_subjects(
    frame: SourceFrame, names: Container[str], found: list[SkeletonFrame]
) -> SourceFrame:
    """Replace a frame's subjects of these names by the found ones.

    Those of one segment are bodies.
    """
    own = np.array([name not in names for name in frame.subjects], dtype=np.bool_)
    bodies = [skeleton for skeleton in found if len(skeleton.model.bones) == 1]
    others = (name for name, is_own in zip(frame.subjects, own.tolist(), strict=True) if is_own)
    return replace(
        frame,
        subjects=(*others, *(body.model.name for body in bodies)),
        p_m=np.concatenate((frame.p_m[own], *(body.p_m for body in bodies))),
        q_xyzw=np.concatenate((frame.q_xyzw[own], *(body.q_xyzw for body in bodies))),
        tracked=np.concatenate((frame.tracked[own], *(body.tracked for body in bodies))),
        skeletons=(
            *(skeleton for skeleton in frame.skeletons if skeleton.model.name not in names),
            *(skeleton for skeleton in found if len(skeleton.model.bones) > 1),
        ),
    )


class _Subject:
    """One subject: its labels are looked for, then its template is fitted, then it is followed.

    Attributes:
        trouble: why it cannot be followed, empty = it can.
        seen_and_assigned: markers measured in the newest frame, and how many of these had no label.
    """

    def __init__(self, name: str, segments: tuple[Segment, ...]) -> None:
        self.name = name
        self.trouble = ""
        self.seen_and_assigned = 0, 0
        self._segments = segments
        self._streamed: dict[str, str] = {}
        self._wanted = sorted({label for s in segments for label in (*s.markers, *s.origin)})
        self._labels: tuple[str, ...] = ()
        self._rows: list[FloatArray] = []
        self._next_row_ns = 0
        self._deadline_ns: int | None = None
        self._template: MarkerTemplate | None = None
        self._tracker: MarkerTracker | None = None

    @property
    def progress(self) -> str:
        """Return the progress while there is no trouble."""
        if self._tracker is None:
            return f"waits for a frame that shows all {len(self._wanted)} markers"
        return f"followed by {self.marker_count} markers"

    @property
    def marker_count(self) -> int:
        """Return the number of markers of its segments."""
        return sum(len(segment.markers) for segment in self._segments)

    def reset(self) -> None:
        """Drop the newest pose: the next one may be anywhere."""
        self._tracker = None if self._template is None else MarkerTracker(self._template)

    def follow(self, markers: Markers, t_ns: int) -> SkeletonFrame | None:
        """Return its segments now, None until it is known; ``t_ns`` paces the fit."""
        if len(self._streamed) < len(self._wanted) and not self._find_labels(markers.labels):
            return None
        if len(self._rows) < _FIT_COUNTS[-1] and t_ns >= self._next_row_ns:
            self._learn(markers, t_ns)
        if self._tracker is None:
            return None
        matched = self._tracker.matched
        found = self._tracker.follow(markers)
        self.seen_and_assigned = (
            int(np.count_nonzero(self._tracker.seen)),
            self._tracker.matched - matched,
        )
        return found

    def _find_labels(self, labels: tuple[str, ...]) -> bool:
        """Return True once all labels are known; a stream may write them without the subject."""
        if labels == self._labels:
            return False
        self._labels = labels
        known = set(labels)
        for label in self._wanted:
            name = next((n for n in (label, label.rpartition("/")[2]) if n in known), None)
            if name is not None:
                self._streamed[label] = name
        absent = [label for label in self._wanted if label not in self._streamed]
        if absent:
            there = ", ".join(sorted(filter(None, known))) or "no labelled ones"
            self.trouble = f"no markers {', '.join(absent)}; the stream has {there}"
            return False
        self.trouble = ""
        names = self._streamed
        named = []
        for segment in self._segments:
            markers = tuple(names[n] for n in segment.markers)
            origin = tuple(names[n] for n in segment.origin)
            named.append(replace(segment, markers=markers, origin=origin))
        self._segments = tuple(named)
        return True

    def _learn(self, markers: Markers, t_ns: int) -> None:
        """Fit to this frame as well if it shows all markers."""
        column = {label: i for i, label in enumerate(markers.labels) if markers.tracked[i]}
        names = [self._streamed[label] for label in self._wanted]
        if not column.keys() >= set(names):
            self._check_patience(len(column.keys() & set(names)), t_ns)
            return
        self._next_row_ns = t_ns + _FIT_PERIOD_NS
        self._rows.append(markers.p_m[[column[name] for name in names]])
        if len(self._rows) not in _FIT_COUNTS:
            return
        try:
            self._template = self._fitted(names)
        except ValueError as exc:
            self._rows.clear()
            self._template = None
            self.trouble = str(exc)
        else:
            self.trouble = ""
        self.reset()

    def _fitted(self, names: list[str]) -> MarkerTemplate:
        p_m = np.array(self._rows)
        if self._template is None:
            return MarkerTemplate.fit(
                self.name, self._segments, names, p_m, np.ones(p_m.shape[:2], dtype=np.bool_)
            )
        return self._template.refined(
            p_m[:, [names.index(label) for label in self._template.labels]]
        )

    def _check_patience(self, seen: int, t_ns: int) -> None:
        if self._template is not None or self.trouble:
            return
        if self._deadline_ns is None:
            self._deadline_ns = t_ns + _PATIENCE_NS
        elif t_ns > self._deadline_ns:
            self.trouble = (
                f"no frame has shown all {len(self._wanted)} markers at once ({seen} "
                "now): leave some out"
            )
