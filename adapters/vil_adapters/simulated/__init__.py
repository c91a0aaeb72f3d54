"""Simulated motion: what the emulated laboratory films and feels when no recording is given."""

from vil_adapters.simulated.motion import BRISK, DroneMotion, ImuErrors, SinePath
from vil_adapters.simulated.walk import WalkMotion

__all__ = ["BRISK", "DroneMotion", "ImuErrors", "SinePath", "WalkMotion"]
