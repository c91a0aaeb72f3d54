"""Another bridge's frames in this bridge's values: its world is the source's room."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from vil_adapters.sessions.plausible_range import within_reach
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
from vil_bridge.protocols.federation.messages import (
    ActorInfo,
    Description,
    FrameMessage,
    Records,
)

_TRACKED: Final = list(TrackingState).index(TrackingState.TRACKED)
_NORM_TOLERANCE: Final = 1e-3


class _Binding(NamedTuple):
    """Meaning of a frame's records, valid for one sequence of actors and numbers of bones.

    Attributes:
        rows: of the rigid actors, then of all bones; the actors' records before the bones'.
        rigid: number of those actors. skeletons: models and the places of their bones within the
            rows.
    """

    key: bytes
    rows: slice | npt.NDArray[np.intp]
    subjects: tuple[str, ...]
    rigid: int
    skeletons: tuple[tuple[SkeletonModel, slice], ...]


class FederationConverter:
    """Converter of frames that follow one description.

    Attributes:
        description: the one that frames follow.
        untrusted: poses so far that were sent as tracked and are invalid (not finite, or no
            rotation).
    """

    def __init__(self, source: str, description: Description) -> None:
        self.description = description
        self.untrusted = 0
        self._source = source
        self._models = [_model_of(actor) for actor in description.actors]
        self._humans = [a.kind is ActorKind.HUMAN for a in description.actors]
        self._binding = _Binding(b"", slice(0), (), 0, ())

    # Any bits may arrive; invalid poses are marked below.
    @np.errstate(invalid="ignore", over="ignore")
    def frame(self, frame: FrameMessage, t_arrival_ns: int) -> SourceFrame:
        """Return the frame with actors as subjects.

        Those that the other bridge tracks itself are tracked.

        Raises:
            ProtocolError: it does not fit the description.
        """
        binding = self._bind(frame)
        records = np.concatenate((frame.actors, frame.bones)) if len(frame.bones) else frame.actors
        p_m, q_xyzw, tracked = self._poses(records[binding.rows])
        rigid = binding.rigid
        return SourceFrame(
            self._source,
            frame.sequence,
            frame.t_capture_ns,
            t_arrival_ns,
            binding.subjects,
            p_m[:rigid],
            q_xyzw[:rigid],
            tracked[:rigid],
            tuple(
                [
                    SkeletonFrame(model, p_m[rows], q_xyzw[rows], tracked[rows])
                    for model, rows in binding.skeletons
                ]
            ),
            latency_ns=max(0, frame.t_sent_ns - frame.t_capture_ns),
        )

    def _bind(self, frame: FrameMessage) -> _Binding:
        """Return the meaning of the frame's records.

        The last one is cached, since actors seldom change.
        """
        actors = frame.actors["actor"]
        bones = frame.actors["bones"]
        key = actors.tobytes() + bones.tobytes()
        if key == self._binding.key:
            return self._binding
        if (actors >= len(self._models)).any():
            raise ProtocolError("a frame with an actor that the description does not have")
        rigid = [row for row, actor in enumerate(actors.tolist()) if not self._humans[actor]]
        skeletons: list[tuple[SkeletonModel, slice]] = []
        start = len(rigid)
        for actor, count in zip(actors.tolist(), bones.tolist(), strict=True):
            model = self._models[actor]
            if count and (model is None or len(model.bones) != count):
                raise ProtocolError(
                    f"{count} bones of an actor whose skeleton is described otherwise"
                )
            if count and model is not None:
                skeletons.append((model, slice(start, start + count)))
            start += count
        rows = [*rigid, *range(len(actors), len(actors) + len(frame.bones))]
        every: slice | npt.NDArray[np.intp]
        if rows == list(range(len(rows))):
            every = slice(len(rows))
        else:
            every = np.array(rows, dtype=np.intp)
        subjects = tuple(self.description.actors[actor].name for actor in actors[rigid].tolist())
        self._binding = _Binding(key, every, subjects, len(rigid), tuple(skeletons))
        return self._binding

    def _poses(self, records: Records) -> tuple[FloatArray, FloatArray, BoolArray]:
        p_m = np.ascontiguousarray(records["p_m"])
        q_xyzw = np.ascontiguousarray(records["q_xyzw"])
        claimed = records["state"] == _TRACKED
        sound = within_reach(p_m) & (np.abs((q_xyzw * q_xyzw).sum(axis=1) - 1.0) < _NORM_TOLERANCE)
        if not sound.all():
            self.untrusted += int((claimed & ~sound).sum())
            p_m[~sound] = 0.0
            q_xyzw[~sound] = (0.0, 0.0, 0.0, 1.0)
        return p_m, q_xyzw, claimed & sound


def _model_of(actor: ActorInfo) -> SkeletonModel | None:
    skeleton = actor.skeleton
    if skeleton is None:
        return None
    return SkeletonModel(
        actor.name, skeleton.bones, skeleton.parents, skeleton.offsets_m, skeleton.scale
    )
