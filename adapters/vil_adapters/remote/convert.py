"""Another bridge's frames in this bridge's values: its world is the source's room."""

from __future__ import annotations

from typing import Final

import numpy as np

from vil_adapters.common.plausible_range import within_reach
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import (
    ActorKind,
    BoolArray,
    FloatArray,
    SkeletonFrame,
    SkeletonModel,
    SourceFrame,
    TrackingState,
)
from vil_bridge.protocols.federation.messages import Description, FrameMessage, Records

_TRACKED: Final = list(TrackingState).index(TrackingState.TRACKED)
_NORM_TOLERANCE: Final = 1e-3


class FederationConverter:
    """Converter of frames that follow one description.

    Attributes:
        description: the one that frames follow.
        untrusted: poses so far that were sent as tracked and are invalid (not finite, or no rotation).
    """

    def __init__(self, source: str, description: Description) -> None:
        self.description = description
        self.untrusted = 0
        self._source = source
        self._models: list[SkeletonModel | None] = [
            None
            if a.skeleton is None
            else SkeletonModel(a.name, a.skeleton.bones, a.skeleton.parents, a.skeleton.offsets_m, a.skeleton.scale)
            for a in description.actors
        ]
        self._humans = np.array([a.kind is ActorKind.HUMAN for a in description.actors], dtype=np.bool_)
        self._subjects: dict[bytes, tuple[str, ...]] = {}

    @np.errstate(invalid="ignore", over="ignore")  # any bits may arrive; invalid poses are marked below
    def frame(self, frame: FrameMessage, t_arrival_ns: int) -> SourceFrame:
        """Return the frame with actors as subjects; those that the other bridge tracks itself are tracked.

        Raises:
            ProtocolError: it does not fit the description.
        """
        if (frame.actors["actor"] >= len(self._models)).any():
            raise ProtocolError("a frame with an actor that the description does not have")
        human = self._humans[frame.actors["actor"]]
        rigid = frame.actors[~human]
        p_m, q_xyzw, tracked = self._poses(rigid)
        return SourceFrame(
            self._source,
            frame.sequence,
            frame.t_capture_ns,
            t_arrival_ns,
            self._names(rigid["actor"].astype("<u2")),
            p_m,
            q_xyzw,
            tracked,
            tuple(self._skeletons(frame)),
            latency_ns=max(0, frame.t_sent_ns - frame.t_capture_ns),
        )

    def _poses(self, records: Records) -> tuple[FloatArray, FloatArray, BoolArray]:
        p_m, q_xyzw = np.ascontiguousarray(records["p_m"]), np.ascontiguousarray(records["q_xyzw"])
        claimed = records["state"] == _TRACKED
        sound = within_reach(p_m) & (np.abs((q_xyzw * q_xyzw).sum(axis=1) - 1.0) < _NORM_TOLERANCE)
        if not sound.all():
            self.untrusted += int((claimed & ~sound).sum())
            p_m[~sound], q_xyzw[~sound] = 0.0, (0.0, 0.0, 0.0, 1.0)
        return p_m, q_xyzw, claimed & sound

    def _names(self, indices: np.ndarray[tuple[int, ...], np.dtype[np.uint16]]) -> tuple[str, ...]:
        """Return the same tuple for the same actors, so that the world binds them once."""
        key = indices.tobytes()
        if key not in self._subjects:
            self._subjects[key] = tuple(self.description.actors[i].name for i in indices.tolist())
        return self._subjects[key]

    def _skeletons(self, frame: FrameMessage) -> list[SkeletonFrame]:
        skeletons = []
        start = 0
        for index, count in zip(frame.actors["actor"].tolist(), frame.actors["bones"].tolist(), strict=True):
            bones, start = frame.bones[start : start + count], start + count
            model = self._models[index]
            if count and (model is None or len(model.bones) != count):
                raise ProtocolError(f"{count} bones of an actor whose skeleton is described otherwise")
            if count and model is not None:
                skeletons.append(SkeletonFrame(model, *self._poses(bones)))
        return skeletons
