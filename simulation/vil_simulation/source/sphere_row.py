"""Shape of a vehicle for contacts: equal spheres in a row along its body."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.core.geometry import q_rotate
from vil_bridge.core.types import FloatArray
from vil_simulation.source.vehicle_config import ContactConfig


class SphereRow:
    """Spheres whose middles lie at most a radius apart.

    Attributes:
        radius_m: of each. offsets_m: middles in the body's axes, (k, 3). reach_m: of the farthest
            from the origin.
    """

    def __init__(self, config: ContactConfig) -> None:
        self.radius_m: Final = config.radius_m
        half_m = 0.5 * config.length_m
        ahead = np.linspace(half_m, -half_m, 1 + math.ceil(config.length_m / config.radius_m))
        self.offsets_m: Final = np.array([(x, 0.0, config.height_m) for x in ahead.tolist()])
        self.reach_m: Final = float(np.linalg.norm(self.offsets_m, axis=1).max())

    def middles(self, p_m: FloatArray, q_xyzw: FloatArray) -> FloatArray:
        """Return the middles of the spheres (n, k, 3) of bodies at (n, 3) with attitudes (n, 4)."""
        if not self.reach_m:
            return p_m[:, None]
        count = len(self.offsets_m)
        attitudes = np.repeat(q_xyzw, count, axis=0)
        offsets = np.tile(self.offsets_m, (len(p_m), 1))
        return p_m[:, None] + q_rotate(attitudes, offsets).reshape(len(p_m), count, 3)
