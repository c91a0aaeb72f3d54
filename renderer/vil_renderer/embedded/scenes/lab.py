"""The laboratory: 8 x 6 x 3.2 m with a motion capture system.

Free to fly in x +-2.2, y +-1.6, z 0.3..2.4.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_renderer.embedded.assets.model import UvRect
from vil_renderer.embedded.scene import Environment, Scene
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing
from vil_renderer.embedded.scenes.furniture import (
    cabinet,
    chair,
    desk,
    pillar,
    shelf,
    tripod_camera,
    truss,
    wall_camera,
)
from vil_renderer.embedded.scenes.gates import add_gate
from vil_renderer.embedded.scenes.goods import board, cone, lamp_panel, poster, stack
from vil_renderer.embedded.scenes.rooms import RoomSize, add_ceiling, add_floor, add_walls
from vil_renderer.embedded.scenes.shapes import STANDING, UV_WHOLE, box

_ROOM: Final = RoomSize(8.0, 6.0, 3.2)
_TRUSS_Z_M: Final = 2.72
_QUARTER: Final = 0.5 * math.pi


def build_lab() -> Scene:
    """Place everything; the same at every call."""
    rng = np.random.default_rng(11)
    builder = SceneBuilder("lab")
    add_floor(builder, rng, _ROOM, (4, 3), ("vinyl",), 0.5)
    upper = ("plaster", "acoustic", "plaster_worn", "acoustic_worn", "plaster_worn")
    rows = ((1.0, ("trunking", "trunking_worn")), (3.2, upper))
    add_walls(builder, rng, _ROOM, (4, 3), rows, 0.5)
    add_ceiling(builder, rng, _ROOM, (3, 2), ("ceiling_tiles",), 0.6)
    _mats(rng, builder)
    _lamps(builder)
    _capture_system(builder)
    _desks(rng, builder)
    _storage(rng, builder)
    _boards(builder)
    _obstacles(rng, builder)
    return builder.scene(
        Environment(
            sky=np.array([0.52, 0.53, 0.54]), ground=np.array([0.40, 0.39, 0.37]), exposure=1.2
        )
    )


def _mats(rng: np.random.Generator, builder: SceneBuilder) -> None:
    tints = ((0.55, 0.75, 0.95), (0.95, 0.8, 0.5), (0.8, 0.85, 0.85), (0.6, 0.85, 0.65))
    for column in range(5):
        for row in range(4):
            mat = box((0.996, 0.996, 0.02), faces=STANDING)
            thing = Thing().add(
                mat,
                ("mat", "mat_worn")[int(rng.integers(0, 2))],
                tints[(column + row + int(rng.integers(0, 2))) % 4],
            )
            turn = _QUARTER * int(rng.integers(0, 4))
            builder.put("Mat", "floor", thing, (column - 2.0, row - 1.5, 0.0), turn)


def _lamps(builder: SceneBuilder) -> None:
    for x in (-2.6, 0.0, 2.6):
        for y in (-1.4, 1.4):
            builder.add_lamp(lamp_panel(1.2, 0.24), (x, y, 3.0), (2.0, 1.93, 1.8), (0.9, 1.45), 8.0)


def _capture_system(builder: SceneBuilder) -> None:
    """Add a truss all around below the ceiling with twelve cameras, and four tripods."""
    for y in (-2.6, 2.6):
        builder.put("Truss", "structure", truss(7.0), (0.0, y, _TRUSS_Z_M))
        for x in (-3.2, -1.6, 0.0, 1.6, 3.2):
            _look_in(builder, x, y)
    for x in (-3.6, 3.6):
        builder.put("Truss", "structure", truss(4.9), (x, 0.0, _TRUSS_Z_M), _QUARTER)
        _look_in(builder, x, 0.0)
    for x, y, height in ((-3.0, -2.35, 1.5), (3.1, -2.3, 1.3), (-2.9, 1.75, 1.7), (3.0, 1.7, 1.2)):
        thing = tripod_camera(height, 0.15)
        builder.put("Tripod", "machine", thing, (x, y, 0.0), math.atan2(-y, -x))


def _look_in(builder: SceneBuilder, x: float, y: float) -> None:
    pitch = math.atan2(_TRUSS_Z_M - 1.2, math.hypot(x, y))
    builder.put("Camera", "machine", wall_camera(pitch), (x, y, _TRUSS_Z_M), math.atan2(-y, -x))


def _desks(rng: np.random.Generator, builder: SceneBuilder) -> None:
    for x, screens in ((-1.8, 2), (0.0, 1), (1.8, 2)):
        builder.put("Desk", "furniture", desk(rng, screens), (x, 2.54, 0.0))
    for x, y, yaw, tint in (
        (-1.9, 2.0, 0.3, (0.3, 0.35, 0.5)),
        (1.6, 2.0, -0.5, (0.5, 0.25, 0.25)),
    ):
        builder.put("Chair", "furniture", chair(tint), (x, y, 0.0), yaw)


def _storage(rng: np.random.Generator, builder: SceneBuilder) -> None:
    for y in (-1.3, 0.05, 1.4):
        builder.put("Shelf", "furniture", shelf(rng), (-3.77, y, 0.0), -_QUARTER)
    for y, tint in ((-2.45, (0.75, 0.8, 0.9)), (1.9, (0.9, 0.8, 0.65))):
        builder.put("Cabinet", "furniture", cabinet(tint), (3.74, y, 0.0), _QUARTER)
    for number, (x, y, sides) in enumerate(
        ((-3.4, 2.5, (0.6, 0.45, 0.35)), (0.3, -2.65, (0.5, 0.4)), (1.1, -2.7, (0.4,)))
    ):
        for thing, z, yaw in stack(rng, sides, number):
            builder.put("Crate", "box", thing, (x, y, z), 0.4 * yaw)


def _boards(builder: SceneBuilder) -> None:
    """Add the boards on the walls.

    Name, class, x, y, z of the centre, yaw, size and surface of each.
    """
    wall: tuple[
        tuple[str, str, float, float, float, float, tuple[float, float], str, UvRect], ...
    ] = (
        ("Door", "door", -2.5, -3.0, 1.05, _QUARTER, (0.95, 2.1), "door", UV_WHOLE),
        ("Window", "window", -0.4, -3.0, 1.75, _QUARTER, (1.5, 1.2), "lab_window", UV_WHOLE),
        (
            "Window",
            "window",
            1.5,
            -3.0,
            1.75,
            _QUARTER,
            (1.5, 1.2),
            "lab_window",
            (1.0, 0.0, 0.0, 1.0),
        ),
        ("Whiteboard", "sign", 4.0, -0.4, 1.55, math.pi, (2.4, 1.3), "whiteboard", UV_WHOLE),
        ("Poster", "sign", 4.0, 1.25, 1.7, math.pi, (0.6, 0.9), "paper", UV_WHOLE),
        ("Poster", "sign", 3.0, -3.0, 1.6, _QUARTER, (0.8, 0.8), "tags", UV_WHOLE),
        ("Poster", "sign", -3.5, -3.0, 1.7, _QUARTER, (0.6, 0.8), "paper", UV_WHOLE),
        ("Poster", "sign", -2.7, 3.0, 1.9, -_QUARTER, (0.8, 0.8), "aruco", UV_WHOLE),
        ("Poster", "sign", -1.2, 3.0, 1.9, -_QUARTER, (0.7, 1.0), "paper_second", UV_WHOLE),
        ("Poster", "sign", 0.0, 3.0, 2.0, -_QUARTER, (1.0, 0.8), "banner", UV_WHOLE),
        ("Poster", "sign", 1.2, 3.0, 1.9, -_QUARTER, (0.8, 0.8), "checkers", UV_WHOLE),
        ("Poster", "sign", 2.7, 3.0, 1.8, -_QUARTER, (0.9, 1.1), "paper", UV_WHOLE),
        ("Poster", "sign", -4.0, 2.35, 1.9, 0.0, (0.7, 0.7), "paper", UV_WHOLE),
        ("Poster", "sign", -4.0, -2.4, 1.7, 0.0, (0.8, 1.0), "banner", UV_WHOLE),
        ("Poster", "sign", 4.0, 2.55, 2.1, math.pi, (0.5, 0.7), "paper_second", UV_WHOLE),
    )
    for kind, semantic, x, y, z, yaw, size, surface, uv in wall:
        builder.put(kind, semantic, poster(size, surface, uv), (x, y, z), yaw)


def _obstacles(rng: np.random.Generator, builder: SceneBuilder) -> None:
    add_gate(builder, (2.85, 0.1, 1.35), 0.0, opening_m=(0.8, 0.8), bar_m=(0.12, 0.1))
    add_gate(
        builder,
        (-2.85, -0.3, 1.2),
        3.0,
        opening_m=(0.8, 0.8),
        bar_m=(0.12, 0.1),
        tint=(0.6, 0.9, 1.0),
    )
    for x, y, height, tint in (
        (2.8, 1.1, 1.5, (0.7, 0.85, 1.0)),
        (-2.8, 0.75, 1.2, (1.0, 0.9, 0.6)),
    ):
        builder.put("Pillar", "prop", pillar(height, tint), (x, y, 0.0))
    target = Thing().add(board(0.03, 0.96, 0.96).at(0.0, 0.0, 0.35), "aprilgrid")
    for y in (-0.3, 0.3):
        target.add(box((0.4, 0.05, 0.35), faces=STANDING).at(0.0, y, 0.0), "wood")
    builder.put("Target", "sign", target, (2.8, -1.3, 0.0), 2.7)
    for x, y in ((-2.7, -1.9), (2.7, 2.05), (2.0, -2.2)):
        builder.put("Cone", "prop", cone(), (x, y, 0.0), float(rng.uniform(0, 1.5)))
