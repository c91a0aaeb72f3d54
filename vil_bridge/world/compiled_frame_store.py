"""Frames in a block into all of their tracks in one call of the compiled kernel.

``kernel/frame_store.c``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Final

import numpy as np

from vil_bridge.core.block_frame import BlockFrame, BlockLayout
from vil_bridge.core.types import SourceFrame
from vil_bridge.kernel.library import function
from vil_bridge.kernel.structs import VilFrameStore
from vil_bridge.world.compiled_skeleton import CompiledSkeletonTrack
from vil_bridge.world.compiled_tracks import CompiledTrackBank, FrameArrays
from vil_bridge.world.frame_binding import Binding
from vil_bridge.world.frame_store import FrameStore

_SKELETONS_REFUSED: Final = 8


class _Feeds:
    """Tracks that frames of one layout feed; the struct :class:`VilFrameStore`.

    Args:
        tracks: of the skeletons in the layout, None for those that no actor is.
    """

    def __init__(
        self,
        layout: BlockLayout,
        binding: Binding,
        bank: CompiledTrackBank,
        arrays: FrameArrays,
        tracks: list[CompiledSkeletonTrack | None],
    ) -> None:
        self._layout = layout
        self._binding = binding
        found = list(zip(layout.skeletons, tracks, strict=True))
        self.numbers = [number for number, (_, track) in enumerate(found) if track is not None]
        self.tracks = [
            (track, track.use(model)) for (model, _), track in found if track is not None
        ]
        self.refused = np.zeros(len(self.tracks), dtype=np.uint8)
        addresses = np.array([struct.address for _, struct in self.tracks], dtype=np.uint64)
        firsts = np.array([layout.skeletons[number][1] for number in self.numbers], dtype=np.int64)
        bank_struct, filter_struct = bank.structs
        self._struct = VilFrameStore(
            rows=layout.rows,
            skeletons=len(self.tracks),
            bank=bank_struct,
            filter=filter_struct,
            bodies=arrays.struct,
            tracks=addresses,
            first_rows=firsts,
            refused=self.refused,
        )
        self.pointer = self._struct.pointer

    def fit(self, layout: BlockLayout, binding: Binding) -> bool:
        """Return whether frames of a layout feed these tracks still."""
        same = self._layout is layout and self._binding is binding
        return same and all(track.struct is struct for track, struct in self.tracks)


class CompiledFrameStore(FrameStore[CompiledTrackBank, CompiledSkeletonTrack]):
    """A store that leaves blocks to the kernel; what that refuses, each track judges."""

    def __init__(
        self, bank: CompiledTrackBank, skeletons: Mapping[tuple[str, str], CompiledSkeletonTrack]
    ) -> None:
        super().__init__(bank, skeletons)
        self._feeds: dict[str, _Feeds] = {}
        self._add = function(
            *(
                "vil_frame_store_add",
                ctypes.c_void_p,
                ctypes.c_char_p,
                ctypes.c_int64,
                ctypes.c_int64,
            ),
            returns=ctypes.c_int64,
        )

    def add(self, frame: SourceFrame, binding: Binding, t_ns: int) -> bool:
        """Store a frame captured at ``t_ns``; True when a body was lost or found."""
        if not isinstance(frame, BlockFrame) or frame.block is None or self._bank.suspects:
            return super().add(frame, binding, t_ns)
        feeds = self._feeds.get(frame.source)
        if feeds is None or not feeds.fit(frame.layout, binding):
            tracks = [
                self._skeletons.get((frame.source, model.name))
                for model, _ in frame.layout.skeletons
            ]
            arrays = self._bank.frame_arrays(frame.source, binding)
            feeds = self._feeds[frame.source] = _Feeds(
                frame.layout, binding, self._bank, arrays, tracks
            )
        found = self._add(feeds.pointer, frame.block, t_ns, frame.t_arrival_ns)
        if found & _SKELETONS_REFUSED:
            for place in np.flatnonzero(feeds.refused).tolist():
                track = feeds.tracks[place][0]
                tracked = frame.skeletons[feeds.numbers[place]].tracked
                track.judge(t_ns, frame.t_arrival_ns, tracked)
        return self._bank.account(found, frame, binding, t_ns)
