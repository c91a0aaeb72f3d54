"""Configuration of time in a simulation."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from vil_bridge.config.base import StrictModel, custom


class SimulationConfig(StrictModel):
    """Clock of the bridge.

    A world without real vehicles can be paused, stepped, slowed and sped up.
    """

    clock: Literal["real", "simulated"] = Field(
        default="real",
        description="`simulated` lets time be paused, stepped and scaled; every source must then "
        "be simulated or "
        "recorded.",
    )
    speed: float = Field(
        default=1.0,
        ge=0.01,
        le=100,
        description="Simulated seconds per second, at the most (clock: simulated).",
    )
    paused: bool = Field(
        default=False, description="Time is paused at the start (clock: simulated)."
    )
    wait_for_cameras: bool = Field(
        default=False,
        description="Slow the world to what the renderers can draw, so that no picture is skipped "
        "(clock: simulated).",
    )

    @model_validator(mode="after")
    def _real_time_is_not_ours(self) -> Self:
        if self.clock == "real" and (self.speed != 1.0 or self.paused or self.wait_for_cameras):
            raise custom(
                "speed, paused and wait_for_cameras need `clock: simulated`: real time "
                "passes as it does"
            )
        return self
