"""The AlphaPilot final.

Its eleven gates where the challenge has them, in a works hall of 96 x 56 x 13 m of our own.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from vil_bridge.config.course import load_course
from vil_renderer.embedded.scene import Environment, Scene, Sun
from vil_renderer.embedded.scenes.builder import SceneBuilder, Thing
from vil_renderer.embedded.scenes.furniture import pillar
from vil_renderer.embedded.scenes.goods import container, lamp_panel, poster, stack
from vil_renderer.embedded.scenes.race import with_course
from vil_renderer.embedded.scenes.rooms import RoomSize, add_ceiling, add_floor, add_walls
from vil_renderer.embedded.scenes.shapes import UV_WHOLE, box

_ROOM: Final = RoomSize(96.0, 56.0, 13.0)
_QUARTER: Final = 0.5 * math.pi


def build_alphapilot() -> Scene:
    """Place everything; the same at every call. Nothing stands on the ways between the gates."""
    rng = np.random.default_rng(47)
    builder = SceneBuilder("alphapilot")
    add_floor(
        builder,
        rng,
        _ROOM,
        (20, 12),
        ("floor_plain", "floor_marked", "floor_plain", "floor_lane"),
        1.5,
    )
    rows = (
        (4.5, ("wall_block", "wall_brick")),
        (9.0, ("wall_sheet", "wall_window", "wall_sheet")),
        (13.0, ("wall_sheet",)),
    )
    add_walls(builder, rng, _ROOM, (20, 12), rows, 1.5)
    add_ceiling(builder, rng, _ROOM, (12, 8), ("ceiling_trays", "ceiling_tiles"), 2.0)
    _roof(builder)
    _sides(rng, builder)
    scene = builder.scene(
        Environment(
            sky=np.array([0.42, 0.43, 0.46]),
            ground=np.array([0.30, 0.28, 0.26]),
            sun=Sun.towards((0.45, -0.35, 0.82), (0.34, 0.32, 0.28)),
            exposure=1.3,
        )
    )
    return with_course(scene, load_course("alphapilot"))


def _roof(builder: SceneBuilder) -> None:
    """Add beams across the hall, and lamps between them."""
    for x in np.arange(-40.0, 41.0, 10.0):
        beam = box((0.4, 55.8, 0.9), uv=4.0, cell_m=2.0, faces="xXzZ")
        builder.put("Beam", "structure", Thing().add(beam, "wall_sheet"), (float(x), 0.0, 11.8))
    for x in (-36.0, -12.0, 12.0, 36.0):
        for y in (-12.0, 12.0):
            builder.add_lamp(
                lamp_panel(4.0, 1.0), (x, y, 11.2), (44.0, 42.0, 37.0), (1.0, 1.45), 34.0
            )


def _sides(rng: np.random.Generator, builder: SceneBuilder) -> None:
    """Add pillars, containers, crates and posters along the walls."""
    for k, x in enumerate(np.arange(-42.0, 43.0, 12.0)):
        for y in (-25.0, 25.5):
            builder.put(
                "Pillar",
                "prop",
                pillar(6.0, ((1.0, 1.0, 1.0), (1.0, 0.9, 0.6))[k % 2]),
                (float(x), y, 0.0),
            )
    tints = ((0.35, 0.62, 0.86), (0.90, 0.74, 0.34), (0.82, 0.42, 0.30), (0.45, 0.70, 0.45))
    for k, (x, y, yaw) in enumerate(
        (
            (-44.0, -20.0, 0.2),
            (-20.0, -22.0, 0.0),
            (6.0, -22.5, 0.1),
            (40.0, -18.0, 1.4),
            (44.0, 18.0, 1.6),
            (-14.0, 24.0, 0.0),
        )
    ):
        builder.put(
            "Container", "container", container((6.0, 2.4, 2.6), tints[k % 4]), (x, y, 0.0), yaw
        )
    for number, (x, y) in enumerate(((-32.0, -23.0), (18.0, -20.0), (30.0, 23.0), (-46.0, 4.0))):
        for thing, z, yaw in stack(rng, (1.3, 1.0), number):
            builder.put("Crate", "box", thing, (x, y, z), yaw)
    for k, x in enumerate((-36.0, -12.0, 12.0, 36.0)):
        surface = ("tags_116", "tags_132", "paper", "banner")[k]
        builder.put(
            "Poster", "sign", poster((4.0, 4.0), surface, UV_WHOLE), (x, -28.0, 6.0), _QUARTER
        )
        builder.put(
            "Poster", "sign", poster((4.0, 4.0), surface, UV_WHOLE), (x, 28.0, 6.0), -_QUARTER
        )
