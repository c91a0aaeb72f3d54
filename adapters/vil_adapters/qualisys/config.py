"""Configuration of the Qualisys source and of the QTM emulator."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_adapters.sessions.server_config import MocapServerConfig
from vil_bridge.config.address import Ipv4
from vil_bridge.config.base import StrictModel


class QualisysConfig(MocapServerConfig):
    """Receive 6D bodies and skeletons from Qualisys Track Manager (extra `qualisys`)."""

    type: Literal["qualisys"] = "qualisys"
    port: int = Field(
        default=22223,
        ge=1,
        le=65535,
        description="TCP port for little-endian clients: QTM's base port plus one.",
    )
    up_axis: Literal["auto", "y", "z"] = Field(
        default="auto",
        description="Up axis of QTM's calibrated room; auto = as QTM announces, z where it "
        "does not.",
    )


class QtmEmulatorConfig(StrictModel):
    """A stand-in for QTM: what it announces, how fast it films, how its clock runs."""

    bind: Ipv4 = Field(default="127.0.0.1", description="Local IPv4 address.")
    port: int = Field(
        default=22223, ge=0, le=65535, description="TCP port for little-endian clients; 0 = any."
    )
    discovery_port: int = Field(
        default=22226, ge=0, le=65535, description="UDP port of discovery; 0 = any."
    )
    rate_hz: float = Field(default=100.0, gt=0.0, le=2000.0, description="Frames per second.")
    up_axis: Literal["y", "z"] = Field(default="z", description="Up axis of the calibrated room.")
    disabled_bodies: tuple[str, ...] = Field(
        default=(), description="Bodies that are described as disabled, hence not streamed."
    )
    latency_ms: float = Field(
        default=4.5, ge=0.0, le=1000.0, description="From mid-exposure to transmission."
    )
    clock_drift_ppm: float = Field(
        default=20.0, ge=-1000.0, le=1000.0, description="The server's clock runs fast so."
    )
