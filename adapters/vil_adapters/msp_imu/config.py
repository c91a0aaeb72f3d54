"""Configuration of the MSP inertial source."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.address import Host
from vil_bridge.config.base import SourceConfigBase, custom


class MspImuConfig(SourceConfigBase):
    """Ask a flight controller for its inertial sensors, on a serial line or over TCP."""

    type: Literal["msp-imu"] = "msp-imu"
    device: str | None = Field(
        default=None,
        description="Path of a serial device, best one of /dev/serial/by-id; none = TCP.",
    )
    baud: int = Field(
        default=115200, ge=1200, le=12_000_000, description="Bits per second; USB ignores it."
    )
    host: Host | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Address or name to reach by TCP; none = serial line.",
    )
    port: int = Field(
        default=5761,
        ge=1,
        le=65535,
        description="TCP port; 5761 is that of Betaflight's simulation.",
    )
    version: Literal[1, 2] = Field(
        default=2, description="Framing; 1 for firmware from before 2018."
    )
    rate_hz: float = Field(
        default=500.0,
        ge=1.0,
        le=1000.0,
        description="Asked at most so often; most answer about 100 times a second.",
    )
    gyro_lsb_per_dps: float = Field(
        default=16.4,
        gt=0,
        le=1000,
        description="Gyroscope counts per degree per second; 1 for INAV.",
    )
    acc_lsb_per_g: float | None = Field(
        default=None,
        gt=0,
        le=32768,
        description="Accelerometer counts at 1 g; none = found while it stands still.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.device is None) == (self.host is None):
            raise custom("give either `device` (serial line) or `host` (TCP)")
        return self
