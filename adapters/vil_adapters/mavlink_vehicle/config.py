"""Configuration of the MAVLink vehicle as a pose source, and of its emulator."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vil_bridge.config.address import Ipv4
from vil_bridge.config.base import SourceConfigBase, StrictModel
from vil_bridge.config.transport import TransportConfig


class MavlinkVehicleConfig(TransportConfig, SourceConfigBase):
    """Take a vehicle's own estimate of its pose: simulated vehicles, and those that fly by GPS."""

    type: Literal["mavlink-vehicle"] = "mavlink-vehicle"
    system: int = Field(default=1, ge=1, le=255, description="MAVLink system id of the vehicle.")
    subject: str = Field(
        default="vehicle", min_length=1, max_length=100, description="Name given to its body."
    )
    message: Literal["auto", "odometry", "local-position"] = Field(
        default="auto",
        description="ODOMETRY, or LOCAL_POSITION_NED with ATTITUDE_QUATERNION; auto takes the best "
        "that comes.",
    )
    rate_hz: float = Field(
        default=50.0,
        ge=1.0,
        le=500.0,
        description="Rate requested of the autopilot; repeated while less comes.",
    )


class VehicleEmulatorConfig(StrictModel):
    """Emulated vehicle that sends its pose."""

    link: str | None = Field(
        default=None, description="Path of the link to an emulated serial line; none = UDP."
    )
    bind: Ipv4 = Field(default="127.0.0.1", description="UDP: local IPv4 address.")
    port: int = Field(
        default=14580, ge=0, le=65535, description="UDP: local port; 0 = any free one."
    )
    target: tuple[str, int] | None = Field(
        default=None,
        description="UDP: address and port to send to; none = only to those that send first.",
    )
    message: Literal["odometry", "local-position"] = Field(
        default="odometry", description="Message with the pose."
    )
    frame: Literal["ned", "frd"] = Field(default="ned", description="Local frame of the odometry.")
    rate_hz: float = Field(default=100.0, gt=0.0, le=1000.0, description="Poses per second.")
    boot_s: float = Field(
        default=30.0, ge=0.0, le=1e6, description="How long it has been on at the start."
    )
    clock_drift_ppm: float = Field(
        default=20.0, ge=-1000.0, le=1000.0, description="Its clock runs fast by this."
    )
