"""The street: 77 m between two rows of houses, with parked cars, trees and lamps.

Free to fly above its middle.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_renderer.embedded.scene import Environment, Lamp, Scene, SceneObject, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing, Tint
from vil_renderer.embedded.scenes.car import painted_car
from vil_renderer.embedded.scenes.goods import barrel, cone, poster
from vil_renderer.embedded.scenes.houses import house
from vil_renderer.embedded.scenes.outdoors import bush, lamp_post, tree, van
from vil_renderer.embedded.scenes.shapes import STANDING, UV_WHOLE, box, lathe, panel, tube

_TILE_M: Final = 3.5
_TILES: Final = 22
_HALF_M: Final = 0.5 * _TILES * _TILE_M
_ROAD_M: Final = 3.5
_FRONT_M: Final = 7.2
"""From the middle of the street to the edge of the road, and to the houses."""
_KERB_M: Final = 0.12
_FAR_M: Final = 150.0
_QUARTER: Final = 0.5 * math.pi
_HOUSE_M: Final = 9.0
_WALLS: Final[tuple[tuple[str, Tint], ...]] = (
    ("stucco", (1.0, 0.93, 0.78)), ("house_brick", (1.0, 0.95, 0.9)),
    ("stucco", (0.86, 0.92, 0.98)),
    ("stucco", (0.95, 0.80, 0.72)), ("stucco", (0.98, 0.97, 0.94)),
    ("house_brick", (0.86, 0.82, 0.8)),
    ("stucco", (0.84, 0.90, 0.78)),
)  # fmt: skip
_PAINTS: Final[tuple[Tint, ...]] = (
    (0.16, 0.26, 0.42), (0.82, 0.83, 0.85), (0.72, 0.10, 0.08), (0.20, 0.21, 0.23),
    (0.62, 0.52, 0.30),
)  # fmt: skip


def build_street() -> Scene:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(67)
    builder = SceneBuilder("street")
    _road(rng, builder)
    _pavements(rng, builder)
    _country(builder)
    _houses(rng, builder)
    _cars(rng, builder)
    _trees(rng, builder)
    _lamps(builder)
    _furniture(rng, builder)
    return builder.scene(
        Environment(
            sky=np.array([0.31, 0.36, 0.44]),
            ground=np.array([0.17, 0.16, 0.15]),
            sun=Sun.towards((-0.30, -0.62, 0.73), (0.64, 0.58, 0.48)),
            exposure=1.3,
        )
    )


def _road(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Lay two lanes of tiles; the middle line is at the lower edge of each."""
    section: SceneObject | None = None
    for tile in range(_TILES):
        x = -_HALF_M + tile * _TILE_M
        kind = ("asphalt_lane", "asphalt_lane", "asphalt_patched", "asphalt_lane")[
            int(rng.integers(0, 4))
        ]
        if tile in (4, 17):
            kind = "asphalt_zebra"
        shade = float(rng.uniform(0.85, 1.0))
        for sign in (1.0, -1.0):
            corner = (x, 0.0, 0.0) if sign > 0 else (x + _TILE_M, 0.0, 0.0)
            sheet = panel(
                corner, (sign * _TILE_M, 0.0, 0.0), (0.0, sign * _ROAD_M, 0.0), cell_m=0.7
            )
            thing = Thing().add(sheet, kind, (shade, shade, shade))
            section = builder.put("Road", "road", thing, casts_shadow=False, section_of=section)


def _pavements(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Lay pavers behind kerbs on both sides, up to below the houses."""
    wide = _FRONT_M - _ROAD_M + 0.4
    section: SceneObject | None = None
    for tile in range(_TILES):
        x = -_HALF_M + tile * _TILE_M
        shade = float(rng.uniform(0.82, 1.0))
        for low in (_ROAD_M, -_ROAD_M - wide):
            sheet = panel(
                (x, low, _KERB_M), (_TILE_M, 0.0, 0.0), (0.0, wide, 0.0), uv=3.5, cell_m=0.8
            )
            thing = Thing().add(sheet, "pavers", (shade, shade, shade))
            section = builder.put("Pavement", "road", thing, casts_shadow=False, section_of=section)
    for sign in (1.0, -1.0):
        for first, length in ((-_HALF_M, 38.5), (0.0, 38.5)):
            kerb = box((length, 0.18, 0.3), uv=2.0, faces="xXyYz", cell_m=1.2)
            at = (first + 0.5 * length, sign * (_ROAD_M + 0.05), _KERB_M + 0.01 - 0.3)
            builder.put("Kerb", "road", Thing().add(kerb, "concrete", (0.9, 0.9, 0.88)), at)


def _country(builder: SceneBuilder) -> None:
    """Add the land around the street, a little lower than it."""
    section: SceneObject | None = None
    inner_x = _HALF_M - 0.3
    inner_y = _FRONT_M - 0.2
    low = -0.08
    for corner, right, up in (
        ((-_FAR_M, inner_y, low), (2 * _FAR_M, 0.0, 0.0), (0.0, _FAR_M - inner_y, 0.0)),
        ((-_FAR_M, -_FAR_M, low), (2 * _FAR_M, 0.0, 0.0), (0.0, _FAR_M - inner_y, 0.0)),
        ((inner_x, -inner_y, low), (_FAR_M - inner_x, 0.0, 0.0), (0.0, 2 * inner_y, 0.0)),
        ((-_FAR_M, -inner_y, low), (_FAR_M - inner_x, 0.0, 0.0), (0.0, 2 * inner_y, 0.0)),
    ):
        thing = Thing().add(
            panel(corner, right, up, uv=6.0, cell_m=30.0), "grass", (0.88, 0.88, 0.86)
        )
        section = builder.put("Country", "terrain", thing, casts_shadow=False, section_of=section)


def _houses(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Stand eight houses on each side, and two across each end."""
    places = [
        (-31.5 + _HOUSE_M * k, side * _FRONT_M, -side * _QUARTER)
        for k in range(8)
        for side in (1.0, -1.0)
    ]
    places += [
        (side * (_HALF_M - 0.4), y, _QUARTER * (1.0 + side))
        for side in (1.0, -1.0)
        for y in (-4.5, 4.5)
    ]
    for number, (x, y, yaw) in enumerate(places):
        surface, tint = _WALLS[int(rng.integers(0, len(_WALLS)))]
        made = house(rng, _HOUSE_M, 3 if number % 3 else 4, surface, tint)
        for kind, semantic, thing in made.parts:
            builder.put(kind, semantic, thing, (x, y, _KERB_M if abs(x) < 35.0 else 0.0), yaw)


def _cars(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Park cars along both kerbs, and a van."""
    first: dict[int, SceneObject] = {}
    places = [(-27.0, 1), (-20.5, 1), (-9.0, 1), (3.2, 1), (14.2, 1), (31.5, 1)]
    places += [(-30.5, -1), (-13.8, -1), (-2.8, -1), (8.6, -1), (27.4, -1)]
    for number, (x, side) in enumerate(places):
        paint = number % len(_PAINTS)
        yaw = 0.0 if side < 0 else math.pi
        at = (x, side * 2.45, 0.0)
        yaw = yaw + float(rng.uniform(-0.02, 0.02))
        if paint in first:
            builder.put_again(first[paint], at, yaw)
        else:
            first[paint] = builder.put("Car", "vehicle", painted_car(_PAINTS[paint], 12), at, yaw)
    builder.put("Van", "vehicle", van((0.78, 0.80, 0.84)), (20.6, -2.4, 0.0), 0.0)


def _trees(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Plant trees in the pavements, with bushes in tubs at some doors."""
    places = [(x, 1.0) for x in (-24.0, -12.0, 0.0, 12.0, 24.0)] + [
        (x, -1.0) for x in (-18.0, -6.0, 6.0, 18.0)
    ]
    for x, side in places:
        tall = float(rng.uniform(5.0, 6.4))
        at = (x, side * 4.6, _KERB_M)
        builder.put("Tree", "vegetation", tree(rng, tall), at, float(rng.uniform(0, 6)))
        grate = Thing().add(
            box((1.2, 1.2, 0.03), faces=STANDING, cell_m=1.2), "gravel", (0.6, 0.55, 0.5)
        )
        builder.put("Grate", "road", grate, at)
    for k in range(8):
        x = -28.0 + 8.1 * k
        side = (1.0, -1.0)[k % 2]
        tub = Thing().add(
            box((0.6, 0.6, 0.5), uv=1.0, faces=STANDING, cell_m=1.0), "planks", (0.7, 0.62, 0.5)
        )
        builder.put("Tub", "prop", tub, (x, side * 6.5, _KERB_M))
        builder.put("Bush", "vegetation", bush(rng, 0.42), (x, side * 6.5, _KERB_M + 0.42))


def _lamps(builder: SceneBuilder) -> None:
    for x, side in ((-27.0, -1), (-15.0, 1), (-3.0, -1), (9.0, 1), (21.0, -1), (33.0, 1)):
        at = (x, side * 3.85, _KERB_M)
        yaw = -side * _QUARTER
        post = builder.put("LampPost", "pole", lamp_post(), at, yaw)
        p_m = np.array([x, side * (3.85 - 0.9), _KERB_M + 4.95])
        down = np.array([0.0, 0.0, -1.0])
        builder.lamps.append(
            Lamp(post.name, p_m, np.array([2.6, 2.3, 1.8]), down, (0.8, 1.3), 14.0)
        )


def _furniture(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Add signs, bollards, a kiosk's boards, bins and a road work."""
    for x, side, surface in (
        (-21.8, -1.0, "numbers"),
        (-4.4, 1.0, "banner"),
        (16.4, 1.0, "paper"),
        (24.6, -1.0, "banner"),
    ):
        sign = Thing().add(
            lathe([(0.035, -0.2), (0.03, 2.7), (0.0, 2.7)], 7), "steel", (0.55, 0.56, 0.58)
        )
        sign.add(box((0.03, 0.7, 0.7), faces="xX", cell_m=1.0).at(0.05, 0.0, 1.95), surface)
        sign.add(
            box((0.03, 0.7, 0.7), faces="yYzZ", cell_m=1.0).at(0.05, 0.0, 1.95),
            "plain",
            (0.3, 0.3, 0.32),
        )
        builder.put("Sign", "sign", sign, (x, side * 4.1, _KERB_M), _QUARTER * (1.0 + side))
    post = Thing().add(
        lathe([(0.07, -0.1), (0.06, 0.85), (0.08, 0.9), (0.0, 0.95)], 9), "steel", (0.3, 0.32, 0.34)
    )
    for x in (-23.6, -20.4, 21.9, 25.1):
        for side in (1.0, -1.0):
            builder.put("Bollard", "pole", post, (x, side * 3.95, _KERB_M))
    for k, (x, side) in enumerate(((-10.2, -1.0), (4.6, -1.0), (-19.4, 1.0), (19.2, 1.0))):
        colour = ((0.25, 0.42, 0.28), (0.24, 0.26, 0.30))[k % 2]
        builder.put("Bin", "prop", barrel(colour), (x, side * 6.6, _KERB_M), float(k))
    for x in (-1.6, -0.2, 1.2):
        builder.put("Cone", "prop", cone(), (x, 2.2, 0.0), float(rng.uniform(0, 1.5)))
    rack = Thing()
    for x in np.arange(0.0, 3.2, 0.8):
        hoop = [(x, -0.35, 0.0), (x, -0.3, 0.7), (x, 0.3, 0.7), (x, 0.35, 0.0)]
        rack.add(tube(hoop, 0.025, 6), "steel", (0.7, 0.71, 0.73))
    builder.put("Racks", "structure", rack, (10.6, -5.4, _KERB_M))
    for x, y, surface in (
        (-29.3, _FRONT_M, "boards"),
        (6.7, _FRONT_M, "boards_red"),
        (-2.2, -_FRONT_M, "banner"),
    ):
        side = math.copysign(1.0, y)
        board = poster((1.8, 0.6), surface, UV_WHOLE)
        builder.put("Board", "sign", board, (x, y, 3.1), -side * _QUARTER)
