"""Configuration of the MAVLink inertial source."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_bridge.config.base import SourceConfigBase

__all__ = ["MavlinkImuConfig"]


class MavlinkImuConfig(SourceConfigBase):
    """Read angular rate and specific force from an autopilot on a serial line."""

    type: Literal["mavlink-imu"] = "mavlink-imu"
    device: str = Field(description="Path of the serial device, best one of /dev/serial/by-id; may appear later.")
    baud: int = Field(default=921600, ge=1200, le=12_000_000, description="Bits per second; USB ignores it.")
    message: Literal["auto", "highres", "scaled", "raw"] = Field(
        default="auto",
        description="HIGHRES_IMU (PX4), SCALED_IMU or RAW_IMU (ArduPilot); auto takes the best that comes.",
    )
    rate_hz: float = Field(
        default=250.0, ge=1.0, le=1000.0, description="Rate asked of the autopilot, again and again while less comes."
    )
