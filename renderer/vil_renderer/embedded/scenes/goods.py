"""Objects in halls and yards: crates, racks, containers, pallets, barrels, cones, a forklift."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_renderer.embedded.assets.model import UvRect
from vil_renderer.embedded.scenes.builder import Thing, Tint
from vil_renderer.embedded.scenes.shapes import (
    STANDING,
    UV_WHOLE,
    MeshBuilder,
    box,
    extrude,
    join,
    lathe,
    tube,
)

_BLUE: Final[Tint] = (0.22, 0.38, 0.78)
_ORANGE: Final[Tint] = (0.92, 0.42, 0.10)
_DARK: Final[Tint] = (0.16, 0.16, 0.18)
_RACK_SHELVES_M: Final = (0.25, 1.2, 2.15, 3.0)


def warm(rng: np.random.Generator, low: float = 0.78, high: float = 1.0) -> Tint:
    """Return a tint for wood and cardboard of slightly different age."""
    shade = float(rng.uniform(low, high))
    return shade, 0.98 * shade, 0.94 * shade


def crate(rng: np.random.Generator, size_m: tuple[float, float, float], surface: str) -> Thing:
    """Build a crate or a carton."""
    return Thing().add(box(size_m, faces=STANDING), surface, warm(rng))


def container(size_m: tuple[float, float, float], tint: Tint) -> Thing:
    """Build a shipping container with corner posts, and lock bars at its +x end."""
    x, y, z = size_m
    thing = Thing().add(box(size_m, faces=STANDING, cell_m=0.7), "container", tint)
    dark = (0.6 * tint[0], 0.6 * tint[1], 0.6 * tint[2])
    for sx in (-1, 1):
        for sy in (-1, 1):
            post = box((0.14, 0.14, z - 0.02), faces=STANDING, uv=2.0, cell_m=1.0).at(
                sx * (0.5 * x - 0.05), sy * (0.5 * y - 0.05), 0.0
            )
            thing.add(post, "container", dark)
    for y_bar in (-0.3 * y, -0.1 * y, 0.1 * y, 0.3 * y):
        at = 0.5 * x + 0.035
        thing.add(
            tube([(at, y_bar, 0.1), (at, y_bar, z - 0.1)], 0.025), "steel", (0.75, 0.75, 0.78)
        )
    return thing


def pallet(layers: int = 1) -> Thing:
    """Build Euro pallets, 1.2 x 0.8 m, one on another."""
    thing = Thing()
    for layer in range(layers):
        z = 0.144 * layer
        for y in (-0.35, 0.0, 0.35):
            thing.add(
                box((1.2, 0.1, 0.1), uv=1.0, cell_m=2.0).at(0.0, y, z), "planks", (0.8, 0.74, 0.62)
            )
        for x in (-0.52, -0.26, 0.0, 0.26, 0.52):
            thing.add(box((0.145, 0.8, 0.044), uv=1.0, cell_m=2.0).at(x, 0.0, z + 0.1), "planks")
    return thing


def barrel(tint: Tint) -> Thing:
    """Build a steel drum, 0.58 m wide and 0.88 m high."""
    side = [
        (0.285, 0.0),
        (0.285, 0.28),
        (0.3, 0.3),
        (0.285, 0.32),
        (0.285, 0.58),
        (0.3, 0.6),
        (0.285, 0.62),
    ]
    drum = lathe(
        [*side, (0.285, 0.86), (0.295, 0.88), (0.27, 0.88), (0.27, 0.86), (0.0, 0.86)],
        12,
        uv=(0.0, 0.05, 1.0, 0.2),
    )
    return Thing().add(drum, "container", tint)


def cone() -> Thing:
    """Build a traffic cone, 0.5 m high."""
    thing = Thing().add(box((0.34, 0.34, 0.03), faces=STANDING), "plain", _DARK)
    return thing.add(lathe([(0.13, 0.03), (0.035, 0.5), (0.0, 0.5)], 10), "cone")


def board(
    thickness_m: float, width_m: float, height_m: float, uv: UvRect = UV_WHOLE, faces: str = "xX"
) -> MeshBuilder:
    """Build an upright board that looks along x; its edges show a corner of the picture."""
    size = (thickness_m, width_m, height_m)
    edges = box(size, uv=(uv[0], uv[1], uv[0] + 0.02, uv[1] + 0.02), faces="yYzZ", cell_m=2.0)
    return join([box(size, uv=uv, faces=faces, cell_m=0.8), edges])


def poster(size_m: tuple[float, float], surface: str, uv: UvRect) -> Thing:
    """Build a board that hangs 1 cm off the wall behind it (x = 0) and looks along +x.

    Its centre is the origin.
    """
    width, height = size_m
    return Thing().add(board(0.04, width, height, uv, "x").at(0.03, 0.0, -0.5 * height), surface)


def rack(rng: np.random.Generator, length_m: float) -> Thing:
    """Build a pallet rack, 3 m high and 0.85 m deep, with the goods on its shelves."""
    thing = Thing()
    for x in (-0.5 * length_m, 0.0, 0.5 * length_m):
        for y in (-0.38, 0.38):
            thing.add(
                box((0.08, 0.08, 3.3), faces=STANDING, uv=1.0).at(x, y, 0.0), "container", _BLUE
            )
    for z in _RACK_SHELVES_M:
        thing.add(
            box((length_m, 0.78, 0.05), uv=1.0).at(0.0, 0.0, z), "ceiling_trays", (0.8, 0.8, 0.82)
        )
        for y in (-0.4, 0.4):
            thing.add(
                box((length_m + 0.1, 0.05, 0.11), uv=1.0).at(0.0, y, z - 0.055),
                "container",
                _ORANGE,
            )
        x = -0.5 * length_m + 0.45
        while x < 0.5 * length_m - 0.3:
            w = float(rng.uniform(0.3, 0.6))
            h = float(rng.uniform(0.25, 0.62))
            surface = ("cardboard", "cardboard", "crate")[int(rng.integers(0, 3))]
            turn = float(rng.uniform(-0.15, 0.15))
            y = float(rng.uniform(-0.1, 0.1))
            thing.add(
                box((w, 0.5, h), faces=STANDING).at(x, y, z + 0.05, turn), surface, warm(rng, 0.72)
            )
            x += w + float(rng.uniform(0.06, 0.3))
    return thing


def forklift() -> Thing:
    """Build a forklift truck that looks along +x, forks on the floor."""
    thing = Thing()
    yellow = (0.95, 0.68, 0.10)
    thing.add(
        box((1.3, 1.0, 0.55), uv=(0.0, 0.5, 0.5, 1.0)).at(-0.35, 0.0, 0.2), "container", yellow
    )
    hood = [(-0.5, 0.0), (0.5, 0.0), (0.5, 0.35), (0.35, 0.5), (-0.35, 0.5), (-0.5, 0.35)]
    thing.add(extrude(hood, 0.6).at(-0.7, 0.0, 0.75), "container", (0.9, 0.62, 0.08))
    thing.add(box((0.45, 0.5, 0.12)).at(-0.1, 0.0, 0.75), "plain", _DARK)
    thing.add(box((0.1, 0.48, 0.5)).at(-0.33, 0.0, 0.87), "plain", _DARK)
    for x, z in ((0.25, 0.75), (-0.95, 1.2)):
        for y in (-0.44, 0.44):
            thing.add(tube([(x, y, z), (0.6 * x - 0.12, y, 2.06)], 0.03), "plain", _DARK)
    thing.add(
        box((0.95, 0.98, 0.06), uv=1.0).at(-0.34, 0.0, 2.04), "ceiling_trays", (0.5, 0.5, 0.5)
    )
    for y in (-0.3, 0.3):
        thing.add(box((0.1, 0.1, 2.2), uv=1.0).at(0.42, y, 0.05), "steel", (0.45, 0.45, 0.48))
        thing.add(box((1.05, 0.12, 0.05)).at(0.98, 0.7 * y, 0.04), "steel", (0.35, 0.35, 0.37))
    thing.add(box((0.06, 0.9, 0.5), uv=1.0).at(0.5, 0.0, 0.09), "steel", (0.4, 0.4, 0.42))
    wheel = lathe(
        [(0.0, -0.09), (0.12, -0.09), (0.25, -0.09), (0.25, 0.09), (0.12, 0.09), (0.0, 0.09)], 14
    )
    sideways = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
    for x in (-0.8, 0.15):
        for y in (-0.46, 0.46):
            thing.add(wheel.turned(sideways).at(x, y, 0.25), "wheel")
    return thing


def stack(
    rng: np.random.Generator, sides_m: tuple[float, ...], seed: int
) -> list[tuple[Thing, float, float]]:
    """Build crates and cartons on one another: each with its height above the floor and its yaw."""
    made = []
    z = 0.0
    for level, side in enumerate(sides_m):
        surface = "crate" if (level + len(sides_m) + seed) % 2 else "cardboard"
        height = side * float(rng.uniform(0.7, 1.0))
        size = (side, side * float(rng.uniform(0.8, 1.0)), height)
        made.append((crate(rng, size, surface), z, float(rng.uniform(-0.3, 0.3))))
        z += height
    return made


def lamp_panel(width_m: float = 1.4, depth_m: float = 0.3) -> Thing:
    """Build a hanging lamp whose lit side, at z = 0, looks down."""
    thing = Thing().add(
        box((width_m + 0.1, depth_m + 0.08, 0.12), uv=1.0).at(0.0, 0.0, 0.02),
        "steel",
        (0.5, 0.5, 0.52),
    )
    thing.add(box((width_m, depth_m, 0.02), faces="xXyYZ"), "lamp_light")
    for x in (-0.4 * width_m, 0.4 * width_m):
        thing.add(
            tube([(x, 0.0, 0.14), (x, 0.0, 0.14 + math.ceil(width_m) * 0.35)], 0.012, 5),
            "steel",
            _DARK,
        )
    return thing
