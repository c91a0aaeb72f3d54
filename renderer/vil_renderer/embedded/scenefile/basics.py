"""Numbers, colours and paths of scene files."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Self

import numpy as np
from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from vil_bridge.config.base import StrictModel
from vil_bridge.config.pose import Point, PoseConfig
from vil_bridge.core.geometry import Transform
from vil_renderer.embedded.scene_motion import Circle, LineMotion, MotionPath, Tour


def wrong(text: str) -> PydanticCustomError:
    """Return the error that a validator raises."""
    return PydanticCustomError("scene", "{text}", {"text": text})


def _direction(vector: tuple[float, float, float]) -> tuple[float, float, float]:
    if math.hypot(*vector) < 1e-6:
        raise wrong("a direction must not be zero")
    return vector


ClassName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
ClassId = Annotated[int, Field(ge=43, le=65535)]
Direction = Annotated[Point, AfterValidator(_direction)]
Factor = Annotated[float, Field(gt=0, le=1_000_000)]
Unit = Annotated[float, Field(ge=0, le=1)]
Colour = tuple[Unit, Unit, Unit]
Amount = Annotated[float, Field(ge=0, le=1_000_000)]
Light = tuple[Amount, Amount, Amount]


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

    circle: CircleConfig | None = Field(
        default=None, description="Round a vertical, from its own pose."
    )
    line: LineMotionConfig | None = Field(
        default=None, description="There and back, from its own p_m."
    )
    poses: tuple[StopConfig, ...] = Field(
        default=(),
        max_length=10_000,
        description="Through these, straight and evenly, then again from the first.",
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
        return Tour(
            np.array([stop.t_s for stop in self.poses]),
            tuple(stop.transform() for stop in self.poses),
        )
