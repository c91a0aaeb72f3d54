"""Twins in the status, the metrics and ``vil-bridge top``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from vil_bridge.core.measure import Measure

__all__ = ["LABEL", "TwinView", "View", "rows"]

LABEL: Final = "twin"
"""Of the metrics: the pair's name."""


@dataclass(frozen=True, slots=True)
class TwinView:
    """Distances of a vehicle's twin over its window.

    None = the two were not seen together, or too little moved.

    Attributes:
        alarm: the root mean square distance is above ``alarm_m``. episodes: alarms so far.
        compared_s: time in which both were seen. now_m: distance at the newest instant.
        delay_s: of the twin.
    """

    vehicle: str
    twin: str
    window_s: float
    alarm_m: float
    alarm: Annotated[bool, Measure("twin_alarm", "1 while the distance exceeds the threshold.")]
    episodes: Annotated[int, Measure("twin_alarms", "Alarms since the start.", counts=True)]
    compared_s: float = 0.0
    now_m: float | None = None
    position_rms_m: Annotated[
        float | None,
        Measure("twin_distance_metres", "Root mean square distance over the window."),
    ] = None
    attitude_rms_rad: Annotated[
        float | None,
        Measure("twin_angle_radians", "Root mean square angle over the window."),
    ] = None
    hausdorff_m: Annotated[
        float | None,
        Measure("twin_hausdorff_metres", "Symmetric Hausdorff distance over the window."),
    ] = None
    delay_s: Annotated[float | None, Measure("twin_delay_seconds", "Delay of the twin.")] = None


View = dict[str, TwinView]
"""By the pair's name."""


def rows(twins: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row of a terminal for each pair of a status as JSON: kind, name, state, note."""
    for name, twin in twins.items():
        distance_m = twin["position_rms_m"]
        note = "not seen together"
        if distance_m is not None:
            note = f"{distance_m:.3f} m over {twin['compared_s']:.0f} s"
        yield "twin", name, "alarm" if twin["alarm"] else "", note
