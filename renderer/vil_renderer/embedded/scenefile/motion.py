"""Paths of objects that move by themselves, in a scene file."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from vil_bridge.config.base import StrictModel
from vil_bridge.core.geometry import Transform
from vil_renderer.embedded.scene_motion import Circle, LineMotion, MotionPath, Tour
from vil_renderer.embedded.scenefile.basics import Point, PoseConfig, wrong

__all__ = ["PathConfig"]

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
