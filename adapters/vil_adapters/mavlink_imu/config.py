"""Configuration of the MAVLink inertial source."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_bridge.config.base import SourceConfigBase
from vil_bridge.config.transport import TransportConfig


class MavlinkImuConfig(TransportConfig, SourceConfigBase):
    """Read angular rate and specific force from an autopilot on a serial line or over UDP."""

    type: Literal["mavlink-imu"] = "mavlink-imu"
    message: Literal["auto", "highres", "scaled", "raw", "attitude"] = Field(
        default="auto",
        description="HIGHRES_IMU (PX4), SCALED_IMU or RAW_IMU (ArduPilot), or ATTITUDE_QUATERNION, "
        "which has no "
        "acceleration; auto takes the best that comes.",
    )
    rate_hz: float = Field(
        default=250.0,
        ge=1.0,
        le=1000.0,
        description="Rate requested of the autopilot; repeated while less comes.",
    )
