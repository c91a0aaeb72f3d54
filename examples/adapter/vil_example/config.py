"""Configuration of the source and of its emulator."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_adapters.sessions.server_config import MocapServerConfig
from vil_bridge.config.address import Ipv4
from vil_bridge.config.base import StrictModel

__all__ = ["ExampleConfig", "ExampleEmulatorConfig"]


class ExampleConfig(MocapServerConfig):
    """Receive rigid bodies as JSON over UDP."""  # TODO: name the system.

    # TODO: one key for each thing that the stream does not contain: up axis, unit, ...
    type: Literal["example"] = "example"
    port: int = Field(
        default=50100, ge=1, le=65535, description="UDP port here that the server sends to."
    )


class ExampleEmulatorConfig(StrictModel):
    """Emulated server."""

    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address to send from.")
    target: Ipv4 = Field(default="127.0.0.1", description="IPv4 address that the datagrams go to.")
    port: int = Field(
        default=50100, ge=0, le=65535, description="UDP port they go to; 0 = one that is free now."
    )
    rate_hz: float = Field(default=100.0, gt=0.0, le=2000.0, description="Frames per second.")
