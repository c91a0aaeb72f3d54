"""Constants of the Earth."""

from __future__ import annotations

from typing import Final, Literal

EQUATOR_M: Final = 6378137.0
"""Equatorial radius of WGS84; AirSim's only radius."""

STANDARD_RADIUS_M: Final = 6356766.0
"""Radius of the 1976 standard atmosphere.

Makes gravity fall off as it does at 45 degrees, where it is 9.80665.
"""

Compat = Literal["airsim"] | None
"""``airsim`` = the original's formula, mistakes included; None = the right one."""
