"""The yard: 64 x 64 m in the open air, asphalt in the middle.

Free to fly in x +-8, y +-8, z 0.5..10.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.scene import Environment, Lamp, Scene, SceneObject, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing
from vil_renderer.embedded.scenes.goods import (
    barrel,
    cone,
    container,
    forklift,
    pallet,
    poster,
    stack,
)
from vil_renderer.embedded.scenes.outdoors import (
    barrier,
    bush,
    cable,
    fence,
    lamp_post,
    pole,
    tree,
    van,
)
from vil_renderer.embedded.scenes.shapes import STANDING, UV_WHOLE, box, lathe, panel, terrain, tube

_HALF_M: Final = 32.0
_ASPHALT_M: Final = 16.0
_CELL_M: Final = 0.8
_FAR_M: Final = 160.0
_FENCE_M: Final = 26.0
_BUILDING: Final = (-12.0, 12.0, 17.0, 24.0)
"""x from, x to, y from, y to."""
_EAVES_M: Final = 6.4
_QUARTER: Final = 0.5 * math.pi


def height(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the ground's height.

    Flat in the middle and at the building, bumps around, a bank at the rim.
    """
    bumps = (
        0.30 * np.sin(0.35 * x + 1.0) * np.cos(0.27 * y)
        + 0.12 * np.sin(0.9 * x + 0.5 * y)
        + 0.05 * np.sin(2.1 * y)
    )
    inside = _smooth((np.maximum(np.abs(x), np.abs(y)) - _ASPHALT_M) / 5.0)
    x0, x1, y0, y1 = _BUILDING
    away = np.hypot(
        np.maximum(np.maximum(x0 - x, x - x1), 0.0), np.maximum(np.maximum(y0 - y, y - y1), 0.0)
    )
    rim = _smooth((np.maximum(np.abs(x), np.abs(y)) - _FENCE_M) / 5.0)
    return bumps * inside * _smooth(away / 4.0) + 2.6 * rim


def _smooth(t: FloatArray) -> FloatArray:
    t = np.clip(t, 0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def _ground(x: float, y: float) -> float:
    return float(height(np.array(x), np.array(y)))


def build_yard() -> Scene:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(23)
    builder = SceneBuilder("yard")
    _asphalt(rng, builder)
    _land(rng, builder)
    _building(builder)
    _containers(builder)
    _storage(rng, builder)
    _fences(builder)
    _plants(rng, builder)
    _posts(builder)
    return builder.scene(
        Environment(
            sky=np.array([0.30, 0.36, 0.46]),
            ground=np.array([0.15, 0.15, 0.13]),
            sun=Sun.towards((-0.42, -0.52, 0.74), (0.62, 0.57, 0.48)),
        )
    )


def _asphalt(rng: np.random.Generator, builder: SceneBuilder) -> None:
    surfaces = ("asphalt", "asphalt_marked", "asphalt_patched", "asphalt")
    section: SceneObject | None = None
    for x in np.arange(-_ASPHALT_M, _ASPHALT_M, 4.0):
        for y in np.arange(-_ASPHALT_M, _ASPHALT_M, 4.0):
            shade = float(rng.uniform(0.82, 1.0))
            sheet = panel(
                (float(x), float(y), 0.0), (4.0, 0.0, 0.0), (0.0, 4.0, 0.0), cell_m=_CELL_M
            )
            turned = _quarter_turned(sheet.uv, int(rng.integers(0, 4)))
            thing = Thing().add(
                replace(sheet, uv=turned), surfaces[int(rng.integers(0, 4))], (shade, shade, shade)
            )
            section = builder.put("Asphalt", "road", thing, casts_shadow=False, section_of=section)
    edge = _ASPHALT_M + 0.1
    for x, y, yaw in (
        (0.0, edge, 0.0),
        (0.0, -edge, 0.0),
        (edge, 0.0, _QUARTER),
        (-edge, 0.0, _QUARTER),
    ):
        length = 2 * edge + (0.2 if yaw == 0.0 else -0.2)
        kerb = box((length, 0.2, 0.27), uv=2.0, faces=STANDING, cell_m=0.8)
        builder.put("Kerb", "road", Thing().add(kerb, "pavers"), (x, y, -0.15), yaw)


def _land(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Add uneven sections around the asphalt, and the country beyond the bank."""
    section: SceneObject | None = None
    for x0 in np.arange(-_HALF_M, _HALF_M, 8.0):
        for y0 in np.arange(-_HALF_M, _HALF_M, 8.0):
            if max(abs(x0 + 4.0), abs(y0 + 4.0)) < _ASPHALT_M:
                continue
            x, y = (np.linspace(float(a), float(a) + 8.0, 11) for a in (x0, y0))
            sheet = terrain(x, y, height(*np.meshgrid(x, y)), 4.0)
            turned = _quarter_turned(sheet.uv, int(rng.integers(0, 4)))
            surface = _cover(rng, float(x0) + 4.0, float(y0) + 4.0)
            shade = float(rng.uniform(0.8, 1.0))
            thing = Thing().add(replace(sheet, uv=turned), surface, (shade, shade, shade))
            section = builder.put("Ground", "terrain", thing, section_of=section)
    section = None
    inner = _HALF_M - 0.8
    outer = _FAR_M
    low = 2.0
    for k in range(4):
        strip = panel(
            (-outer, inner, low),
            (2 * outer, 0.0, 0.0),
            (0.0, outer - inner, 0.0),
            uv=8.0,
            cell_m=40.0,
        )
        thing = Thing().add(strip.at(0.0, 0.0, 0.0, k * _QUARTER), "grass", (0.85, 0.85, 0.85))
        at = (0.0, 0.0, -0.02 * k)
        section = builder.put(
            "Country", "terrain", thing, at, casts_shadow=False, section_of=section
        )


def _quarter_turned(uv: FloatArray, quarters: int) -> FloatArray:
    for _ in range(quarters):
        uv = np.stack((uv[:, 1], -uv[:, 0]), axis=-1)
    return uv


def _cover(rng: np.random.Generator, x: float, y: float) -> str:
    if x < -_ASPHALT_M and abs(y) < _ASPHALT_M:
        return "gravel"
    if abs(x) < _ASPHALT_M and _ASPHALT_M < y < 24.0:
        return "pavers"
    return ("grass", "grass", "grass_worn")[int(rng.integers(0, 3))]


def _building(builder: SceneBuilder) -> None:
    x0, x1, y0, y1 = _BUILDING
    width = x1 - x0
    depth = y1 - y0
    sides = (
        ((x0, y0), (1.0, 0.0), width, 6), ((x1, y0), (0.0, 1.0), depth, 2),
        ((x1, y1), (-1.0, 0.0), width, 6), ((x0, y1), (0.0, -1.0), depth, 2),
    )  # fmt: skip
    for (x, y), (dx, dy), length, count in sides:
        run = length / count
        section: SceneObject | None = None
        for k in range(count):
            right = (dx * run, dy * run, 0.0)
            thing = Thing()
            corner = (x + k * dx * run, y + k * dy * run)
            lower = ("wall_brick", "wall_block", "wall_brick", "wall_board")[k % 4]
            thing.add(panel((*corner, -0.2), right, (0.0, 0.0, 3.2), cell_m=1.0), lower)
            thing.add(
                panel((*corner, 3.0), right, (0.0, 0.0, _EAVES_M - 3.0), cell_m=1.0), "facade"
            )
            section = builder.put("Facade", "building", thing, section_of=section)
    middle = (0.5 * (x0 + x1), 0.5 * (y0 + y1))
    roof = box((width + 0.6, depth + 0.6, 0.35), uv=4.0, cell_m=2.0)
    builder.put("Roof", "building", Thing().add(roof, "ceiling_trays"), (*middle, _EAVES_M))
    ridge = lathe([(0.45, 0.0), (0.45, 1.2), (0.6, 1.25), (0.6, 1.4), (0.0, 1.4)], 10)
    vents = Thing()
    for x in (-7.0, -1.0, 6.0):
        vents.add(ridge.at(x, 0.0, 0.35), "wall_sheet")
    builder.put("Vents", "building", vents, (*middle, _EAVES_M))
    for x in (-11.6, -4.0, 4.0, 11.6):
        pipe = tube([(x, y0 - 0.09, 0.0), (x, y0 - 0.09, _EAVES_M)], 0.06, 7)
        builder.put("Downpipe", "building", Thing().add(pipe, "steel", (0.5, 0.5, 0.52)))
    for kind, semantic, x, z, size, surface in (
        ("Door", "door", -6.0, 1.15, (1.2, 2.3), "door"),
        ("Door", "door", 1.8, 1.5, (3.2, 3.0), "wall_sheet"),
        ("Door", "door", 7.6, 1.15, (1.2, 2.3), "door"),
        ("Sign", "sign", -2.0, 2.2, (1.6, 1.6), "tags"),
        ("Sign", "sign", -8.4, 1.7, (1.6, 1.6), "banner"),
        ("Sign", "sign", 5.2, 2.0, (1.0, 1.4), "paper"),
        ("Sign", "sign", 10.0, 2.0, (1.4, 1.4), "banner"),
    ):
        builder.put(kind, semantic, poster(size, surface, UV_WHOLE), (x, y0, z), -_QUARTER)


def _containers(builder: SceneBuilder) -> None:
    long = (6.06, 2.44, 2.59)
    short = (3.0, 2.44, 2.59)
    for x, y, z, size, yaw, tint in (
        (-8.0, -10.4, 0.0, long, 0.0, (0.35, 0.62, 0.86)),
        (-8.3, -10.3, 2.59, long, 0.04, (0.82, 0.42, 0.30)),
        (-1.0, -10.5, 0.0, long, 0.0, (0.45, 0.70, 0.55)),
        (10.4, -6.0, 0.0, long, _QUARTER, (0.90, 0.74, 0.34)),
        (10.4, -5.4, 2.59, short, _QUARTER + 0.1, (0.75, 0.78, 0.80)),
        (10.3, 2.2, 0.0, long, _QUARTER, (0.82, 0.42, 0.30)),
        (-10.3, 4.0, 0.0, short, _QUARTER, (0.45, 0.55, 0.85)),
    ):
        builder.put("Container", "container", container(size, tint), (x, y, z), yaw)


def _storage(rng: np.random.Generator, builder: SceneBuilder) -> None:
    rows = (
        (3.6, -10.2, 8, 0.1),
        (5.1, -10.4, 5, 0.0),
        (-10.6, 0.8, 6, 1.5),
        (-10.8, -0.7, 3, 1.7),
        (8.8, 9.6, 4, 0.4),
    )
    for x, y, layers, yaw in rows:
        builder.put("Pallets", "box", pallet(layers), (x, y, 0.0), yaw)
    places = (
        (6.9, -10.6, (1.2, 0.9)), (9.0, 7.4, (1.1, 0.8)), (-10.6, 8.6, (1.3, 1.0, 0.7)),
        (-9.2, 10.2, (1.0,)),
        (2.4, 10.6, (1.2, 0.8)), (-4.0, 10.8, (0.9, 0.7)), (-10.8, -4.4, (1.2, 0.9)),
        (9.8, 10.6, (1.0, 0.6)),
    )  # fmt: skip
    for number, (x, y, sides) in enumerate(places):
        for thing, z, yaw in stack(rng, sides, number):
            builder.put("Crate", "box", thing, (x, y, z), yaw)
    colours = ((0.2, 0.4, 0.75), (0.75, 0.25, 0.2), (0.25, 0.55, 0.3))
    for k, (x, y) in enumerate(
        ((-3.2, 10.6), (-2.4, 10.9), (-10.9, -6.2), (-10.2, -6.8), (6.6, 10.7), (11.2, 6.3))
    ):
        builder.put("Barrel", "prop", barrel(colours[k % 3]), (x, y, 0.0), float(k))
    for x, y in ((-8.6, 8.4), (8.5, 8.6), (8.4, -8.6), (-8.6, -8.2), (0.0, 8.7), (0.0, -8.6)):
        builder.put("Cone", "prop", cone(), (x, y, 0.0), float(rng.uniform(0, 1.5)))
    for x, y, yaw in ((-6.6, 11.2, 0.0), (4.6, 11.2, 0.02), (8.9, -1.9, 1.55)):
        builder.put("Barrier", "road", barrier(), (x, y, 0.0), yaw)
    builder.put("Forklift", "machine", forklift(), (-9.6, -2.6, 0.0), 2.4)
    builder.put("Van", "vehicle", van((0.85, 0.88, 0.9)), (3.9, 13.4, 0.0), 0.12)
    builder.put("Van", "vehicle", van((0.5, 0.65, 0.9)), (-13.4, 4.0, 0.0), 1.4)


def _fences(builder: SceneBuilder) -> None:
    step = 2 * _FENCE_M / 5
    f = _FENCE_M
    fences: dict[int, SceneObject] = {}
    first: SceneObject | None = None
    for k in range(5):
        a = -f + step * k
        b = -f + step * (k + 1)
        for side, (start, end) in enumerate(
            (((a, -f), (b, -f)), ((-f, b), (-f, a)), ((b, f), (a, f)))
        ):
            section = fence(start, end, _ground)
            fences[side] = builder.put("Fence", "structure", section, section_of=fences.get(side))
        wall = box((0.24, b - a, 3.4), uv=4.0, cell_m=0.8, faces="xXyYz")
        thing = Thing().add(wall, ("wall_block", "wall_brick")[k % 2])
        at = (f, 0.5 * (a + b), _ground(f, 0.5 * (a + b)) - 0.9)
        first = builder.put("Wall", "wall", thing, at, section_of=first)


def _plants(rng: np.random.Generator, builder: SceneBuilder) -> None:
    for x, y, tall in (
        (-20.0, 18.0, 8.5), (-21.0, -6.5, 7.0), (-18.5, -17.5, 9.0), (-9.0, -20.0, 7.5),
        (1.0, -19.5, 6.5),
        (9.5, -20.0, 9.5), (18.0, -16.5, 8.0), (20.5, -5.0, 7.0), (18.5, 4.5, 9.0),
        (21.0, 14.5, 8.0),
        (-22.5, 22.0, 9.0), (16.5, 21.0, 7.5), (-29.0, 2.0, 8.0), (29.0, -12.0, 9.0),
        (4.0, -29.0, 8.5),
        (-14.0, -29.0, 9.5), (29.5, 9.0, 8.5), (-3.0, 29.0, 9.0),
    ):  # fmt: skip
        builder.put(
            "Tree", "vegetation", tree(rng, tall), (x, y, _ground(x, y)), float(rng.uniform(0, 6))
        )
    for k in range(34):
        side = k % 4
        along = float(rng.uniform(-23.0, 23.0))
        out = float(rng.uniform(20.5, 24.5))
        x, y = (
            (out, along),
            (-out, along),
            (along, -out),
            (math.copysign(14.0 + abs(along) / 3, along), out),
        )[side]
        builder.put(
            "Bush", "vegetation", bush(rng, float(rng.uniform(0.5, 1.2))), (x, y, _ground(x, y))
        )


def _posts(builder: SceneBuilder) -> None:
    for x, y in (
        (-17.0, -8.0),
        (-17.0, 8.0),
        (17.0, -9.0),
        (17.0, 9.0),
        (-7.0, 16.6),
        (5.0, -17.0),
    ):
        yaw = math.atan2(-y, -x)
        post = builder.put("LampPost", "pole", lamp_post(), (x, y, _ground(x, y)), yaw)
        p_m = np.array([x + 0.9 * math.cos(yaw), y + 0.9 * math.sin(yaw), _ground(x, y) + 4.95])
        down = np.array([0.0, 0.0, -1.0])
        builder.lamps.append(
            Lamp(post.name, p_m, np.array([3.0, 2.6, 2.0]), down, (0.8, 1.3), 14.0)
        )
    feet = [(-19.0, y, _ground(-19.0, y)) for y in (-20.0, -4.5, 11.0)]
    for foot in feet:
        builder.put("Pole", "pole", pole(8.0), foot, _QUARTER)
    for near, far in pairwise(feet):
        for x in (-0.7, 0.7):
            hang = np.array([x, 0.14, 7.8])
            builder.put("Cable", "cable", cable(np.array(near) + hang, np.array(far) + hang, 0.5))
