"""Configuration of aids to find faults."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from vil_bridge.config.base import StrictModel

__all__ = ["DebugConfig"]


class DebugConfig(StrictModel):
    """Data stored for the later analysis of a problem."""

    packet_capture: Path | None = Field(
        default=None,
        description="Folder for captures (pcap) of the datagrams of sources over UDP, at most 1 GiB each; none = none.",
    )
