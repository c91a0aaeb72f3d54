"""The race course.

Eleven gates in a hall of 60 x 36 x 10 m, with stands, boards and obstacles next to the track.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np

from vil_renderer.embedded.scene import Environment, Scene, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing, Tint
from vil_renderer.embedded.scenes.furniture import pillar, truss
from vil_renderer.embedded.scenes.gates import add_gate
from vil_renderer.embedded.scenes.goods import board, cone, container, lamp_panel, poster, stack
from vil_renderer.embedded.scenes.paint_race import number_uv
from vil_renderer.embedded.scenes.rooms import RoomSize, add_ceiling, add_floor, add_walls
from vil_renderer.embedded.scenes.shapes import STANDING, UV_WHOLE, box, lathe, panel, tube

_ROOM: Final = RoomSize(60.0, 36.0, 10.0)
_OPENING_M: Final = (1.8, 1.8)
_BAR_M: Final = (0.6, 0.3)
_QUARTER: Final = 0.5 * math.pi

_TRACK: Final = (
    (-15.0, -12.0, 2.2, 0.0), (-4.0, -13.0, 3.0, -0.05), (8.0, -11.5, 2.0, 0.15),
    (19.0, -8.0, 2.8, 0.6),
    (23.0, 2.0, 3.6, 1.5), (18.0, 11.0, 2.4, 2.5), (8.0, 11.5, 2.0, 3.4), (0.0, 5.0, 3.2, 3.8),
    (-8.0, 0.5, 2.0, 3.4), (-18.0, 3.5, 2.6, 3.3), (-24.0, -4.0, 1.9, 4.9),
)  # fmt: skip
"""x, y, z of each gate's centre and its yaw, in the order of the race."""

_PILLARS: Final = (
    (-9.5, -9.0), (2.0, -8.5), (13.5, -5.5), (17.0, 2.0), (13.0, 7.5),
    (3.0, 10.5), (-4.5, 6.0), (-13.0, -1.5), (-20.0, 8.0), (-18.0, -7.0),
)  # fmt: skip


def build_course() -> Scene:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(31)
    builder = SceneBuilder("course")
    floor = (
        "sports_floor",
        "sports_floor_lines",
        "sports_floor",
        "sports_floor_mark",
        "sports_floor_lines",
    )
    add_floor(builder, rng, _ROOM, (12, 8), floor, 0.9)
    rows = (
        (4.0, ("wall_block", "wall_board", "wall_brick")),
        (10.0, ("wall_sheet", "wall_window", "wall_sheet")),
    )
    add_walls(builder, rng, _ROOM, (12, 8), rows, 1.0)
    add_ceiling(builder, rng, _ROOM, (8, 6), ("ceiling_trays", "ceiling_tiles"), 1.5)
    _gates(builder)
    _roof(builder)
    _stands(builder)
    _boards(builder)
    _obstacles(rng, builder)
    _start(builder)
    return builder.scene(
        Environment(
            sky=np.array([0.48, 0.49, 0.52]),
            ground=np.array([0.36, 0.34, 0.31]),
            sun=Sun.towards((-0.35, 0.42, 0.84), (0.30, 0.29, 0.26)),
            exposure=1.3,
        )
    )


def _gates(builder: SceneBuilder) -> None:
    for number, (x, y, z, yaw) in enumerate(_TRACK, start=1):
        surface = "race_gate" if number % 2 else "race_gate_blue"
        add_gate(builder, (x, y, z), yaw, opening_m=_OPENING_M, bar_m=_BAR_M, surface=surface)
        plate = Thing().add(board(0.06, 0.7, 0.7, number_uv(number)), "numbers")
        builder.put("GateNumber", "sign", plate, (x, y, z + 0.5 * _OPENING_M[1] + _BAR_M[0]), yaw)


def _roof(builder: SceneBuilder) -> None:
    """Add beams across, lamps between them, and banners that hang from them."""
    for x in np.arange(-22.5, 23.0, 7.5):
        beam = box((0.3, 35.8, 0.7), uv=4.0, cell_m=1.5, faces="xXzZ")
        builder.put("Beam", "structure", Thing().add(beam, "wall_sheet"), (float(x), 0.0, 9.0))
    for x in (-22.0, -7.0, 7.0, 22.0):
        for y in (-9.0, 9.0):
            builder.add_lamp(
                lamp_panel(3.0, 0.8), (x, y, 8.4), (20.0, 19.0, 17.0), (0.9, 1.4), 22.0
            )
    for k, (x, y) in enumerate(((-15.0, -4.0), (0.0, -5.0), (15.0, 3.0), (-7.5, 8.0), (7.5, 1.0))):
        thing = Thing().add(board(0.04, 4.0, 2.6), ("banner", "boards", "boards_red")[k % 3])
        for side in (-1.8, 1.8):
            thing.add(
                tube([(0.0, side, 2.6), (0.0, side, 3.1)], 0.02, 5), "steel", (0.4, 0.4, 0.42)
            )
        builder.put("Banner", "sign", thing, (x, y, 5.9))


def _stands(builder: SceneBuilder) -> None:
    for x in (-20.0, -11.0, -2.0):
        builder.put("Stand", "furniture", _stand(8.6, 5), (x, 13.6, 0.0))
    builder.put("Stand", "furniture", _stand(8.6, 3), (12.0, -15.4, 0.0), math.pi)


def _stand(length_m: float, rows: int) -> Thing:
    """Build steps that rise towards +y, with seats and spectators who look along -y."""
    thing = Thing()
    for row in range(rows):
        y = 0.85 * row
        z = 0.45 * (row + 1)
        thing.add(
            box((length_m, 0.85, z), uv=2.0, faces="xXYz", cell_m=1.0).at(0.0, y, 0.0), "pavers"
        )
        seat = box((length_m - 0.3, 0.4, 0.1), uv=(0.0, 0.0, 2.0, 0.4), cell_m=1.1, faces="xXYz")
        back = box((length_m - 0.3, 0.06, 0.5), uv=(0.0, 0.0, 2.0, 1.0), cell_m=1.1)
        thing.add(seat.at(0.0, y + 0.1, z + 0.32), "seats").add(
            back.at(0.0, y + 0.34, z + 0.36), "seats"
        )
        for x in np.linspace(-0.45 * length_m, 0.45 * length_m, 5):
            thing.add(
                box((0.08, 0.3, 0.34), faces="xXY").at(float(x), y + 0.12, z),
                "plain",
                (0.3, 0.3, 0.32),
            )
        low = 0.25 * (row % 4)
        start = 0.37 * row
        people = panel(
            (-0.5 * length_m + 0.2, y + 0.26, z + 0.42), (length_m - 0.4, 0.0, 0.0),
            (0.0, 0.0, 0.95),
            uv=(start, low + 0.01, start + (length_m - 0.4) / 3.8, low + 0.25), cell_m=1.5,
        )  # fmt: skip
        thing.add(people, "crowd")
    rail = [(x, -0.5, 1.0) for x in np.linspace(-0.5 * length_m, 0.5 * length_m, 9)]
    thing.add(tube(rail, 0.03, 6), "steel", (0.7, 0.7, 0.72))
    for x, y, z in rail[::2]:
        thing.add(tube([(x, y, 0.0), (x, y, z)], 0.03, 6), "steel", (0.7, 0.7, 0.72))
    return thing


def _boards(builder: SceneBuilder) -> None:
    """Add advertising along the walls and a screen at each end."""
    for k, x in enumerate((-24.0, -18.0, -12.0, -6.0, 0.0, 18.5, 24.5)):
        surface = ("boards", "boards_red")[k % 2]
        v = 0.25 * (k % 4)
        builder.put("Board", "sign", _standing_board(surface, v), (x, -16.2, 0.0), _QUARTER)
    for k, y in enumerate((-12.0, -6.0, 0.0, 6.0, 12.0)):
        surface = ("boards_red", "boards")[k % 2]
        v = 0.25 * (k % 4)
        builder.put("Board", "sign", _standing_board(surface, v), (28.2, y, 0.0), math.pi)
        builder.put("Board", "sign", _standing_board(surface, (v + 0.5) % 1.0), (-28.6, y, 0.0))
    for x, yaw in ((30.0, math.pi), (-30.0, 0.0)):
        for y, surface in ((-8.0, "screen_plot"), (0.0, "banner"), (8.0, "screen_code")):
            builder.put("Screen", "sign", poster((5.0, 3.2), surface, UV_WHOLE), (x, y, 5.4), yaw)
    for k, x in enumerate((-24.0, -12.0, 0.0, 12.0, 24.0)):
        pairs = (
            ("tags", "tags_116"),
            ("paper",) * 2,
            ("banner",) * 2,
            ("tags_132", "tags_148"),
            ("paper",) * 2,
        )
        right, left = pairs[k]
        builder.put(
            "Poster", "sign", poster((3.2, 3.2), right, UV_WHOLE), (x, -18.0, 5.6), _QUARTER
        )
        builder.put("Poster", "sign", poster((3.2, 3.2), left, UV_WHOLE), (x, 18.0, 6.2), -_QUARTER)


def _standing_board(surface: str, v: float) -> Thing:
    """Build a board, 5 x 1 m, that looks along +x."""
    thing = Thing().add(board(0.08, 5.0, 1.0, (0.0, v, 1.0, v + 0.25)), surface)
    for y in (-2.0, 0.0, 2.0):
        thing.add(
            box((0.5, 0.06, 0.05), faces=STANDING).at(-0.25, y, 0.0), "steel", (0.4, 0.4, 0.42)
        )
    return thing


def _obstacles(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Add cones below the straight lines between the gates, and obstacles next to them."""
    for (x0, y0, *_), (x1, y1, *_) in pairwise((*_TRACK, _TRACK[0])):
        for share in (0.33, 0.67):
            x = x0 + share * (x1 - x0)
            y = y0 + share * (y1 - y0)
            builder.put("Cone", "prop", cone(), (x, y, 0.0), float(rng.uniform(0, 1.5)))
    tints: tuple[Tint, ...] = ((1.0, 1.0, 1.0), (0.7, 0.85, 1.0), (1.0, 0.9, 0.6))
    for k, (x, y) in enumerate(_PILLARS):
        builder.put("Pillar", "prop", pillar(3.2 + 0.4 * (k % 3), tints[k % 3]), (x, y, 0.0))
    for x, y in (
        (25.5, -9.0),
        (26.5, -3.0),
        (24.0, 13.5),
        (21.0, 15.0),
        (-27.0, 9.0),
        (-26.5, -11.5),
        (13.0, 15.5),
    ):
        builder.put("Tyres", "prop", _tyres(5), (x, y, 0.0), float(rng.uniform(0, 6)))
    for x, y, yaw, tint in (
        (25.0, -14.0, 0.3, (0.35, 0.62, 0.86)),
        (4.0, 0.0, 0.5, (0.90, 0.74, 0.34)),
        (-26.0, 14.0, 1.2, (0.82, 0.42, 0.30)),
    ):
        builder.put("Container", "container", container((4.0, 2.2, 2.4), tint), (x, y, 0.0), yaw)
    for number, (x, y, sides) in enumerate(
        (
            (10.0, -4.0, (1.2, 0.9, 0.6)),
            (-3.0, -4.5, (1.3, 1.0)),
            (9.0, 5.5, (1.1, 0.8)),
            (-13.0, 9.0, (1.2, 0.8)),
        )
    ):
        for thing, z, yaw in stack(rng, sides, number):
            builder.put("Crate", "box", thing, (x, y, z), yaw)


def _tyres(count: int) -> Thing:
    """Build tyres on one another."""
    thing = Thing()
    ring = [(0.2, 0.02), (0.3, 0.0), (0.34, 0.06), (0.34, 0.16), (0.3, 0.22), (0.2, 0.2)]
    for k in range(count):
        tint = (0.9, 0.25, 0.2) if k % 2 else (0.85, 0.85, 0.85)
        thing.add(lathe(ring, 14, uv=(0.0, 0.2, 2.0, 0.8)).at(0.0, 0.0, 0.22 * k), "wheel", tint)
    return thing


def _start(builder: SceneBuilder) -> None:
    """Add a podium, and an arch of trusses that the track passes on the way to the first gate."""
    podium = Thing().add(box((3.0, 3.0, 0.6), faces=STANDING, cell_m=0.6), "checkers")
    builder.put("Podium", "structure", podium, (-23.5, -12.0, 0.0))
    for y in (-15.0, -9.0):
        builder.put("Arch", "structure", truss(5.0, upright=True), (-19.5, y, 0.0))
    builder.put("Arch", "structure", truss(6.4), (-19.5, -12.0, 5.02), _QUARTER)
    title = Thing().add(board(0.06, 4.6, 0.8, (0.0, 0.0, 1.0, 0.25)), "boards_red")
    builder.put("Board", "sign", title, (-19.72, -12.0, 4.4))
