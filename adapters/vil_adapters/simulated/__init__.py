"""Simulated motion: what the emulated laboratory films and feels when no recording is given."""

from vil_adapters.simulated.motion import DroneMotion, ImuErrors
from vil_adapters.simulated.walk import WalkMotion

__all__ = ["DroneMotion", "ImuErrors", "WalkMotion"]
