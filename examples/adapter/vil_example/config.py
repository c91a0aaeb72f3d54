"""Configuration of the source and of its emulator."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_bridge.config.address import Host, Ipv4
from vil_bridge.config.base import SourceConfigBase, StrictModel

__all__ = ["ExampleConfig", "ExampleEmulatorConfig"]


class ExampleConfig(SourceConfigBase):
    """Receive rigid bodies as JSON over UDP."""  # TODO: name the system.

    # TODO: one key for each thing that the stream does not contain: up axis, unit, ...
    type: Literal["example"] = "example"
    server: Host = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=253,
        description="Address or name of the computer that sends; datagrams of other senders are dropped.",
    )
    port: int = Field(default=50100, ge=1, le=65535, description="UDP port here that the server sends to.")
    subjects: tuple[str, ...] = Field(
        default=(), description="Bodies that must be there; a missing one is logged once."
    )


class ExampleEmulatorConfig(StrictModel):
    """Emulated server."""

    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address to send from.")
    target: Ipv4 = Field(default="127.0.0.1", description="IPv4 address that the datagrams go to.")
    port: int = Field(default=50100, ge=0, le=65535, description="UDP port they go to; 0 = one that is free now.")
    rate_hz: float = Field(default=100.0, gt=0.0, le=2000.0, description="Frames per second.")
