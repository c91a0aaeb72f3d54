"""Quality profiles, from a laptop's CPU to a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from vil_bridge.core.errors import RendererError


class Shading(IntEnum):
    """Way of computing light.

    VERTEX: baked or computed per vertex, multiplied in display values. PIXEL: linear light, the sun
    per pixel. PBR: PIXEL, with metalness, roughness and normal maps where a material has them.
    """

    VERTEX = 0
    PIXEL = 1
    PBR = 2


@dataclass(frozen=True, slots=True)
class Profile:
    """One level of quality.

    Attributes:
        shadow_px: side of the sun's shadow map, 0 = none. moving_shadows: actors are drawn into it
            every time.
        samples: of the colour pass, 1 = no multisampling.
        lod_px: radius in the picture below which fewer triangles of a model are drawn, 0 = never.
    """

    name: str
    shading: Shading
    texture_limit_px: int
    shadow_px: int = 0
    moving_shadows: bool = False
    samples: int = 1
    anisotropy: float = 1.0
    lod_px: float = 40.0


PROFILES: Final[Mapping[str, Profile]] = {
    p.name: p
    for p in (
        Profile("low", Shading.VERTEX, 512),
        Profile("medium", Shading.PIXEL, 1024, shadow_px=2048),
        Profile("high", Shading.PBR, 2048, shadow_px=2048, samples=4),
        Profile(
            "ultra",
            Shading.PBR,
            4096,
            shadow_px=4096,
            moving_shadows=True,
            samples=8,
            anisotropy=8.0,
            lod_px=0.0,
        ),
    )
}
"""By name, the plainest first."""


def profile_named(name: str) -> Profile:
    """Look a profile up.

    Raises:
        RendererError: there is none of that name.
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise RendererError(
            f"no quality profile named {name!r}; known: {', '.join(PROFILES)}"
        ) from None
