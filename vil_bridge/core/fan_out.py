"""One camera's pictures to several sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vil_bridge.core.ports import FrameSink
from vil_bridge.core.types import ImageArray

__all__ = ["FanOut"]


class FanOut:
    """A :class:`~vil_bridge.core.ports.FrameSink` that hands each picture to those that want its kind."""

    def __init__(self, sinks: Sequence[FrameSink]) -> None:
        self._sinks = tuple(sinks)

    def wanted(self, modality: str, variant: str) -> bool:
        """Whether anybody wants this kind."""
        return any(sink.wanted(modality, variant) for sink in self._sinks)

    def offer(self, header: dict[str, Any], pixels: ImageArray) -> None:
        """Hand a picture over."""
        for sink in self._sinks:
            if sink.wanted(header["modality"], header["variant"]):
                sink.offer(header, pixels)

    def flush(self) -> None:
        """Let all send what became possible."""
        for sink in self._sinks:
            sink.flush()

    def close(self) -> None:
        """Close all."""
        for sink in self._sinks:
            sink.close()
