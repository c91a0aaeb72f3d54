"""Numbers, names, poses and paths of scene files."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Self

import numpy as np
from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from vil_bridge.config.base import StrictModel
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_renderer.embedded.scene_motion import Circle, LineMotion, MotionPath, Tour


def wrong(text: str) -> PydanticCustomError:
    """Return the error that a validator raises."""
    return PydanticCustomError("scene", "{text}", {"text": text})


def _label(text: str) -> str:
    if not 1 <= len(text) <= 64 or not text.isprintable() or text != text.strip():
        raise wrong("a name has 1 to 64 printable characters and no blanks around it")
    return text


def _direction(vector: tuple[float, float, float]) -> tuple[float, float, float]:
    if math.hypot(*vector) < 1e-6:
        raise wrong("a direction must not be zero")
    return vector


Label = Annotated[str, AfterValidator(_label)]
ClassName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
ClassId = Annotated[int, Field(ge=43, le=65535)]
Coordinate = Annotated[float, Field(ge=-100_000, le=100_000)]
Point = tuple[Coordinate, Coordinate, Coordinate]
Direction = Annotated[Point, AfterValidator(_direction)]
Length = Annotated[float, Field(gt=0, le=10_000)]
Factor = Annotated[float, Field(gt=0, le=1_000_000)]
Angle = Annotated[float, Field(ge=-360, le=360)]
Unit = Annotated[float, Field(ge=0, le=1)]
Colour = tuple[Unit, Unit, Unit]
Amount = Annotated[float, Field(ge=0, le=1_000_000)]
Light = tuple[Amount, Amount, Amount]


class PoseConfig(StrictModel):
    """Place and rotation."""

    p_m: Point = Field(default=(0.0, 0.0, 0.0), description="Position in the world (east, north, up), metres.")
    yaw_deg: Angle | None = Field(default=None, description="Turn about the vertical, counter-clockwise, degrees.")
    ypr_deg: tuple[Angle, Angle, Angle] | None = Field(
        default=None, description="Yaw, pitch, roll (intrinsic Z-Y-X), degrees."
    )
    q_xyzw: tuple[float, float, float, float] | None = Field(
        default=None, description="Attitude as a unit quaternion, scalar last."
    )

    @model_validator(mode="after")
    def _one_rotation(self) -> Self:
        if sum(way is not None for way in (self.yaw_deg, self.ypr_deg, self.q_xyzw)) > 1:
            raise wrong("give only one of yaw_deg, ypr_deg and q_xyzw")
        if self.q_xyzw is not None and abs(math.hypot(*self.q_xyzw) - 1.0) > 0.01:
            raise wrong(f"q_xyzw has length {math.hypot(*self.q_xyzw):.3g}; a rotation has length 1")
        return self

    def transform(self) -> Transform:
        """Return the pose as a :class:`Transform`."""
        yaw, pitch, roll = (math.radians(a) for a in self.ypr_deg or (self.yaw_deg or 0.0, 0.0, 0.0))
        return Transform.of(self.p_m, self.q_xyzw or q_from_euler_zyx(yaw, pitch, roll))


Period = Annotated[float, Field(ge=0.01, le=100_000)]
Instant = Annotated[float, Field(ge=0, le=100_000)]


class CircleConfig(StrictModel):
    """Round a vertical."""

    centre_m: Point = Field(description="A point of the vertical, world, metres.")
    period_s: Period = Field(description="Of one round, seconds.")
    clockwise: bool = Field(default=False, description="Seen from above.")


class LineMotionConfig(StrictModel):
    """There and back."""

    to_m: Point = Field(description="The far end, world, metres.")
    period_s: Period = Field(description="Of there and back, seconds.")


class StopConfig(PoseConfig):
    """A pose at a time."""

    t_s: Instant = Field(description="When it is there, seconds; the first one is 0.")


class PathConfig(StrictModel):
    """A path that an object repeats, by the time of the snapshot."""

    circle: CircleConfig | None = Field(default=None, description="Round a vertical, from its own pose.")
    line: LineMotionConfig | None = Field(default=None, description="There and back, from its own p_m.")
    poses: tuple[StopConfig, ...] = Field(
        default=(), max_length=10_000, description="Through these, straight and evenly, then again from the first."
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(map(bool, (self.circle, self.line, self.poses))) != 1:
            raise wrong("give exactly one of circle, line, poses")
        times = [stop.t_s for stop in self.poses]
        if times and (len(times) < 2 or times[0] != 0.0 or any(b <= a for a, b in pairwise(times))):
            raise wrong("poses are two or more, the first at t_s 0, each later than the one before")
        return self

    def motion_path(self, start: Transform) -> MotionPath:
        """Return the path as a value, for an object that is at ``start`` at time 0."""
        if self.circle is not None:
            period_s = -self.circle.period_s if self.circle.clockwise else self.circle.period_s
            return Circle(np.array(self.circle.centre_m), period_s)
        if self.line is not None:
            return LineMotion(np.array(self.line.to_m) - start.p_m, self.line.period_s)
        return Tour(np.array([stop.t_s for stop in self.poses]), tuple(stop.transform() for stop in self.poses))
