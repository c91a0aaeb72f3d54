"""Configuration of the stream to the onboard computers."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from vil_bridge.config.base import Listening
from vil_bridge.config.bind_address import CurveServerConfig


class StreamConfig(CurveServerConfig):
    """Server of pictures for onboard clients (ZeroMQ, and UDP on request)."""

    listens: ClassVar[tuple[Listening, ...]] = (
        Listening("bind", "tcp"),
        Listening("data_port", "tcp", each_camera=True),
        Listening("udp_port", "udp"),
    )

    bind: str = Field(
        default="tcp://127.0.0.1:5560",
        description="Address of the control channel, tcp://ADDRESS:PORT; port 0 = any free one.",
    )
    data_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="First TCP port for pictures; each further stream takes the next one. 0 = any "
        "free ports.",
    )
    udp_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="UDP port, opened when a reader asks for UDP; 0 = any free one.",
    )
    udp_rate_mbps: float = Field(
        default=100.0,
        ge=0.5,
        le=10_000,
        description="One UDP reader gets this at most, Mbit/s; less where packets get lost.",
    )
