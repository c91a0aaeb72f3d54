"""The garage: a level of 35 x 26 x 3.4 m below ground: columns, bays, parked cars, a ramp.

Free above both aisles.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_renderer.embedded.scene import Environment, Scene, SceneObject
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing, Tint
from vil_renderer.embedded.scenes.car import painted_car
from vil_renderer.embedded.scenes.goods import barrel, cone, lamp_panel, pallet, poster, stack
from vil_renderer.embedded.scenes.rooms import RoomSize, add_ceiling, add_walls
from vil_renderer.embedded.scenes.shapes import STANDING, UV_WHOLE, box, lathe, panel, tube

_ROOM: Final = RoomSize(35.0, 26.0, 3.4)
_BAY_M: Final = 5.0
"""Length of a bay, and width of two."""
_RAMP: Final = (5.0, 15.0, 1.6)
"""x where it begins and where it ends, and its height there; it lies along the northern wall."""
_QUARTER: Final = 0.5 * math.pi
_PAINTS: Final[tuple[Tint, ...]] = (
    (0.72, 0.10, 0.08), (0.16, 0.26, 0.42), (0.82, 0.83, 0.85), (0.20, 0.21, 0.23),
    (0.36, 0.44, 0.36),
)  # fmt: skip


def build_garage() -> Scene:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(61)
    builder = SceneBuilder("garage")
    _floor(builder)
    add_walls(
        builder, rng, _ROOM, (7, 6), ((3.4, ("garage_wall", "concrete", "garage_wall")),), 0.8
    )
    add_ceiling(builder, rng, _ROOM, (7, 5), ("concrete",), 1.0)
    _columns(builder)
    _ramp(builder)
    _cars(rng, builder)
    _services(builder)
    _signs(builder)
    _loose(rng, builder)
    for x in (-13.0, -4.4, 4.4, 13.0):
        for y in (-5.25, 5.25):
            builder.add_lamp(lamp_panel(1.5, 0.16), (x, y, 3.0), (4.2, 4.3, 4.0), (1.15, 1.5), 11.0)
    return builder.scene(
        Environment(
            sky=np.array([0.24, 0.25, 0.26]),
            ground=np.array([0.19, 0.18, 0.17]),
            sun=None,
            exposure=1.65,
        )
    )


def _floor(builder: SceneBuilder) -> None:
    """Lay bays along both walls and back to back in the middle, and aisles between them."""
    section: SceneObject | None = None
    behind = 0.15
    for number, x in enumerate(np.arange(-17.5, 17.0, _BAY_M)):
        left = float(x)
        wide = _BAY_M
        if number == 0:
            left -= behind
            wide += behind
        if number == 6:
            wide += behind
        for low, high, surface, turned in (
            (-13.15, -8.0, "garage_bays", False), (-8.0, -2.5, "garage_floor", False),
            (-2.5, 0.0, "concrete", False), (0.0, 2.5, "concrete", False),
            (2.5, 8.0, "garage_floor", True), (8.0, 13.15, "garage_bays_more", True),
        ):  # fmt: skip
            sheet = panel((left, low, 0.0), (wide, 0.0, 0.0), (0.0, high - low, 0.0), cell_m=0.6)
            if turned:
                corner = (left + wide, high, 0.0)
                right = (-wide, 0.0, 0.0)
                up = (0.0, low - high, 0.0)
                sheet = panel(corner, right, up, cell_m=0.6)
            section = builder.put(
                "Floor",
                "floor",
                Thing().add(sheet, surface),
                casts_shadow=False,
                section_of=section,
            )


def _columns(builder: SceneBuilder) -> None:
    """Set columns at the ends of the bays, with beams across."""
    for x in (-12.5, -7.5, -2.5, 2.5, 7.5, 12.5):
        for y in (-8.0, -2.5, 2.5, 8.0):
            if y == 8.0 and x > 2.5:
                continue  # the ramp's
            column = box((0.45, 0.45, 3.4), faces="xXyY", uv=(0.0, 0.0, 0.5, 1.0), cell_m=0.7)
            builder.put("Column", "structure", Thing().add(column, "garage_column"), (x, y, 0.0))
        beam = box((0.4, 26.0, 0.36), uv=3.0, cell_m=1.0, faces="xXZ")
        builder.put(
            "Beam", "structure", Thing().add(beam, "concrete", (0.92, 0.92, 0.92)), (x, 0.0, 3.04)
        )


def _ramp(builder: SceneBuilder) -> None:
    """Build the ramp to the next half level, with its landing, its parapet and a shutter at the
    end.
    """
    x0, x1, top = _RAMP
    thing = Thing()
    thing.add(
        panel((x0, 9.0, 0.0), (x1 - x0, 0.0, top), (0.0, 4.0, 0.0), uv=4.0, cell_m=0.8), "concrete"
    )
    thing.add(
        panel((x1, 9.0, top), (2.5, 0.0, 0.0), (0.0, 4.0, 0.0), uv=4.0, cell_m=0.8), "garage_floor"
    )
    for k in range(10):
        high = top * (k + 1) / 10.0
        left = x0 + k * (x1 - x0) / 10.0
        wall = box(
            (1.0, 0.2, 0.9 + high), uv=3.0, cell_m=1.0, faces="yYz" + ("X" if k == 0 else "")
        )
        thing.add(wall.at(left + 0.5, 8.9, 0.0), "concrete", (0.95, 0.93, 0.90))
    parapet = box((2.5, 0.2, 0.9 + top), uv=3.0, cell_m=1.0, faces="yYz")
    thing.add(parapet.at(x1 + 1.25, 8.9, 0.0), "concrete", (0.95, 0.93, 0.90))
    builder.put("Ramp", "structure", thing)
    shutter = poster((3.4, 1.7), "wall_sheet", UV_WHOLE)
    builder.put("Shutter", "door", shutter, (17.5, 11.0, top + 0.87), math.pi)
    stripes = Thing().add(box((0.24, 0.24, 1.1), faces=STANDING), "garage_column")
    builder.put("Bollard", "pole", stripes, (x0 - 0.35, 8.9, 0.0))


def _cars(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Park cars in some of the bays, some of them backwards."""
    first: dict[int, SceneObject] = {}
    bays = [(-16.25 + 2.5 * k, -10.6, 1) for k in (0, 1, 3, 6, 7, 10, 12)]
    bays += [(-16.25 + 2.5 * k, 10.6, -1) for k in (1, 2, 5, 7)]
    for number, (x, y, way) in enumerate(bays):
        paint = number % len(_PAINTS)
        yaw = -way * _QUARTER * (1 if rng.integers(0, 3) else -1) + float(rng.uniform(-0.03, 0.03))
        at = (x + float(rng.uniform(-0.12, 0.12)), y + float(rng.uniform(-0.2, 0.2)), 0.0)
        if paint in first:
            builder.put_again(first[paint], at, yaw)
        else:
            first[paint] = builder.put("Car", "vehicle", painted_car(_PAINTS[paint], 12), at, yaw)


def _services(builder: SceneBuilder) -> None:
    """Hang pipes, a duct and trays of cables below the ceiling."""
    for y, z, radius, tint in (
        (-3.3, 2.88, 0.07, (0.75, 0.18, 0.14)), (3.4, 2.86, 0.09, (0.62, 0.64, 0.66)),
        (7.3, 2.9, 0.05, (0.25, 0.45, 0.75)), (-7.2, 2.9, 0.06, (0.62, 0.64, 0.66)),
    ):  # fmt: skip
        path = [(float(x), y, z) for x in np.linspace(-17.4, 17.4, 19)]
        pipe = Thing().add(tube(path, radius, 8), "container", tint)
        for x in np.linspace(-16.0, 16.0, 9):
            pipe.add(
                box((0.05, 0.03, 3.4 - z), faces="xXyY", cell_m=1.0).at(float(x), y, z),
                "steel",
                (0.4, 0.4, 0.42),
            )
        builder.put("Pipe", "structure", pipe)
    duct = box((34.8, 0.7, 0.35), uv=2.0, cell_m=1.2, faces="yYZ")
    builder.put(
        "Duct", "structure", Thing().add(duct, "ceiling_trays", (0.85, 0.88, 0.9)), (0.0, 0.0, 2.69)
    )
    for x in np.linspace(-15.0, 15.0, 11):
        head = lathe([(0.0, -0.1), (0.045, -0.08), (0.02, -0.03), (0.02, 0.0)], 7)
        builder.put("Sprinkler", "structure", Thing().add(head, "steel"), (float(x), -3.3, 2.82))


def _signs(builder: SceneBuilder) -> None:
    """Hang lit signs over the aisles, and boards and doors on the walls."""
    for x, y, yaw in (
        (-9.0, -5.25, math.pi),
        (9.0, -5.25, 0.0),
        (-9.0, 5.25, math.pi),
        (0.0, 5.25, 0.0),
    ):
        sign = Thing().add(box((0.08, 1.3, 0.32), faces="xX"), "boards")
        sign.add(box((0.08, 1.3, 0.32), faces="yYzZ"), "plain", (0.2, 0.2, 0.22))
        sign.add(
            box((0.03, 0.03, 0.5), faces="xXyY").at(0.0, -0.5, 0.32), "steel", (0.4, 0.4, 0.42)
        )
        sign.add(box((0.03, 0.03, 0.5), faces="xXyY").at(0.0, 0.5, 0.32), "steel", (0.4, 0.4, 0.42))
        builder.put("Sign", "sign", sign, (x, y, 2.58), yaw)
    for kind, semantic, x, y, z, yaw, size, surface in (
        ("Door", "door", -17.5, 5.2, 1.1, 0.0, (1.1, 2.2), "door"),
        ("Door", "door", -17.5, -5.2, 1.5, 0.0, (3.6, 2.9), "wall_sheet"),
        ("Door", "door", 17.5, -5.2, 1.1, math.pi, (1.1, 2.2), "door"),
        ("Board", "sign", -17.5, 7.2, 1.7, 0.0, (1.2, 1.2), "banner"),
        ("Board", "sign", 17.5, -3.2, 1.7, math.pi, (1.2, 1.2), "paper"),
        ("Board", "sign", 17.5, 3.0, 1.7, math.pi, (1.6, 1.6), "banner"),
        ("Board", "sign", -6.25, -13.0, 2.2, _QUARTER, (1.4, 1.0), "boards_red"),
        ("Board", "sign", 6.25, -13.0, 2.2, _QUARTER, (1.4, 1.0), "boards"),
    ):
        builder.put(kind, semantic, poster(size, surface, UV_WHOLE), (x, y, z), yaw)


def _loose(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Leave wheel stops in the bays, and store things between the middle columns."""
    for k in range(14):
        for y in (-12.4, 12.4):
            x = -16.25 + 2.5 * k
            if y > 0.0 and x > 4.0:
                continue
            stop = Thing().add(box((1.6, 0.15, 0.1), faces=STANDING, cell_m=1.0), "garage_column")
            builder.put("Stop", "road", stop, (x, y, 0.0))
    for x, y, layers in ((-15.6, 0.4, 5), (-14.2, -0.6, 3), (5.4, 0.3, 6)):
        builder.put("Pallets", "box", pallet(layers), (x, y, 0.0), float(rng.uniform(-0.2, 0.2)))
    for number, (x, y, sides) in enumerate(
        ((-10.0, 0.2, (1.1, 0.8)), (-5.2, -0.5, (0.9, 0.6)), (10.0, 0.4, (1.2, 0.7)))
    ):
        for thing, z, yaw in stack(rng, sides, number):
            builder.put("Crate", "box", thing, (x, y, z), yaw)
    for x, y in ((0.2, 0.6), (0.9, -0.3), (15.0, 0.5)):
        builder.put("Barrel", "prop", barrel((0.25, 0.55, 0.3)), (x, y, 0.0), float(x))
    for x, y in ((-12.0, -3.2), (-2.0, 3.4), (3.6, 8.2), (12.4, -7.6), (7.0, 3.4)):
        builder.put("Cone", "prop", cone(), (x, y, 0.0), float(rng.uniform(0, 1.5)))
