"""Configuration of a transport to an autopilot: a serial line or UDP."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from vil_bridge.config.address import Host
from vil_bridge.config.base import Listening, StrictModel
from vil_bridge.config.bind_address import is_loopback


class TransportConfig(StrictModel):
    """The keys of a section that reaches an autopilot by MAVLink."""

    listens: ClassVar[tuple[Listening, ...]] = (Listening("port", "udp"),)

    device: str | None = Field(
        default=None,
        description="Path of a serial device, best one of /dev/serial/by-id; none = UDP.",
    )
    baud: int = Field(
        default=921600, ge=1200, le=12_000_000, description="Bits per second; USB ignores it."
    )
    peer: Host = Field(
        default="127.0.0.1",
        min_length=1,
        max_length=253,
        description="UDP: address or name of the vehicle's computer; datagrams of other senders "
        "are dropped.",
    )
    port: int = Field(
        default=14540,
        ge=0,
        le=65535,
        description="UDP: local port that the vehicle sends to; 0 = any free one.",
    )
    peer_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="UDP: port at which the vehicle listens; none = it sends first.",
    )

    @property
    def listens_at(self) -> str:
        """Local address of the port: that from which packets leave for the vehicle's computer."""
        return "127.0.0.1" if is_loopback(self.peer) else f"towards {self.peer}"
