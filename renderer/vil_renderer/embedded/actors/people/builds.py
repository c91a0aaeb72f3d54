"""Shipped humans by name: stature, build, clothes and colours of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from vil_renderer.embedded.scenes.paint import Colour

REFERENCE_M: Final = 1.75
"""Stature in which all tables of the body are written."""


@dataclass(frozen=True, slots=True)
class HumanBuild:
    """Recipe of a human.

    Attributes:
        stature_m: from the floor to the crown.
        shoulders, waist, hips: factors on the widths of the tables, which are those of a man of
            middle build.
        girth: factor on the thickness of the limbs. belly_m, bust_m: how far these stand out.
        jaw: factor on the width of the lower face. neck: on the thickness of the neck.
        hair: its cut. hair_m: how far it stands out.
        top, legs: clothes.
        skin, lips, hair_colour, eyes, top_colour, trim, legs_colour, shoe: sRGB.
    """

    stature_m: float
    shoulders: float
    waist: float
    hips: float
    girth: float
    belly_m: float
    bust_m: float
    jaw: float
    neck: float
    hair: Literal["short", "tail", "bun", "helmet"]
    hair_m: float
    top: Literal["vest", "shirt", "jacket", "tee"]
    legs: Literal["trousers", "skirt"]
    skin: Colour
    lips: Colour
    hair_colour: Colour
    eyes: Colour
    top_colour: Colour
    trim: Colour
    legs_colour: Colour
    shoe: Colour

    @property
    def size(self) -> float:
        """Return the factor from the tables to this stature."""
        return self.stature_m / REFERENCE_M


BUILDS: Final[Mapping[str, HumanBuild]] = {
    "human": HumanBuild(
        1.75, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, "helmet", 0.008, "vest", "trousers",
        (216, 164, 134), (176, 100, 90), (62, 44, 32), (58, 78, 92), (205, 222, 40), (62, 76, 104),
        (58, 70, 98),
        (70, 58, 52),
    ),
    "man_tall": HumanBuild(
        1.88, 1.02, 0.94, 0.96, 0.96, 0.0, 0.0, 1.0, 1.0, "short", 0.013, "shirt", "trousers",
        (140, 96, 70), (120, 70, 60), (26, 22, 20), (44, 30, 22), (196, 208, 222), (150, 164, 186),
        (64, 62, 60),
        (48, 34, 26),
    ),
    "man_heavy": HumanBuild(
        1.72, 1.04, 1.16, 1.10, 1.12, 0.055, 0.012, 1.08, 1.08, "short", 0.010, "jacket",
        "trousers",
        (226, 178, 150), (182, 108, 96), (120, 112, 106), (84, 96, 70), (78, 62, 48), (54, 44, 36),
        (48, 62, 92),
        (38, 36, 36),
    ),
    "woman_slim": HumanBuild(
        1.66, 0.87, 0.82, 0.98, 0.84, 0.0, 0.030, 0.90, 0.82, "tail", 0.014, "tee", "skirt",
        (232, 186, 158), (190, 84, 84), (94, 58, 32), (70, 92, 60), (178, 52, 62), (232, 226, 214),
        (44, 50, 78),
        (60, 40, 40),
    ),
    "woman_strong": HumanBuild(
        1.71, 0.93, 0.96, 1.10, 1.0, 0.018, 0.042, 0.94, 0.88, "bun", 0.012, "shirt", "trousers",
        (118, 78, 56), (124, 60, 58), (24, 18, 16), (40, 26, 20), (36, 118, 112), (28, 92, 90),
        (198, 184, 156),
        (120, 84, 56),
    ),
}  # fmt: skip
"""``human`` is the one of actors that name no model: a builder with helmet and vest."""
