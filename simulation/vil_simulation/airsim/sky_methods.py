"""Methods of the sky: the time of day, which moves the sun."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.types import Lighting
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.quantities import Factor, Period
from vil_simulation.airsim.vehicles import ServedVehicles

_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
_DAY_H: Final = 24.0
_SECONDS_PER_H: Final = 3600.0


class SkyMethods:
    """Time of day of the pictures that programs ask for."""

    def __init__(self, vehicles: ServedVehicles) -> None:
        self._vehicles = vehicles

    @method("simSetTimeOfDay")
    def set_time_of_day(
        self,
        is_enabled: bool,
        start_datetime: str,
        is_start_datetime_dst: bool,
        celestial_clock_speed: Factor,
        update_interval_secs: Period,
        move_sun: bool = True,
    ) -> None:
        """Move the sun to a time of day, and on from there; disabled = the scene's own sun."""
        if not is_enabled or not move_sun:
            self._vehicles.lighting_at = None
            return
        # The machine's zone.
        start = datetime.now().astimezone() if not start_datetime else _parsed(start_datetime)
        hour = (
            start.hour - is_start_datetime_dst + start.minute / 60.0 + start.second / _SECONDS_PER_H
        )
        begun_ns = self._vehicles.snapshot().t_ns
        interval_ns = max(1, round(update_interval_secs * NS_PER_S))

        def lighting_at(t_ns: int) -> Lighting:
            passed_ns = (t_ns - begun_ns) // interval_ns * interval_ns
            moved_h = celestial_clock_speed * passed_ns / NS_PER_S / _SECONDS_PER_H
            return Lighting(time_of_day_h=(hour + moved_h) % _DAY_H)

        self._vehicles.lighting_at = lighting_at


def _parsed(text: str) -> datetime:
    """Return a date and time. Raises ValueError: it is written otherwise."""
    try:
        return datetime.strptime(text, _FORMAT)
    except ValueError:
        raise ValueError(
            f"start_datetime must be written 2026-01-31 12:00:00, not {text!r:.40}"
        ) from None
