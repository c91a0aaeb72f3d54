"""Configuration of the onboard inertial source."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from vil_bridge.config.base import SourceConfigBase


class OnboardImuConfig(SourceConfigBase):
    """Take the inertial samples that a reader of pictures sends along with its credits."""

    fed_by_readers: ClassVar[bool] = True

    type: Literal["onboard-imu"] = "onboard-imu"
    reader: str = Field(
        min_length=1, max_length=64, description="Name under which the onboard client registers."
    )
