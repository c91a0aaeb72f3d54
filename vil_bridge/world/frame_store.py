"""A source's frames into the tracks of its bodies and skeletons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from vil_bridge.core.types import SourceFrame
from vil_bridge.world.frame_binding import Binding
from vil_bridge.world.skeleton_tracks import SkeletonTrack
from vil_bridge.world.tracks import TrackBank

_BankT = TypeVar("_BankT", bound=TrackBank)
_TrackT = TypeVar("_TrackT", bound=SkeletonTrack)


class FrameStore(Generic[_BankT, _TrackT]):
    """The tracks that frames feed; the owner guards them with a lock.

    Args:
        bank: tracks of the rigid bodies.
        skeletons: tracks by source and subject.
    """

    def __init__(self, bank: _BankT, skeletons: Mapping[tuple[str, str], _TrackT]) -> None:
        self._bank = bank
        self._skeletons = skeletons

    def add(self, frame: SourceFrame, binding: Binding, t_ns: int) -> bool:
        """Store a frame captured at ``t_ns``; True when a body was lost or found."""
        changed = binding.count > 0 and self._bank.store(frame, binding, t_ns)
        for skeleton in frame.skeletons:
            track = self._skeletons.get((frame.source, skeleton.model.name))
            if track is not None:
                track.append(t_ns, frame.t_arrival_ns, skeleton, binding.room)
        return changed
