"""One camera's pictures to several sinks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.ports import FrameSink
from vil_bridge.core.types import ImageArray

__all__ = ["FanOut"]


class FanOut:
    """A :class:`~vil_bridge.core.ports.FrameSink` that hands each picture to those that want its kind.

    Sinks come and go while pictures flow, from any thread: one that was removed is not called any more.
    """

    def __init__(self, sinks: Sequence[FrameSink]) -> None:
        self._sinks = tuple(sinks)
        self._lock = threading.RLock()

    def add(self, sink: FrameSink) -> None:
        """From its next picture on."""
        with self._lock:
            self._sinks = (*self._sinks, sink)

    def remove(self, sink: FrameSink) -> None:
        """Closing it is left to the caller."""
        with self._lock:
            self._sinks = tuple(s for s in self._sinks if s is not sink)

    def wanted(self, modality: str, variant: str) -> bool:
        """Whether anybody wants this kind."""
        return any(sink.wanted(modality, variant) for sink in self._sinks)

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Hand a picture over."""
        with self._lock:
            for sink in self._sinks:
                if sink.wanted(*header.kind):
                    sink.offer(header, pixels)

    def flush(self) -> None:
        """Let all send what became possible."""
        with self._lock:
            for sink in self._sinks:
                sink.flush()

    def close(self) -> None:
        """Close all."""
        with self._lock:
            for sink in self._sinks:
                sink.close()
