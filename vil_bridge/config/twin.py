"""Configuration of twins."""

from __future__ import annotations

from pydantic import Field

from vil_bridge.config.base import StrictModel


class TwinConfig(StrictModel):
    """A vehicle and the twin whose distance from it is watched."""

    vehicle: str = Field(description="Actor: the vehicle.")
    twin: str = Field(description="Actor: its twin, usually of a source of type simulated.")
    window_s: float = Field(
        default=10.0, ge=2, le=60, description="Time over which distances are taken, seconds."
    )
    alarm_m: float = Field(
        default=0.5,
        gt=0,
        le=1000,
        description="Warn when the root mean square distance exceeds this, metres.",
    )
