"""Objects of a yard: trees, bushes, posts, poles, fences, barriers, a van."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from vil_bridge.core.geometry import cross
from vil_bridge.core.types import FloatArray
from vil_renderer.embedded.scenes.builder import WHITE, Thing, Tint
from vil_renderer.embedded.scenes.shapes import (
    STANDING,
    MeshBuilder,
    box,
    extrude,
    join,
    lathe,
    panel,
    tube,
)

Ground = Callable[[float, float], float]
"""Height of the ground at x, y."""

_POST: Final[Tint] = (0.32, 0.42, 0.38)
_BLACK: Final[Tint] = (0.17, 0.17, 0.19)
_FENCE_STEP_M: Final = 2.5


def tree(rng: np.random.Generator, height_m: float) -> Thing:
    """Build a broad-leaved tree.

    Trunk, boughs, a dense crown with loose bunches of leaves around it.
    """
    crown_m = 0.27 * height_m
    middle = np.array([0.0, 0.0, height_m - 1.1 * crown_m])
    trunk = [(0.05 * height_m, -0.4), (0.032 * height_m, 0.3), (0.022 * height_m, float(middle[2]))]
    thing = Thing().add(lathe(trunk, 9, smooth=True, uv=(0.0, 0.0, 1.0, 2.0)), "bark")
    for k in range(4):
        angle = 1.57 * k + float(rng.uniform(-0.4, 0.4))
        out = (
            np.array([math.cos(angle), math.sin(angle), 0.0])
            * crown_m
            * float(rng.uniform(0.45, 0.7))
        )
        root = np.array([0.0, 0.0, 0.6 * middle[2]])
        tip = middle + out
        thing.add(
            tube(
                [tuple(root), tuple(0.5 * (root + tip) + 0.1 * out), tuple(tip)],
                0.011 * height_m,
                5,
            ),
            "bark",
        )
        thing.add(_blob(rng, 0.5 * crown_m, 7, 5).at(*tip), "foliage", _green(rng))
    thing.add(_blob(rng, 0.85 * crown_m, 9, 6).at(*middle), "foliage", _green(rng))
    return thing.add(_bunches(rng, middle, crown_m, 18), "twigs", _green(rng))


def bush(rng: np.random.Generator, radius_m: float) -> Thing:
    """Build a round bush that grows out of the ground."""
    middle = np.array([0.0, 0.0, 0.55 * radius_m])
    thing = Thing().add(_blob(rng, radius_m, 9, 6).at(*middle), "foliage", _green(rng))
    return thing.add(_bunches(rng, middle, 0.9 * radius_m, 7), "twigs", _green(rng))


def lamp_post(height_m: float = 5.0) -> Thing:
    """Build a post with an arm along +x; its lamp looks down at (0.9, 0, height)."""
    thing = Thing().add(
        lathe([(0.09, -0.3), (0.09, 0.6), (0.05, 0.7), (0.04, height_m)], 8), "steel", _POST
    )
    arm = [(0.0, 0.0, height_m - 0.1), (0.3, 0.0, height_m + 0.06), (0.95, 0.0, height_m + 0.08)]
    thing.add(tube(arm, 0.03, 6), "steel", _POST)
    thing.add(
        box((0.6, 0.22, 0.09), faces="xXyYz").at(0.9, 0.0, height_m + 0.02),
        "plain",
        (0.3, 0.3, 0.32),
    )
    return thing.add(box((0.56, 0.18, 0.03), faces="xXyYZ").at(0.9, 0.0, height_m), "lamp_light")


def pole(height_m: float) -> Thing:
    """Build a wooden pole with a cross-arm along y; cables hang at (0, +-0.7, height - 0.2)."""
    thing = Thing().add(
        lathe([(0.15, -0.4), (0.11, height_m), (0.0, height_m)], 9, uv=(0.0, 0.0, 1.0, 4.0)), "bark"
    )
    thing.add(box((0.1, 1.7, 0.12), uv=1.0).at(0.14, 0.0, height_m - 0.45), "planks")
    for y in (-0.7, 0.7):
        insulator = lathe([(0.05, 0.0), (0.06, 0.05), (0.03, 0.12), (0.0, 0.13)], 7)
        thing.add(insulator.at(0.14, y, height_m - 0.33), "plain", (0.75, 0.75, 0.7))
    sign = box((0.02, 0.3, 0.4), faces="xyYzZ").at(0.16, 0.0, 1.6)
    return thing.add(sign, "cardboard", (1.0, 0.95, 0.7))


def cable(start_m: FloatArray, end_m: FloatArray, sag_m: float) -> Thing:
    """Build a cable that hangs between two points, in the axes of the world."""
    share = np.linspace(0.0, 1.0, 13)
    path = start_m + share[:, None] * (end_m - start_m)
    path[:, 2] -= 4.0 * sag_m * share * (1.0 - share)
    return Thing().add(tube([tuple(p) for p in path.tolist()], 0.03, 5), "plain", _BLACK)


def fence(start_m: tuple[float, float], end_m: tuple[float, float], ground: Ground) -> Thing:
    """Build posts and wire mesh along a line on uneven ground, in the axes of the world."""
    a = np.array(start_m)
    b = np.array(end_m)
    count = max(1, round(float(np.linalg.norm(b - a)) / _FENCE_STEP_M))
    feet = a + np.linspace(0.0, 1.0, count + 1)[:, None] * (b - a)
    heights = [ground(float(x), float(y)) for x, y in feet]
    yaw = math.atan2(b[1] - a[1], b[0] - a[0])
    thing = Thing()
    for (x, y), z in zip(feet.tolist(), heights, strict=True):
        thing.add(
            box((0.08, 0.08, 2.4), faces=STANDING, cell_m=1.2).at(x, y, z - 0.3, yaw),
            "steel",
            _POST,
        )
    for k in range(count):
        low = max(heights[k], heights[k + 1]) + 0.03
        run = (*(feet[k + 1] - feet[k]), 0.0)
        thing.add(panel((*feet[k], low), run, (0.0, 0.0, 1.8), cell_m=1.3), "wire_mesh")
    return thing


def barrier() -> Thing:
    """Build a concrete barrier, 3 m long along x."""
    half = [(0.3, 0.0), (0.3, 0.08), (0.16, 0.3), (0.1, 0.8)]
    profile = [*half, *((-y, z) for y, z in reversed(half))]
    foot = [profile[k] for k in (0, 1, 6, 7)]
    body = [profile[k] for k in (2, 3, 4, 5)]
    flank = [profile[k] for k in (1, 2, 5, 6)]
    return Thing().add(
        join([extrude(part, 3.0, repeat_m=2.0) for part in (foot, flank, body)]), "pavers"
    )


def van(tint: Tint) -> Thing:
    """Build a box van that looks along +x."""
    thing = Thing().add(box((3.2, 2.0, 2.1)).at(-0.9, 0.0, 0.55), "container", tint)
    cab = [(0.0, 0.45), (1.75, 0.45), (1.75, 1.0), (1.45, 1.15), (0.75, 1.95), (0.0, 1.95)]
    # Drawn with its nose to +y, then turned to +x.
    thing.add(
        extrude(cab, 1.9).at(0.0, 0.0, 0.0, -0.5 * math.pi).at(0.72, 0.0, 0.0), "plain", WHITE
    )
    screen = panel((2.19, -0.85, 1.19), (0.0, 1.7, 0.0), (-0.66, 0.0, 0.755))
    thing.add(screen.at(0.015, 0.0, 0.015), "window", (0.5, 0.55, 0.6))
    for side in (1, -1):
        door = box((0.6, 0.02, 0.5), faces="y" if side > 0 else "Y")
        thing.add(door.at(1.1, side * 0.955, 1.3), "window", (0.45, 0.5, 0.55))
        thing.add(box((0.06, 0.3, 0.18)).at(2.46, side * 0.7, 0.75), "lamp_light", WHITE)
    thing.add(box((4.7, 1.7, 0.2)).at(-0.1, 0.0, 0.35), "plain", _BLACK)
    tyre = lathe(
        [(0.0, -0.12), (0.2, -0.12), (0.36, -0.12), (0.36, 0.12), (0.2, 0.12), (0.0, 0.12)], 14
    )
    sideways = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    for x in (-1.7, 1.55):
        for y in (-0.87, 0.87):
            thing.add(tyre.turned(sideways).at(x, y, 0.36), "wheel")
    return thing


def _green(rng: np.random.Generator) -> Tint:
    shade = float(rng.uniform(0.75, 1.0))
    return shade, shade, float(rng.uniform(0.6, 0.95)) * shade


def _blob(rng: np.random.Generator, radius_m: float, sides: int, rings: int) -> MeshBuilder:
    """Build a lumpy ball; every triangle keeps its own normal."""
    latitude = np.linspace(-0.5 * np.pi, 0.5 * np.pi, rings + 1)
    longitude = 2 * np.pi * np.arange(sides) / sides
    direction = np.stack(
        (
            np.outer(np.cos(latitude), np.cos(longitude)),
            np.outer(np.cos(latitude), np.sin(longitude)),
            np.outer(np.sin(latitude), np.ones(sides)),
        ),
        axis=-1,
    )
    radius = radius_m * rng.uniform(0.78, 1.12, (rings + 1, sides, 1))
    radius[0], radius[-1] = radius[0, :1], radius[-1, :1]
    p = radius * direction
    p = np.concatenate((p, p[:, :1]), axis=1)
    a = p[:-1, :-1]
    b = p[:-1, 1:]
    c = p[1:, 1:]
    d = p[1:, :-1]
    corners = np.concatenate(
        (np.stack((a, b, c), axis=2)[1:], np.stack((a, c, d), axis=2)[:-1])
    ).reshape(-1, 3, 3)
    normal = cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    flat = corners.reshape(-1, 3)
    uv = np.stack((np.arctan2(flat[:, 1], flat[:, 0]) / np.pi, -flat[:, 2] / radius_m), axis=-1)
    # Where the angle jumps by a turn, the texture would run backwards through the triangle.
    turns = uv[:, 0].reshape(-1, 3)
    turns += 2.0 * ((turns.max(axis=1, keepdims=True) - turns) > 1.0)
    uv[:, 0] = turns.ravel()
    return MeshBuilder(flat, np.repeat(normal, 3, axis=0), uv, np.arange(len(flat)).reshape(-1, 3))


def _bunches(
    rng: np.random.Generator, middle_m: FloatArray, radius_m: float, count: int
) -> MeshBuilder:
    """Build cards with leaves around a crown, turned to all sides, lit as the crown is at their
    places.
    """
    parts: list[MeshBuilder] = []
    for _ in range(count):
        out = rng.normal(size=3) * (1.0, 1.0, 0.8)
        out /= np.linalg.norm(out)
        facing = out + 0.8 * rng.normal(size=3)
        facing *= math.copysign(1.0, float(facing @ out)) / np.linalg.norm(facing)
        right = cross(np.array([0.0, 0.0, 1.0]), facing)
        right /= np.linalg.norm(right)
        up = cross(facing, right)
        side = radius_m * float(rng.uniform(0.7, 1.0))
        centre = middle_m + out * radius_m * float(rng.uniform(0.75, 1.0))
        card = panel(centre - 0.5 * side * (right + up), side * right, side * up, cell_m=side)
        normal = facing + out
        parts.append(
            MeshBuilder(
                card.p_m, np.tile(normal / np.linalg.norm(normal), (4, 1)), card.uv, card.triangles
            )
        )
    return join(parts)
