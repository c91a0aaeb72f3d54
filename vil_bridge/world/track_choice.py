"""Tracks and clocks: in the compiled kernel where it is there, else in numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from vil_bridge.kernel.library import KERNEL
from vil_bridge.world.actors import TrackingLimits
from vil_bridge.world.clock_sync import ClockModel
from vil_bridge.world.compiled_clock import CompiledClock
from vil_bridge.world.compiled_frame_store import CompiledFrameStore
from vil_bridge.world.compiled_skeleton import CompiledSkeletonTrack
from vil_bridge.world.compiled_tracks import CompiledTrackBank
from vil_bridge.world.frame_store import FrameStore
from vil_bridge.world.skeleton_tracks import SkeletonTrack
from vil_bridge.world.tracks import TrackBank


def clock_model() -> ClockModel:
    """Return a foreign clock of which nothing is known."""
    return ClockModel() if KERNEL is None else CompiledClock()


def track_bank(limits: Sequence[TrackingLimits]) -> TrackBank:
    """Return tracks of as many bodies as there are limits."""
    return TrackBank(limits) if KERNEL is None else CompiledTrackBank(limits)


def skeleton_track(limits: TrackingLimits) -> SkeletonTrack:
    """Return the track of one skeleton."""
    return SkeletonTrack(limits) if KERNEL is None else CompiledSkeletonTrack(limits)


def frame_store(
    bank: TrackBank, skeletons: Mapping[tuple[str, str], SkeletonTrack]
) -> FrameStore[TrackBank, SkeletonTrack] | CompiledFrameStore:
    """Return a store of the tracks that the functions above made."""
    if isinstance(bank, CompiledTrackBank):
        return CompiledFrameStore(
            bank, cast("Mapping[tuple[str, str], CompiledSkeletonTrack]", skeletons)
        )
    return FrameStore(bank, skeletons)
