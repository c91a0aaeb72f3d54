"""Table of known trackers: which are tracked, and when their poses make a frame.

VRPN sends bodies one by one and never marks one as lost: the server stops sending it, repeats its
last pose or sends zeros. So a body counts as lost when others continue for three of its periods (or
it alone falls silent), when more than five poses in a row are exactly the same, and when its pose
is exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import numpy as np

from vil_adapters.vrpn.convert import VrpnFrame, usable
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S
from vil_bridge.core.types import SourceFrame
from vil_bridge.protocols.vrpn.codec import TrackerPose

_LOST_PERIODS: Final = 3
_REPEATS: Final = 5
_SILENT_NS: Final = 100 * NS_PER_MS
"""The least silence that makes a lone body lost: what the network may hold back."""
_PERIOD_SHARE: Final = 0.1
_LONGEST_GAP: Final = 4.0
_JUMP_NS: Final = 1 * NS_PER_S
UNKNOWN: Final = -1
MAX_SUBJECTS: Final = 4096
_NOWHERE: Final = TrackerPose(0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))


class PoseVerdict(Enum):
    """Result of judging a pose."""

    ACCEPTED = auto()
    DUPLICATE = auto()
    UNUSABLE = auto()
    CLOCK_JUMPED = auto()
    IMPLAUSIBLE_STAMP = auto()
    TOO_MANY = auto()


@dataclass(slots=True)
class _Tracker:
    """State of one body; times of the server's clock except ``t_arrival_ns``.

    ``shown`` is always usable.
    """

    pose: TrackerPose
    shown: TrackerPose
    t_ns: int
    t_arrival_ns: int
    tracked: bool
    repeats: int = 0
    period_ns: float = 0.0
    messages: int = 0


@dataclass(slots=True)
class _Group:
    """Poses of one server stamp that wait together."""

    t_ns: int
    t_arrival_ns: int
    poses: dict[str, tuple[TrackerPose, bool]] = field(default_factory=dict)


class TrackerTable:
    """Table that judges poses and groups them into frames.

    Args:
        source: name of the source.
        frame: units and axes of the server.
        repeats_mean_lost: a body that repeats its pose is lost; False = it rests.

    Attributes:
        superseded: frames that a newer one of the same bodies overtook before they were emitted.
        repeated: poses of bodies that count as lost because they repeat.
    """

    def __init__(self, source: str, frame: VrpnFrame, *, repeats_mean_lost: bool = True) -> None:
        self.superseded = self.repeated = 0
        self._repeats_mean_lost = repeats_mean_lost
        self._source = source
        self._frame = frame
        self._trackers: dict[str, _Tracker] = {}
        self._groups: list[_Group] = []
        self._number = 0
        self._subjects: tuple[str, ...] = ()
        self._suspect_ns: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the bodies seen so far."""
        return tuple(self._trackers)

    def restart(self, *, clock: bool) -> None:
        """Mark all bodies as lost until they come again.

        Their stamps are void when the clock is another one.
        """
        self._groups.clear()
        self._suspect_ns = None
        for tracker in self._trackers.values():
            tracker.tracked = False
            tracker.repeats = 0
            if clock:
                tracker.t_ns = UNKNOWN

    def counts(self) -> dict[str, int]:
        """Return the number of poses of each body since the call before."""
        counts = {name: tracker.messages for name, tracker in self._trackers.items()}
        for tracker in self._trackers.values():
            tracker.messages = 0
        return counts

    def judge(self, name: str, pose: TrackerPose, t_ns: int, t_arrival_ns: int) -> PoseVerdict:
        """Judge one pose.

        All but ``ACCEPTED`` and ``UNUSABLE`` leave no trace in the next frames.
        """
        before = self._trackers.get(name)
        if before is None and len(self._trackers) >= MAX_SUBJECTS:
            return PoseVerdict.TOO_MANY
        if before is not None and before.t_ns != UNKNOWN:
            if t_ns == before.t_ns:
                return PoseVerdict.DUPLICATE
            if not self._plausible(before, t_ns, t_arrival_ns):
                return PoseVerdict.IMPLAUSIBLE_STAMP
            if (
                t_ns < before.t_ns
                or t_ns - before.t_ns - (t_arrival_ns - before.t_arrival_ns) > _JUMP_NS
            ):
                return PoseVerdict.CLOCK_JUMPED
        zero = not any(pose.p) and not any(pose.q_xyzw[:3])
        good = usable(pose, self._frame.scale_m)
        tracker = _follow(before, pose, t_ns, t_arrival_ns)
        stale = self._repeats_mean_lost and tracker.repeats > _REPEATS
        self.repeated += stale
        tracker.tracked = good and not zero and not stale
        if tracker.tracked:
            tracker.shown = pose
        self._trackers[name] = tracker
        self._group(t_ns, t_arrival_ns).poses[name] = tracker.shown, tracker.tracked
        return PoseVerdict.ACCEPTED if good or zero else PoseVerdict.UNUSABLE

    def frames(self) -> list[SourceFrame]:
        """Return the frames since the call before, oldest first, without those that newer poses
        replace.
        """
        groups = self._groups
        self._groups = []
        newest: list[_Group] = []
        covered: set[str] = set()
        for group in reversed(groups):
            if group.poses.keys() <= covered:
                self.superseded += 1
            else:
                covered |= group.poses.keys()
                newest.append(group)
        return [self._frame_of(group) for group in reversed(newest)]

    def silent(self, t_now_ns: int) -> SourceFrame | None:
        """Return a frame without a tracked body when the last one has just fallen silent."""
        newly_lost = False
        for tracker in self._trackers.values():
            limit_ns = max(_SILENT_NS, _LOST_PERIODS * tracker.period_ns)
            if tracker.tracked and t_now_ns - tracker.t_arrival_ns > limit_ns:
                tracker.tracked = False
                newly_lost = True
        return self._make(None, t_now_ns, {}) if newly_lost else None

    def _plausible(self, before: _Tracker, t_ns: int, t_arrival_ns: int) -> bool:
        """Return whether the stamp continued as the arrivals did, or a second one confirms it.

        One may be garbage.
        """
        if abs(t_ns - before.t_ns - (t_arrival_ns - before.t_arrival_ns)) <= _JUMP_NS:
            self._suspect_ns = None
            return True
        suspect_ns = self._suspect_ns
        self._suspect_ns = t_ns - t_arrival_ns
        return suspect_ns is not None and abs(self._suspect_ns - suspect_ns) <= _JUMP_NS

    def _group(self, t_ns: int, t_arrival_ns: int) -> _Group:
        if not self._groups or self._groups[-1].t_ns != t_ns:
            self._groups.append(_Group(t_ns, t_arrival_ns))
        return self._groups[-1]

    def _frame_of(self, group: _Group) -> SourceFrame:
        for tracker in self._trackers.values():
            if tracker.period_ns and group.t_ns - tracker.t_ns > _LOST_PERIODS * tracker.period_ns:
                tracker.tracked = False
        return self._make(group.t_ns, group.t_arrival_ns, group.poses)

    def _make(
        self, t_ns: int | None, t_arrival_ns: int, poses: dict[str, tuple[TrackerPose, bool]]
    ) -> SourceFrame:
        """Return a frame with the poses of the group and the lost bodies.

        Other bodies come with their own frame.
        """
        rows = [
            (name, *poses.get(name, (tracker.shown, False)))
            for name, tracker in self._trackers.items()
            if name in poses or not tracker.tracked
        ]
        subjects = tuple(name for name, _, _ in rows)
        if subjects != self._subjects:
            self._subjects = subjects
        p_m, q_xyzw = self._frame.to_room(
            np.array([pose.p for _, pose, _ in rows]).reshape(-1, 3),
            np.array([pose.q_xyzw for _, pose, _ in rows]).reshape(-1, 4),
        )
        tracked = np.array([ok for _, _, ok in rows], dtype=np.bool_)
        self._number += 1
        return SourceFrame(
            self._source, self._number, t_ns, t_arrival_ns, self._subjects, p_m, q_xyzw, tracked
        )


def _follow(before: _Tracker | None, pose: TrackerPose, t_ns: int, t_arrival_ns: int) -> _Tracker:
    """Return the tracker after one more pose: how often it was the same, how long its period is."""
    tracker = _Tracker(pose, _NOWHERE, t_ns, t_arrival_ns, tracked=False, messages=1)
    if before is None:
        return tracker
    tracker.shown = before.shown
    tracker.period_ns = before.period_ns
    tracker.messages += before.messages
    tracker.repeats = before.repeats + 1 if pose == before.pose else 0
    if before.t_ns != UNKNOWN:
        gap_ns = float(t_ns - before.t_ns)
        if tracker.period_ns:
            gap_ns = min(gap_ns, _LONGEST_GAP * tracker.period_ns) - tracker.period_ns
            gap_ns *= _PERIOD_SHARE
        tracker.period_ns += gap_ns
    return tracker
