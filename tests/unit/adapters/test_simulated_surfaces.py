"""Surfaces near a camera.

Through the wire's extension and back, silence of those who do not know it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.embedded import renderer
from tests.support.flightgoggles import ask, drawing, message_of, view
from vil_bridge.core.geometry import Transform
from vil_bridge.core.near_surface import NearSurface
from vil_bridge.core.types import RenderedFrame, WorldSnapshot
from vil_renderer.flightgoggles.codec import decode_images, decode_pose, encode_images, encode_pose
from vil_renderer.flightgoggles.convert import read_answer
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest, read_pose, write_answer

WALL = NearSurface("front", "Wall2", np.array((10.0, -1.5, 2.5)), np.array((-0.6, 0.0, 0.8)))
FLOOR = NearSurface("front", "Floor", np.array((9.0, -1.5, 0.0)), np.array((0.0, 0.0, 1.0)))


def answered(near: tuple[NearSurface, ...] | None) -> RenderedFrame:
    request = ask(1, [replace(view(), reach_m=1.5)])
    views, _ = read_pose(decode_pose(encode_pose(message_of(request))))
    assert [v.reach_m for v in views] == [1.5]
    header, pictures = write_answer(
        message_of(request), views, RenderedRequest(tuple(map(drawing, views)), near=near), 7
    )
    frame, problems = read_answer(*decode_images(encode_images(header, pictures)), request, 99)
    assert problems == []
    return frame


def test_surfaces_come_back_as_they_were() -> None:
    near = answered((WALL, FLOOR)).near
    assert near is not None
    for told, real in zip(near, (WALL, FLOOR), strict=True):
        assert (told.camera, told.other) == (real.camera, real.other)
        assert np.allclose(told.p_world_m, real.p_world_m, rtol=0, atol=1e-12)
        assert np.allclose(told.normal_world, real.normal_world, rtol=0, atol=1e-12)


def test_nothing_near_is_told_and_is_something_else_than_nothing_told() -> None:
    assert answered(()).near == ()
    assert answered(None).near is None


def test_who_has_no_reach_sends_what_it_always_sent() -> None:
    assert b"reach" not in encode_pose(message_of(ask(1, [view()])))[1]


@pytest.mark.parametrize(
    "change",
    [
        {"camera": 5},
        {"position": [1.0, 2.0, 1e300]},
        {"normal": [0.0, 0.0, 0.0]},
        {"normal": [0.0, 3.0, 0.0]},
    ],
)
def test_surfaces_that_make_no_sense_are_left_out(change: dict[str, Any]) -> None:
    request = ask(1, [replace(view(), reach_m=1.5)])
    views, _ = read_pose(decode_pose(encode_pose(message_of(request))))
    header, pictures = write_answer(
        message_of(request), views, RenderedRequest(tuple(map(drawing, views)), near=(WALL,)), 7
    )
    head, *rest = encode_images(header, pictures)
    message = json.loads(bytes(head))
    message["vil"]["near"][0] |= change
    frame, _ = read_answer(*decode_images([json.dumps(message).encode(), *rest]), request, 99)
    assert frame.near == ()


@pytest.mark.gl
def test_the_scene_tells_what_is_near() -> None:
    drawn, nobody = renderer("hall"), WorldSnapshot(0, ())
    at = replace(view(), T_world_camera=Transform.of((0.0, 5.2, 1.5)), reach_m=1.0)
    (rack,) = drawn.near(at, nobody)
    assert np.allclose(rack.normal_world, (0.0, -1.0, 0.0), atol=1e-6)
    assert rack.p_world_m[1] == pytest.approx(5.88, abs=0.01)
    (floor,) = drawn.near(replace(at, T_world_camera=Transform.of((0.0, 0.0, 0.4))), nobody)
    assert np.allclose(floor.normal_world, (0.0, 0.0, 1.0), atol=1e-6)
    assert drawn.near(replace(at, T_world_camera=Transform.of((0.0, 0.0, 2.0))), nobody) == []
