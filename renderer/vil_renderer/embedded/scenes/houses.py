"""Houses of a street: walls with windows, doors, balconies and a roof.

They look along +x, the front is at x = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from vil_renderer.embedded.scenes.builder import Thing, Tint
from vil_renderer.embedded.scenes.shapes import UV_WHOLE, MeshBuilder, box, join, panel, tube

_STOREY_M: Final = 3.0
_PLINTH_M: Final = 0.7
_DEPTH_M: Final = 9.0
_WINDOW_M: Final = (1.3, 1.5)
_SILL_M: Final = 0.95
_BOARDS_M: Final = 0.1
"""Thickness of the roof."""
_STONE: Final[Tint] = (0.80, 0.78, 0.74)
_IRON: Final[Tint] = (0.16, 0.17, 0.18)


@dataclass(frozen=True, slots=True)
class House:
    """Parts of a house, each with the class that it has.

    Attributes:
        parts: kind, class and thing of each.
        height_m: of the eaves.
    """

    parts: tuple[tuple[str, str, Thing], ...]
    height_m: float


def house(
    rng: np.random.Generator, width_m: float, storeys: int, surface: str, tint: Tint
) -> House:
    """Build a house of some storeys above each other, the door in the middle of the lowest one.

    Args:
        rng: chooses balconies.
        width_m: along y.
        storeys: how many.
        surface: of the walls.
        tint: of the walls.
    """
    eaves = storeys * _STOREY_M + 0.3
    axes = _axes(width_m)
    windows = Thing()
    balconies = Thing()
    for storey in range(storeys):
        for column, y in enumerate(axes):
            if storey == 0 and column == len(axes) // 2:
                continue
            z = storey * _STOREY_M + _SILL_M
            tall = storey > 0 and column % 2 == 1 and bool(rng.integers(0, 4))
            if tall:
                _window(windows, y, z - 0.75, _WINDOW_M[1] + 0.75)
                _balcony(balconies, y, z - 0.8)
            else:
                _window(windows, y, z, _WINDOW_M[1])
    parts = [
        ("House", "building", _walls(width_m, eaves, surface, tint)),
        ("Windows", "window", windows),
        ("Entrance", "door", _door(axes[len(axes) // 2])),
        ("Roof", "building", _roof(width_m, eaves)),
    ]
    if balconies.parts:
        parts.append(("Balcony", "structure", balconies))
    return House(tuple(parts), eaves)


def _axes(width_m: float) -> list[float]:
    count = max(3, int(width_m / 2.7))
    return [float(y) for y in (np.arange(count) + 0.5) / count * width_m - 0.5 * width_m]


def _walls(width: float, eaves: float, surface: str, tint: Tint) -> Thing:
    """Build the four walls, a plinth of stone, and bands between the storeys."""
    half = 0.5 * width
    thing = Thing()
    front = panel(
        (0.0, -half, -0.2), (0.0, width, 0.0), (0.0, 0.0, eaves + 0.2), uv=3.0, cell_m=1.5
    )
    back = panel(
        (-_DEPTH_M, half, -0.2), (0.0, -width, 0.0), (0.0, 0.0, eaves + 0.2), uv=3.0, cell_m=3.0
    )
    right = panel(
        (0.0, half, -0.2), (-_DEPTH_M, 0.0, 0.0), (0.0, 0.0, eaves + 0.2), uv=3.0, cell_m=3.0
    )
    left = panel(
        (-_DEPTH_M, -half, -0.2), (_DEPTH_M, 0.0, 0.0), (0.0, 0.0, eaves + 0.2), uv=3.0, cell_m=3.0
    )
    for wall in (front, back, right, left):
        thing.add(wall, surface, tint)
    plinth = box((0.06, width, _PLINTH_M), uv=2.0, faces="xyYz", cell_m=1.0)
    thing.add(plinth.at(0.03, 0.0, 0.0), "concrete", (0.72, 0.71, 0.70))
    for z in np.arange(_STOREY_M, eaves - 0.5, _STOREY_M):
        band = box((0.08, width, 0.16), uv=2.0, faces="xyYzZ", cell_m=1.5)
        thing.add(band.at(0.04, 0.0, float(z) - 0.08), "stucco", _STONE)
    cornice = box((0.22, width, 0.22), uv=2.0, faces="xyYzZ", cell_m=1.5)
    return thing.add(cornice.at(0.11, 0.0, eaves - 0.24), "stucco", _STONE)


def _window(thing: Thing, y: float, z: float, height: float) -> None:
    """Add a window with its frame 4 cm off the wall, and a sill."""
    wide = _WINDOW_M[0]
    thing.add(_board(wide, height).at(0.03, y, z), "house_window")
    surround = box((0.05, 0.14, height), uv=1.0, faces="xyY", cell_m=2.0)
    for side in (-1.0, 1.0):
        thing.add(surround.at(0.035, y + side * 0.5 * (wide + 0.14), z), "stucco", _STONE)
    lintel = box((0.07, wide + 0.4, 0.18), uv=1.0, faces="xyYzZ", cell_m=2.0)
    thing.add(lintel.at(0.045, y, z + height), "stucco", _STONE)
    sill = box((0.2, wide + 0.34, 0.07), uv=1.0, faces="xyYzZ", cell_m=2.0)
    thing.add(sill.at(0.1, y, z - 0.07), "stucco", (0.7, 0.69, 0.66))


def _board(width: float, height: float) -> MeshBuilder:
    return box((0.04, width, height), uv=UV_WHOLE, faces="x", cell_m=1.0)


def _door(y: float) -> Thing:
    """Build a door with two steps and a small roof above it."""
    thing = Thing().add(_board(1.2, 2.35).at(0.06, y, 0.25), "house_door")
    frame = box((0.12, 0.18, 2.45), uv=1.0, faces="xyY", cell_m=2.0)
    for side in (-0.69, 0.69):
        thing.add(frame.at(0.06, y + side, 0.25), "stucco", _STONE)
    thing.add(
        box((0.9, 1.9, 0.1), uv=1.0, cell_m=1.0).at(0.45, y, 2.7), "steel", (0.36, 0.38, 0.40)
    )
    thing.add(box((0.34, 1.7, 0.24), uv=1.0, faces="xyYz", cell_m=1.0).at(0.23, y, 0.0), "concrete")
    return thing.add(
        box((0.34, 1.9, 0.12), uv=1.0, faces="xyYz", cell_m=1.0).at(0.57, y, 0.0), "concrete"
    )


def _balcony(thing: Thing, y: float, z: float) -> None:
    """Add a slab with a railing of bars."""
    wide = 2.2
    deep = 1.0
    tall = 1.0
    slab = box((deep, wide, 0.16), uv=2.0, faces="xyYzZ", cell_m=1.2)
    thing.add(slab.at(0.5 * deep, y, z - 0.16), "concrete")
    out = deep - 0.05
    half = 0.5 * wide - 0.05
    rail = [
        (0.0, y - half, z + tall),
        (out, y - half, z + tall),
        (out, y + half, z + tall),
        (0.0, y + half, z + tall),
    ]
    for a, b in pairwise(rail):
        thing.add(tube([a, b], 0.025, 5), "steel", _IRON)
    places = [(out, y + float(s)) for s in np.linspace(-half, half, 10)]
    places += [
        (float(x), y + side * half)
        for side in (-1.0, 1.0)
        for x in np.linspace(0.12, out - 0.16, 4)
    ]
    for x, across in places:
        bar = box((0.02, 0.02, tall), faces="xXyY", cell_m=2.0)
        thing.add(bar.at(x, across, z), "steel", _IRON)


def _roof(width: float, eaves: float) -> Thing:
    """Build a gable roof with its ridge along the street, a chimney and the gutter."""
    over = 0.35
    rise = 3.0
    thing = Thing()
    run = 0.5 * _DEPTH_M + over
    for side in (1.0, -1.0):
        edge = (-0.5 * _DEPTH_M + side * run, -side * 0.5 * width, eaves - 0.05)
        slope = panel(edge, (0.0, side * width, 0.0), (-side * run, 0.0, rise), uv=3.0, cell_m=1.6)
        lower = (edge[0], edge[1], edge[2] - _BOARDS_M)
        under = panel(lower, (-side * run, 0.0, rise), (0.0, side * width, 0.0), uv=3.0, cell_m=3.0)
        fascia = panel(lower, (0.0, side * width, 0.0), (0.0, 0.0, _BOARDS_M), uv=3.0, cell_m=3.0)
        thing.add(slope, "roof_tiles").add(join([under, fascia]), "planks", (0.55, 0.5, 0.45))
    for y, out in ((0.5 * width, 1.0), (-0.5 * width, -1.0)):
        thing.add(_gable(y, out, eaves, run, rise), "stucco", (0.85, 0.83, 0.80))
    chimney = box((0.6, 0.8, 1.7), uv=2.0, faces="xXyYz", cell_m=1.0)
    thing.add(chimney.at(-0.62 * _DEPTH_M, 0.24 * width, eaves + 1.9), "house_brick")
    gutter = tube(
        [(over + 0.02, -0.5 * width, eaves - 0.06), (over + 0.02, 0.5 * width, eaves - 0.06)],
        0.07,
        6,
    )
    thing.add(gutter, "steel", (0.45, 0.46, 0.48))
    pipe = tube([(0.07, 0.46 * width, 0.0), (0.07, 0.46 * width, eaves - 0.2)], 0.05, 6)
    return thing.add(pipe, "steel", (0.45, 0.46, 0.48))


def _gable(y: float, out: float, eaves: float, run: float, rise: float) -> MeshBuilder:
    """Build the wall below the roof at one end."""
    middle = -0.5 * _DEPTH_M
    high = eaves - 0.05
    low = eaves - 0.05 - _BOARDS_M
    outline = ((run, low), (-run, low), (-run, high), (0.0, high + rise), (run, high))
    p_m = np.array([(middle + out * x, y, z) for x, z in outline])
    uv = np.stack((p_m[:, 0], -p_m[:, 2]), axis=-1) / 3.0
    return MeshBuilder(
        p_m, np.tile((0.0, out, 0.0), (5, 1)), uv, np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4]])
    )
