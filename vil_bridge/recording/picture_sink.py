"""Sink that hands a camera's pictures to a recorder."""

from __future__ import annotations

from collections.abc import Collection

from vil_bridge.core.clock import now_ns
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray
from vil_bridge.recording.recorder import Recorder
from vil_bridge.recording.write_queue import WaitingPicture

__all__ = ["RecordSink"]


class RecordSink:
    """Sink for one camera (implements ``FrameSink``); the recorder's thread encodes.

    Args:
        recorder: that writes them.
        camera: whose pictures these are.
        kinds: modality and variant of those to record.
    """

    def __init__(self, recorder: Recorder, camera: str, kinds: Collection[tuple[str, str]]) -> None:
        self._recorder = recorder
        self._camera = camera
        self._kinds = frozenset(kinds)

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True when this kind is recorded now."""
        return (modality, variant) in self._kinds and self._recorder.open

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Add a picture to the recorder's queue."""
        self._recorder.queue.enqueue_picture(WaitingPicture(self._camera, header, pixels, now_ns()))

    def flush(self) -> None:
        """Do nothing: no picture waits for the relay."""

    def close(self) -> None:
        """Do nothing: the recorder ends by itself."""
