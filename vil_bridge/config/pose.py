"""Names, points, lengths and poses as files of scenes and courses write them."""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from vil_bridge.config.base import StrictModel, custom
from vil_bridge.core.geometry import Transform, q_from_euler_zyx


def _label(text: str) -> str:
    if not 1 <= len(text) <= 64 or not text.isprintable() or text != text.strip():
        raise custom("a name has 1 to 64 printable characters and no blanks around it")
    return text


Label = Annotated[str, AfterValidator(_label)]
Coordinate = Annotated[float, Field(ge=-100_000, le=100_000)]
Point = tuple[Coordinate, Coordinate, Coordinate]
Length = Annotated[float, Field(gt=0, le=10_000)]
Angle = Annotated[float, Field(ge=-360, le=360)]


class PoseConfig(StrictModel):
    """Place and rotation."""

    p_m: Point = Field(
        default=(0.0, 0.0, 0.0), description="Position in the world (east, north, up), metres."
    )
    yaw_deg: Angle | None = Field(
        default=None, description="Turn about the vertical, counter-clockwise, degrees."
    )
    ypr_deg: tuple[Angle, Angle, Angle] | None = Field(
        default=None, description="Yaw, pitch, roll (intrinsic Z-Y-X), degrees."
    )
    q_xyzw: tuple[float, float, float, float] | None = Field(
        default=None, description="Attitude as a unit quaternion, scalar last."
    )

    @model_validator(mode="after")
    def _one_rotation(self) -> Self:
        if sum(way is not None for way in (self.yaw_deg, self.ypr_deg, self.q_xyzw)) > 1:
            raise custom("give only one of yaw_deg, ypr_deg and q_xyzw")
        if self.q_xyzw is not None and abs(math.hypot(*self.q_xyzw) - 1.0) > 0.01:
            raise custom(
                f"q_xyzw has length {math.hypot(*self.q_xyzw):.3g}; a rotation has length 1"
            )
        return self

    def transform(self) -> Transform:
        """Return the pose as a :class:`Transform`."""
        yaw, pitch, roll = (
            math.radians(a) for a in self.ypr_deg or (self.yaw_deg or 0.0, 0.0, 0.0)
        )
        return Transform.of(self.p_m, self.q_xyzw or q_from_euler_zyx(yaw, pitch, roll))
