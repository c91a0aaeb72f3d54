"""Configuration of the MAVLink output."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.base import OutputConfigBase, StrictModel, custom
from vil_bridge.config.transport import TransportConfig


class OriginConfig(StrictModel):
    """Geographic position given to the world's origin."""

    lat_deg: float = Field(ge=-90, le=90, description="Latitude, degrees.")
    lon_deg: float = Field(ge=-180, le=180, description="Longitude, degrees.")
    alt_m: float = Field(
        default=0.0, ge=-1000, le=100_000, description="Altitude above sea level, metres."
    )


class MavlinkSensorsConfig(TransportConfig, OutputConfigBase):
    """Sensors of a simulated vehicle for its autopilot."""

    takes_humans: ClassVar[bool] = False

    type: Literal["mavlink-sensors"] = "mavlink-sensors"
    system: int = Field(
        default=1, ge=1, le=255, description="MAVLink system id to send as: the vehicle's."
    )
    component: int = Field(
        default=191,
        ge=1,
        le=255,
        description="MAVLink component id to send as; 191 = onboard computer.",
    )

    @model_validator(mode="after")
    def _one_actor(self) -> Self:
        if len(self.actors) != 1 or self.cameras:
            raise custom(
                "an autopilot takes the sensors of one vehicle: name one actor and no cameras"
            )
        return self


class MavlinkPoseConfig(TransportConfig, OutputConfigBase):
    """Pose of a vehicle for its autopilot."""

    takes_humans: ClassVar[bool] = False

    type: Literal["mavlink-pose"] = "mavlink-pose"
    message: Literal["odometry", "vision-position", "att-pos-mocap"] = Field(
        default="odometry",
        description="ODOMETRY (PX4 and ArduPilot; with velocity), VISION_POSITION_ESTIMATE (48 "
        "bytes: slow links), or "
        "ATT_POS_MOCAP.",
    )
    frame: Literal["frd", "ned"] = Field(
        default="frd",
        description="Local frame: frd = x along the world's x, whatever that is; ned = x along the "
        "world's y, which is "
        "north. ArduPilot takes an ODOMETRY in frd only.",
    )
    rate_hz: float = Field(default=30.0, ge=4.0, le=200.0, description="Poses per second at most.")
    system: int = Field(
        default=1, ge=1, le=255, description="MAVLink system id to send as: the vehicle's."
    )
    component: int = Field(
        default=197,
        ge=1,
        le=255,
        description="MAVLink component id to send as; 197 = visual inertial odometry.",
    )
    position_std_m: float = Field(
        default=0.005,
        gt=0,
        le=10,
        description="Standard deviation of the position, metres, while the bridge has no estimate "
        "of it.",
    )
    attitude_std_deg: float = Field(
        default=0.5,
        gt=0,
        le=90,
        description="Standard deviation of the attitude, degrees, likewise.",
    )
    velocity_std_mps: float = Field(
        default=0.05, gt=0, le=10, description="Standard deviation of the velocity, m/s, likewise."
    )
    origin: OriginConfig | None = Field(
        default=None, description="Sent to the autopilot until it has one; none = not sent."
    )

    @model_validator(mode="after")
    def _one_actor(self) -> Self:
        if len(self.actors) != 1 or self.cameras:
            raise custom("an autopilot takes one pose: name one actor and no cameras")
        return self
