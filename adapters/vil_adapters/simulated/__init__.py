"""Simulated motion: what the emulated laboratory films and feels when no recording is given."""

from vil_adapters.motions.drone import BRISK, DroneMotion, ImuErrors, SinePath
from vil_adapters.motions.walking_human import WalkMotion

__all__ = ["BRISK", "DroneMotion", "ImuErrors", "SinePath", "WalkMotion"]
