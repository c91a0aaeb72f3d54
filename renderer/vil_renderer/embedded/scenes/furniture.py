"""Objects of a laboratory.

Desks, chairs, shelves, cabinets, and the cameras of a motion capture system.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_renderer.embedded.scenes.builder import Thing, Tint
from vil_renderer.embedded.scenes.goods import warm
from vil_renderer.embedded.scenes.shapes import STANDING, MeshBuilder, box, lathe, tube

_STEEL: Final[Tint] = (0.62, 0.64, 0.67)
_BLACK: Final[Tint] = (0.17, 0.17, 0.19)
_DESK_M: Final = 0.74
_UPRIGHT: Final = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
"""Turns x to z."""


def desk(rng: np.random.Generator, screens: int) -> Thing:
    """Build a desk, 1.6 x 0.8 m, with its seat at -y.

    Screens, keyboard, paper, and a computer below.
    """
    thing = Thing().add(
        box((1.6, 0.8, 0.03), uv=(0.0, 0.0, 1.0, 0.5)).at(0.0, 0.0, _DESK_M - 0.03), "wood"
    )
    for x in (-0.74, 0.74):
        for y in (-0.34, 0.34):
            thing.add(
                box((0.05, 0.05, _DESK_M - 0.03), faces="xXyY").at(x, y, 0.0), "steel", _STEEL
            )
    thing.add(box((1.5, 0.02, 0.4), faces="xXyYZ").at(0.0, 0.35, 0.3), "plain", (0.55, 0.56, 0.58))
    for k in range(screens):
        x = 0.62 * (k - 0.5 * (screens - 1))
        turn = -0.3 * (k - 0.5 * (screens - 1))
        surface = ("screen_code", "screen_plot")[int(rng.integers(0, 2))]
        thing.add(
            box((0.58, 0.04, 0.36), faces="xXyzZ").at(x, 0.2, _DESK_M + 0.14, turn), "plain", _BLACK
        )
        thing.add(box((0.58, 0.04, 0.36), faces="Y").at(x, 0.2, _DESK_M + 0.14, turn), surface)
        thing.add(box((0.06, 0.04, 0.16), faces="xXyY").at(x, 0.24, _DESK_M), "plain", _BLACK)
        thing.add(box((0.24, 0.18, 0.015), faces=STANDING).at(x, 0.24, _DESK_M), "plain", _BLACK)
    thing.add(
        box((0.44, 0.15, 0.02), faces=STANDING).at(0.0, -0.15, _DESK_M, float(rng.normal(0, 0.1))),
        "keys",
    )
    for _ in range(3):
        x = float(rng.uniform(-0.7, 0.7))
        y = float(rng.uniform(-0.32, -0.26))
        size = (float(rng.uniform(0.1, 0.22)), 0.1, float(rng.uniform(0.03, 0.16)))
        thing.add(
            box(size, faces=STANDING).at(x, y, _DESK_M, float(rng.uniform(-0.5, 0.5))),
            "books",
            warm(rng),
        )
    thing.add(box((0.2, 0.45, 0.42), faces=STANDING).at(0.55, 0.1, 0.0), "keys", (0.6, 0.6, 0.62))
    return thing


def chair(tint: Tint) -> Thing:
    """Build a swivel chair that looks along +y."""
    thing = Thing().add(box((0.46, 0.46, 0.08)).at(0.0, 0.0, 0.42), "cloth", tint)
    thing.add(box((0.44, 0.06, 0.5)).at(0.0, -0.24, 0.56), "cloth", tint)
    thing.add(box((0.08, 0.03, 0.2)).at(0.0, -0.285, 0.46), "plain", _BLACK)
    thing.add(lathe([(0.03, 0.08), (0.03, 0.42)], 8), "steel", _STEEL)
    for k in range(5):
        arm = box((0.3, 0.05, 0.04)).at(0.16, 0.0, 0.05)
        thing.add(arm.at(0.0, 0.0, 0.0, 2 * math.pi * k / 5), "plain", _BLACK)
        foot = box((0.05, 0.04, 0.05), faces=STANDING).at(0.29, 0.0, 0.0)
        thing.add(foot.at(0.0, 0.0, 0.0, 2 * math.pi * k / 5), "plain", _BLACK)
    return thing


def shelf(rng: np.random.Generator, width_m: float = 1.2) -> Thing:
    """Build an open shelf, 2 m high, with its back at -y."""
    thing = Thing()
    for x in (-0.5 * width_m, 0.5 * width_m):
        thing.add(
            box((0.03, 0.36, 2.0), uv=1.0, faces=STANDING).at(x, 0.0, 0.0), "wood", (0.8, 0.8, 0.8)
        )
    thing.add(
        box((width_m - 0.03, 0.02, 1.9), uv=1.0, faces="yYzZ").at(0.0, -0.15, 0.05),
        "wood",
        (0.65, 0.65, 0.65),
    )
    for z in (0.06, 0.45, 0.84, 1.23, 1.62, 1.95):
        thing.add(
            box((width_m - 0.03, 0.34, 0.03), uv=1.0, faces="yYzZ").at(0.0, 0.0, z),
            "wood",
            (0.9, 0.9, 0.9),
        )
    for z in (0.09, 0.48, 0.87, 1.26, 1.65):
        x = -0.5 * width_m + 0.08
        while x < 0.5 * width_m - 0.3:
            w = float(rng.uniform(0.16, 0.34))
            h = float(rng.uniform(0.16, 0.27))
            surface = ("books", "cardboard", "books", "container", "crate")[int(rng.integers(0, 5))]
            uv = (0.0, 0.0, 0.6, 0.5) if surface == "books" else (0.0, 0.0, 1.0, 1.0)
            thing.add(
                box((w, 0.26, h), uv=uv, faces=STANDING).at(x + 0.5 * w, 0.0, z), surface, warm(rng)
            )
            x += w + float(rng.uniform(0.02, 0.1))
    return thing


def cabinet(tint: Tint) -> Thing:
    """Build a steel cabinet whose doors look along +y."""
    thing = Thing().add(
        box((0.9, 0.45, 1.8), uv=(0.0, 0.0, 0.9, 1.8), faces=STANDING), "plaster", tint
    )
    thing.add(box((0.01, 0.02, 1.7), faces="xXy").at(0.0, 0.22, 0.06), "plain", _BLACK)
    for x in (-0.06, 0.06):
        thing.add(box((0.02, 0.04, 0.18), faces="xXyzZ").at(x, 0.235, 0.9), "steel", _STEEL)
    for z in (0.3, 1.45):
        vent = box((0.28, 0.02, 0.14), uv=(0.0, 0.0, 1.0, 0.4)).at(-0.22, 0.22, z)
        thing.add(vent, "keys").add(vent.at(0.44, 0.0, 0.0), "keys")
    return thing


def truss(length_m: float, *, upright: bool = False) -> Thing:
    """Build a square truss, 0.2 m wide, of four tubes with diagonals.

    Along x, or on the floor along z.
    """
    thing = Thing()
    half = 0.5 * length_m
    corners = ((-0.1, 0.0), (0.1, 0.0), (0.1, 0.2), (-0.1, 0.2))

    def stand(bar: MeshBuilder) -> MeshBuilder:
        if not upright:
            return bar
        return bar.turned(_UPRIGHT).at(0.1, 0.0, half)

    for y, z in corners:
        thing.add(stand(tube([(-half, y, z), (half, y, z)], 0.025, 6)), "steel", (0.8, 0.81, 0.84))
    count = max(2, round(length_m / 0.4))
    steps = np.linspace(-half + 0.03, half - 0.03, count + 1)
    for (y0, z0), (y1, z1) in zip(corners, corners[1:] + corners[:1], strict=True):
        for k in range(count):
            a, b = ((y0, z0), (y1, z1)) if k % 2 else ((y1, z1), (y0, z0))
            bar = tube([(steps[k], *a), (steps[k + 1], *b)], 0.012, 4)
            thing.add(stand(bar), "steel", (0.7, 0.71, 0.74))
    return thing


def wall_camera(pitch_rad: float) -> Thing:
    """Build a motion capture camera below its mount at the origin.

    Looks along +x, down by ``pitch_rad``.
    """
    thing = Thing().add(box((0.03, 0.03, 0.14)).at(0.0, 0.0, -0.14), "steel", _STEEL)
    return _camera(thing, pitch_rad, -0.2)


def tripod_camera(height_m: float, pitch_rad: float) -> Thing:
    """Build a motion capture camera on a tripod; looks along +x, down by ``pitch_rad``."""
    thing = Thing()
    for k in range(3):
        angle = 2 * math.pi * k / 3 + math.pi
        foot = (0.42 * math.cos(angle), 0.42 * math.sin(angle), 0.0)
        thing.add(
            tube(
                [foot, (0.03 * math.cos(angle), 0.03 * math.sin(angle), 0.6 * height_m)], 0.018, 5
            ),
            "plain",
            _BLACK,
        )
    thing.add(lathe([(0.022, 0.45 * height_m), (0.022, height_m - 0.07)], 6), "steel", _STEEL)
    thing.add(
        lathe([(0.05, 0.58 * height_m), (0.05, 0.66 * height_m), (0.0, 0.66 * height_m)], 8),
        "plain",
        _BLACK,
    )
    return _camera(thing, pitch_rad, height_m)


def pillar(height_m: float, tint: Tint) -> Thing:
    """Build an obstacle of foam on a foot plate."""
    thing = Thing().add(box((0.5, 0.5, 0.02), uv=1.0, faces=STANDING), "wood")
    return thing.add(
        lathe([(0.14, 0.02), (0.14, height_m), (0.0, height_m)], 14, uv=(0.0, 0.0, 0.3, 1.0)),
        "gate",
        tint,
    )


def _camera(thing: Thing, pitch_rad: float, z_m: float) -> Thing:
    c = math.cos(pitch_rad)
    s = math.sin(pitch_rad)
    down = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])

    def aimed(mesh: MeshBuilder) -> MeshBuilder:
        return mesh.at(0.0, 0.0, -0.07).turned(down).at(0.0, 0.0, z_m)

    thing.add(aimed(box((0.12, 0.14, 0.14), faces="XyYzZ")), "plain", (0.24, 0.25, 0.28))
    return thing.add(aimed(box((0.12, 0.14, 0.14), faces="x")), "lens")
