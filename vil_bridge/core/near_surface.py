"""Surfaces around a camera, as a renderer reports them, so that a simulated vehicle collides
with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

MOST_SURFACES: Final = 16
"""Nearest first; more are not reported."""


@dataclass(frozen=True, slots=True, eq=False)
class NearSurface:
    """The nearest point of something near a camera.

    Attributes:
        camera: its name. other: whose surface, as the scene names it.
        p_world_m: the point, (3,). normal_world: away from the surface, towards the camera, unit,
            (3,).
    """

    camera: str
    other: str
    p_world_m: npt.NDArray[np.float64]
    normal_world: npt.NDArray[np.float64]
