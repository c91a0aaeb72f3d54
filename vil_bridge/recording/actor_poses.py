"""Measured poses of actors in the shared world, directly from their sources' events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from vil_bridge.bodies.skeleton import place_of
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import SkeletonFrame, SourceFrame
from vil_bridge.recording.metadata import RecordedActor


class RecordedPose(NamedTuple):
    """An actor's measured pose; of a human its root bone, and the skeleton in the world."""

    actor: str
    T_world_body: Transform
    skeleton: SkeletonFrame | None


class Placing:
    """Placement of the subjects of a source's frames in the world."""

    def __init__(self, actors: Iterable[RecordedActor]) -> None:
        self._actors: dict[str, list[RecordedActor]] = {}
        self._T_markers_body: dict[str, Transform] = {}
        for actor in actors:
            self._actors.setdefault(actor.source, []).append(actor)
            self._T_markers_body[actor.name] = actor.T_body_markers.inverse()

    def placed(
        self, frame: SourceFrame, wanted: Callable[[str], bool] = lambda _actor: True
    ) -> Iterator[RecordedPose]:
        """Return the wanted actors that were tracked in this frame.

        Poses that are not finite are left out.
        """
        for actor in self._actors.get(frame.source, ()):
            if not wanted(actor.name):
                continue
            with np.errstate(all="ignore"):
                found = self._human(frame, actor) if actor.human else self._body(frame, actor)
            if found is not None and _finite(found.T_world_body):
                yield found

    def _body(self, frame: SourceFrame, actor: RecordedActor) -> RecordedPose | None:
        if actor.subject not in frame.subjects:
            return None
        i = frame.subjects.index(actor.subject)
        if not frame.tracked[i]:
            return None
        T_room_markers = Transform(frame.p_m[i], frame.q_xyzw[i])
        T_world_body = actor.T_world_room @ T_room_markers @ self._T_markers_body[actor.name]
        return RecordedPose(actor.name, T_world_body, None)

    def _human(self, frame: SourceFrame, actor: RecordedActor) -> RecordedPose | None:
        for skeleton in frame.skeletons:
            if skeleton.model.name == actor.subject and skeleton.tracked.any():
                moved = skeleton.moved(actor.T_world_room)
                return RecordedPose(actor.name, place_of(moved), moved)
        return None


def _finite(pose: Transform) -> bool:
    return bool(np.isfinite(pose.p_m).all() and np.isfinite(pose.q_xyzw).all())
