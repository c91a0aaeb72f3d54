"""Floors, walls and ceilings of rooms around the origin, in sections.

Sections of one plane have one instance id and share the places where they meet; planes run on
behind one another: no crack shows the sky.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from vil_renderer.embedded.assets.model import UvRect
from vil_renderer.embedded.scene import SceneObject
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing, Tint
from vil_renderer.embedded.scenes.shapes import UV_WHOLE, panel

_BEHIND_M: Final = 0.15
_TURNED: Final[UvRect] = (1.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class RoomSize:
    """Inner size of a room that stands on z = 0 around the origin."""

    x_m: float
    y_m: float
    height_m: float


def _cuts(length_m: float, count: int) -> list[tuple[float, float]]:
    """Start and end of each section; the outer ones run on behind their neighbours."""
    edges = np.linspace(-0.5 * length_m, 0.5 * length_m, count + 1)
    edges[0] -= _BEHIND_M
    edges[-1] += _BEHIND_M
    return [(float(a), float(b)) for a, b in pairwise(edges)]


def _plane(
    rng: np.random.Generator, room: RoomSize, sections: tuple[int, int], surfaces: Sequence[str]
) -> Iterator[tuple[tuple[float, float], tuple[float, float], UvRect, str]]:
    """Return ends along x and y, picture and surface of each section.

    Some pictures are turned around.
    """
    for column, x_m in enumerate(_cuts(room.x_m, sections[0])):
        for row, y_m in enumerate(_cuts(room.y_m, sections[1])):
            uv = _TURNED if rng.integers(0, 2) else UV_WHOLE
            yield x_m, y_m, uv, surfaces[(column + 3 * row + row // 2) % len(surfaces)]


def add_floor(
    builder: SceneBuilder, rng: np.random.Generator, room: RoomSize, sections: tuple[int, int],
    surfaces: Sequence[str], cell_m: float,
) -> None:  # fmt: skip
    """Add sections along x and y, each showing one whole texture, some of them turned around."""
    section: SceneObject | None = None
    for (x0, x1), (y0, y1), uv, surface in _plane(rng, room, sections, surfaces):
        sheet = panel((x0, y0, 0.0), (x1 - x0, 0.0, 0.0), (0.0, y1 - y0, 0.0), uv=uv, cell_m=cell_m)
        thing = Thing().add(sheet, surface, _shade(rng))
        section = builder.put("Floor", "floor", thing, casts_shadow=False, section_of=section)


def add_ceiling(
    builder: SceneBuilder, rng: np.random.Generator, room: RoomSize, sections: tuple[int, int],
    surfaces: Sequence[str], cell_m: float,
) -> None:  # fmt: skip
    """Add sections along x and y, seen from below; the sun shines through them."""
    section: SceneObject | None = None
    for (x0, x1), (y0, y1), uv, surface in _plane(rng, room, sections, surfaces):
        sheet = panel(
            (x1, y0, room.height_m), (x0 - x1, 0.0, 0.0), (0.0, y1 - y0, 0.0), uv=uv, cell_m=cell_m
        )
        thing = Thing().add(sheet, surface, _shade(rng))
        section = builder.put("Ceiling", "ceiling", thing, casts_shadow=False, section_of=section)


def add_walls(
    builder: SceneBuilder, rng: np.random.Generator, room: RoomSize, sections: tuple[int, int],
    rows: Sequence[tuple[float, Sequence[str]]], cell_m: float,
) -> None:  # fmt: skip
    """Add four walls of ``sections`` along x and along y; the sun shines through them.

    Args:
        builder: takes the sections.
        rng: for the choice of surfaces.
        room: inner size.
        sections: how many along x and along y.
        rows: from the floor up: where each row ends and the surfaces that take turns in it.
        cell_m: size of the cells.
    """
    east, north, up = np.eye(3)
    walls = (
        (np.array([0.5 * room.x_m, 0.0, 0.0]), -north, room.y_m, sections[1]),
        (np.array([-0.5 * room.x_m, 0.0, 0.0]), north, room.y_m, sections[1]),
        (np.array([0.0, 0.5 * room.y_m, 0.0]), east, room.x_m, sections[0]),
        (np.array([0.0, -0.5 * room.y_m, 0.0]), -east, room.x_m, sections[0]),
    )
    tops = [top for top, _ in rows[:-1]] + [room.height_m + _BEHIND_M]
    for middle, along, length, count in walls:
        first = int(rng.integers(0, 6))
        section: SceneObject | None = None
        for column, (start, end) in enumerate(_cuts(length, count)):
            thing = Thing()
            tint = _shade(rng)
            z = -_BEHIND_M
            for top, (_, surfaces) in zip(tops, rows, strict=True):
                corner = middle + start * along + z * up
                sheet = panel(corner, (end - start) * along, (top - z) * up, cell_m=cell_m)
                thing.add(sheet, surfaces[(first + column) % len(surfaces)], tint)
                z = top
            section = builder.put("Wall", "wall", thing, casts_shadow=False, section_of=section)


def _shade(rng: np.random.Generator) -> Tint:
    shade = float(rng.uniform(0.85, 1.0))
    return shade, 0.99 * shade, 0.97 * shade
