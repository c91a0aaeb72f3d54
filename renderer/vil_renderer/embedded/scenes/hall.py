"""The hall: 20 x 14 x 6 m, every surface full of corners at several scales.

The drone flies in x -3..1, y -2.5..2.5, z 0.8..2.5 and a human walks around (4, 0): those volumes
stay free. Everything else is placed so that depth seen from there varies between 2 and 13 m.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_renderer.embedded.scene import Environment, Scene, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing
from vil_renderer.embedded.scenes.gates import add_gate
from vil_renderer.embedded.scenes.goods import (
    barrel,
    cone,
    container,
    forklift,
    lamp_panel,
    pallet,
    poster,
    rack,
    stack,
)
from vil_renderer.embedded.scenes.rooms import RoomSize, add_ceiling, add_floor, add_walls
from vil_renderer.embedded.scenes.shapes import box, lathe, tube

_ROOM: Final = RoomSize(20.0, 14.0, 6.0)
_LAMP_Z_M: Final = 4.9
_GATES: Final = (
    (6.0, 3.3, 1.75, -0.25, 1.3), (7.4, -2.9, 2.05, 0.30, 1.4), (1.9, -3.9, 2.6, 0.75, 1.2),
    (8.0, 0.6, 1.9, 0.0, 1.1), (-6.2, 3.2, 1.8, 2.7, 1.3), (-6.8, -2.4, 1.9, -2.6, 1.2),
)  # fmt: skip
"""x, y, z of the centre, yaw, side of the opening."""

_STACKS: Final = (
    (8.9, -5.9, (1.3, 1.0)), (7.9, -4.5, (0.9,)), (9.2, -3.9, (0.9, 0.7, 0.45)),
    (9.2, 1.9, (1.0, 0.8)),
    (9.3, 0.6, (0.7, 0.5)), (9.0, -1.3, (0.8, 0.6)), (8.2, -1.9, (0.55,)), (7.7, 2.7, (0.8, 0.6)),
    (6.2, 5.9, (1.2, 0.9, 0.6)), (5.0, 6.2, (0.8,)), (3.4, 6.1, (1.0, 0.6)), (3.6, 4.2, (0.6, 0.4)),
    (1.6, -5.9, (1.1, 0.8)), (0.4, -6.1, (0.7, 0.5)), (-1.2, -6.0, (1.2,)), (1.2, 4.6, (0.7,)),
    (-3.6, 6.0, (1.2, 0.9)), (-5.0, 5.9, (0.8, 0.8)), (-7.2, -5.7, (1.3, 0.9)),
    (-8.8, -5.6, (0.9, 0.6)),
    (-9.2, 2.0, (1.0, 0.7)), (-8.9, 3.2, (0.6,)), (-6.0, -4.2, (0.7, 0.5)), (2.4, -2.9, (0.5,)),
)  # fmt: skip
"""Centre x, y and the side of each crate from the bottom up."""


def build_hall() -> Scene:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(7)
    builder = SceneBuilder("hall")
    add_floor(
        builder,
        rng,
        _ROOM,
        (5, 4),
        ("floor_plain", "floor_lane", "floor_marked", "floor_plain"),
        0.4,
    )
    add_walls(
        builder, rng, _ROOM, (5, 4),
        ((3.0, ("wall_brick", "wall_block", "wall_board")), (6.0, ("wall_window", "wall_sheet"))),
        0.5,
    )  # fmt: skip
    add_ceiling(builder, rng, _ROOM, (5, 4), ("ceiling_tiles", "ceiling_trays"), 0.8)
    _structure(builder)
    _lamps(builder)
    _services(builder)
    _containers(builder)
    for number, (x, y, sides) in enumerate(_STACKS):
        for thing, z, yaw in stack(rng, sides, number):
            builder.put("Crate", "box", thing, (x, y, z), yaw)
    for x, y, length, yaw in (
        (0.0, 6.3, 4.2, 0.0),
        (-9.4, -1.5, 4.2, 0.5 * math.pi),
        (-4.6, -6.35, 3.4, 0.0),
    ):
        builder.put("Rack", "rack", rack(rng, length), (x, y, 0.0), yaw)
    _loose(rng, builder)
    _posters(rng, builder)
    for x, y, z, yaw, side in _GATES:
        add_gate(builder, (x, y, z), yaw, opening_m=(side, side), bar_m=(0.2, 0.2))
    return builder.scene(
        Environment(
            sky=np.array([0.42, 0.44, 0.48]),
            ground=np.array([0.32, 0.30, 0.27]),
            sun=Sun.towards((-0.46, 0.38, 0.80), (0.42, 0.39, 0.33)),
            exposure=1.35,
        )
    )


def _structure(builder: SceneBuilder) -> None:
    """Add columns, roof beams across and cable trays along."""
    for x in (-7.5, -2.5, 2.5, 7.5):
        for y in (-6.8, 6.8):
            column = box((0.36, 0.36, 6.0), faces="xXyY", uv=(0.0, 0.0, 0.2, 1.0), cell_m=0.6)
            builder.put(
                "Column",
                "structure",
                Thing().add(column, "container", (0.95, 0.62, 0.25)),
                (x, y, 0.0),
            )
        beam = box((0.24, 13.7, 0.5), uv=4.0, cell_m=0.7, faces="xXzZ")
        flange = box((0.34, 13.66, 0.04), uv=4.0, cell_m=0.7)
        roof = (
            Thing()
            .add(beam, "wall_sheet", (0.80, 0.84, 0.88))
            .add(flange.at(0.0, 0.0, -0.04), "wall_sheet")
        )
        builder.put("Beam", "structure", roof, (x, 0.0, 5.4))
    for y in (-3.5, 3.5):
        tray = box((19.7, 0.2, 0.2), uv=2.0, cell_m=0.8, faces="yYzZ")
        builder.put(
            "Tray", "structure", Thing().add(tray, "ceiling_trays", (0.9, 0.9, 0.9)), (0.0, y, 5.13)
        )


def _lamps(builder: SceneBuilder) -> None:
    for x in (-5.5, 0.0, 5.5):
        for y in (-3.5, 3.5):
            builder.add_lamp(lamp_panel(), (x, y, _LAMP_Z_M), (7.5, 7.0, 6.2), (0.9, 1.4), 12.0)


def _services(builder: SceneBuilder) -> None:
    """Add an air duct along one wall and pipes along the other."""
    duct = lathe([(0.25, 0.0), (0.25, 19.6)], 12, uv=(0.0, 0.0, 1.0, 12.0))
    along_x = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
    thing = Thing().add(duct.turned(along_x), "ceiling_trays", (0.95, 0.97, 1.0))
    for x in np.arange(1.6, 19.6, 2.4):
        collar = lathe([(0.25, 0.0), (0.29, 0.0), (0.29, 0.08), (0.25, 0.08)], 12)
        thing.add(collar.turned(along_x).at(float(x), 0.0, 0.0), "wall_sheet")
    builder.put("Duct", "structure", thing, (-9.8, 6.25, 4.95))
    for y, radius, tint in ((-6.5, 0.09, (0.75, 0.2, 0.15)), (-6.2, 0.06, (0.25, 0.45, 0.75))):
        path = [(float(x), y, 4.75) for x in np.linspace(-9.9, 9.9, 21)]
        builder.put("Pipe", "structure", Thing().add(tube(path, radius, 8), "container", tint))


def _containers(builder: SceneBuilder) -> None:
    for x, y, z, size, yaw, tint in (
        (8.4, 5.1, 0.0, (2.4, 2.9, 2.5), 0.0, (0.35, 0.62, 0.86)),
        (4.95, -5.5, 0.0, (4.8, 2.0, 2.5), 0.0, (0.82, 0.42, 0.30)),
        (5.6, -5.55, 2.5, (2.8, 1.8, 2.0), 0.12, (0.45, 0.70, 0.55)),
        (-8.3, 5.1, 0.0, (2.6, 2.6, 2.5), 0.0, (0.90, 0.74, 0.34)),
    ):
        builder.put("Container", "container", container(size, tint), (x, y, z), yaw)


def _loose(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Add objects that people leave behind."""
    builder.put("Forklift", "machine", forklift(), (-3.4, 4.2, 0.0), 0.4)
    for x, y, layers, yaw in ((-8.2, -4.2, 6, 0.2), (-1.4, 4.4, 3, -0.3), (3.9, -3.6, 2, 1.2)):
        builder.put("Pallets", "box", pallet(layers), (x, y, 0.0), yaw)
    colours = ((0.2, 0.4, 0.75), (0.75, 0.25, 0.2), (0.25, 0.55, 0.3))
    for k, (x, y) in enumerate(
        (
            (-4.3, -4.9),
            (-3.6, -5.0),
            (-3.9, -4.3),
            (6.5, 4.6),
            (0.0, -4.9),
            (-9.4, 1.0),
            (9.4, -2.6),
        )
    ):
        tint = colours[k % 3]
        builder.put("Barrel", "prop", barrel(tint), (x, y, 0.0), float(rng.uniform(0, 6)))
    for x, y in ((-3.2, -2.8), (-3.2, 2.8), (1.2, 2.8), (1.2, -2.8), (-1.0, 2.8), (-1.0, -2.8)):
        builder.put("Cone", "prop", cone(), (x, y, 0.0), float(rng.uniform(0, 1.5)))


def _posters(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Add two banners on the short walls, then posters in slots, so that none covers another."""
    for x, z, side, yaw in ((10.0, 3.75, 3.5, math.pi), (-10.0, 4.2, 3.0, 0.0)):
        builder.put(
            "Banner", "sign", poster((side, side), "banner", (0.0, 0.0, 1.0, 1.0)), (x, 0.0, z), yaw
        )
    surfaces = ("banner", "cardboard", "gate", "wall_board", "floor_marked")
    slots = [
        (x, y, -math.copysign(0.5 * math.pi, y))
        for x in (-8.6, -6.3, -4.1, -1.2, 1.2, 3.8, 6.2, 8.7)
        for y in (7.0, -7.0)
    ]
    slots += [
        (x, y, 0.0 if x < 0 else math.pi)
        for y in (-5.9, -4.3, -2.9, 2.9, 4.3, 5.9)
        for x in (10.0, -10.0)
    ]
    for k, (x, y, yaw) in enumerate(slots):
        for low, high in ((1.0, 2.2), (3.2, 4.1)):
            u, v = (float(a) for a in rng.uniform(0.0, 0.55, 2))
            side = float(rng.uniform(0.6, 1.1))
            z = float(rng.uniform(low, high))
            board = poster(
                (side, side), surfaces[int(rng.integers(0, 5))], (u, v, u + 0.42, v + 0.42)
            )
            if (k + (low > 2)) % 3:
                builder.put("Poster", "sign", board, (x, y, z), yaw)
