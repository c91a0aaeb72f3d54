"""Answers to clients of the original FlightGoggles for modalities and shutters that they do not
know.
"""

from __future__ import annotations

import colorsys
import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.support.flightgoggles import (
    FISHEYE,
    FRONT,
    ask,
    drawing,
    golden,
    message_of,
    pose_at,
    strict_read,
    view,
)
from vil_bridge.core.camera_model import Effects
from vil_bridge.core.types import (
    BoolArray,
    ImageArray,
    Modality,
    RenderedImage,
)
from vil_renderer.colour_views import (
    depth_to_grey,
    flow_to_colour,
    ids_to_colour,
    normals_to_colour,
)
from vil_renderer.flightgoggles.codec import (
    decode_images,
    decode_pose,
    encode_images,
)
from vil_renderer.flightgoggles.convert import read_answer
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest, read_pose, write_answer
from vil_renderer.flightgoggles.messages import PoseMessage


def stranger(version: int, **camera: Any) -> PoseMessage:
    message = decode_pose(golden(f"pose_v{version}.json"))
    message.camWidth, message.camHeight = 10, 6
    message.cameras = [msgspec.structs.replace(message.cameras[0], **camera)]
    return message


def for_stranger(
    message: PoseMessage, draw: ImageArray, valid: BoolArray | None = None
) -> tuple[ImageArray, int]:
    """What the strict reader of v3 gets, and the channels that were announced."""
    (one,), _ = read_pose(message)
    header, pictures = write_answer(
        message, (one,), RenderedRequest((RenderedImage(one, draw, valid),)), 1
    )
    told, (pixels,) = strict_read(3, [bytes(frame) for frame in encode_images(header, pictures)])
    return pixels, told["channels"][0]


def test_a_lens_is_more_than_an_original_renderer_can_draw() -> None:
    request = ask(1, [view(replace(FRONT, pinhole_px=(4.0, 4.0, 3.0, 2.0)))])
    header, pictures = write_answer(
        message_of(request), request.views, RenderedRequest((drawing(request.views[0]),)), 1
    )
    original = msgspec.structs.replace(header, vil=msgspec.UNSET)
    frame, problems = read_answer(*decode_images(encode_images(original, pictures)), request, 0)
    assert frame.images == () and "lens" in problems[0]


@pytest.mark.parametrize(
    ("shader", "modality"),
    [
        (0, Modality.INSTANCE),
        (1, Modality.SEMANTIC),
        (2, Modality.DEPTH),
        (4, Modality.NORMALS),
        (6, Modality.FLOW),
    ],
)
def test_strangers_get_three_bytes_per_pixel(shader: int, modality: Modality) -> None:
    message = stranger(3, outputShaderType=shader)
    (one,), _ = read_pose(message)
    assert (one.modality, one.due) == (modality, True)
    drawn = drawing(one)
    pixels, channels = for_stranger(message, drawn.pixels, drawn.valid)
    assert channels == 3 and pixels.shape == (6, 10, 3)
    views = {
        **dict.fromkeys((0, 1), lambda: ids_to_colour(drawn.pixels)),
        2: lambda: depth_to_grey(drawn.pixels),
        4: lambda: normals_to_colour(drawn.pixels),
        6: lambda: flow_to_colour(drawn.pixels, drawn.valid),
    }
    assert np.array_equal(pixels, views[shader]())


@pytest.mark.parametrize(
    ("percent", "shutter"), [(0.0, 0.0), (0.25, 0.25), (7.0, 1.0), (-1.0, 0.0)]
)
def test_motion_blur_of_v3_is_a_shutter(percent: float, shutter: float) -> None:
    (one,), _ = read_pose(stranger(3, motionBlurPercent=percent))
    assert one.camera.effects == Effects(shutter=shutter)


def test_our_shutter_is_the_motion_blur_of_v3() -> None:
    (camera,) = message_of(ask(1, [view(FISHEYE)])).cameras
    assert camera.motionBlurPercent == 0.5


def test_the_shaders_asked_of_an_original_renderer() -> None:
    cameras = message_of(ask(1, [view(modality=modality) for modality in Modality])).cameras
    asked = {
        modality: camera.outputShaderType
        for modality, camera in zip(Modality, cameras, strict=True)
    }
    assert asked == {
        Modality.RGB: -1,
        Modality.GRAY: 5,
        Modality.DEPTH: 3,
        Modality.DEPTH32: -1,
        Modality.NORMALS: 4,
        Modality.SEMANTIC: 1,
        Modality.INSTANCE: 0,
        Modality.FLOW: 6,
        Modality.RGBA: -1,
    }


# --- colours for the eye ------------------------------------------------------------------------


def test_each_id_has_a_colour_of_its_own() -> None:
    colours = (
        ids_to_colour(np.arange(65536, dtype=np.uint16).reshape(256, 256))
        .reshape(-1, 3)
        .astype(np.int64)
    )
    assert len({tuple(c) for c in colours.tolist()}) == 65536
    assert colours[0].tolist() == [0, 0, 0]
    assert np.abs(np.diff(colours[:64], axis=0)).max(axis=1).min() > 60, "neighbours differ visibly"


@pytest.mark.parametrize("angle_deg", range(0, 360, 30))
def test_flow_is_hue_and_brightness(angle_deg: int) -> None:
    angle, length_px = math.radians(angle_deg), 8.0
    flow = np.empty((4, 5, 2), np.float32)
    flow[...] = length_px * np.array([math.cos(angle), math.sin(angle)])
    hue = math.atan2(-flow[0, 0, 1], -flow[0, 0, 0]) / (2 * math.pi) + 0.5
    expected = 255 * np.array(colorsys.hsv_to_rgb(hue % 1.0, 1.0, 0.25))
    valid = np.ones((4, 5), np.bool_)
    valid[0] = False
    got = flow_to_colour(flow, valid)
    assert np.abs(got[1:] - expected).max() <= 1.0
    assert (got[0] == 0).all()
    assert flow_to_colour(100 * flow).max() == 255


def test_normals_and_depth_as_bytes() -> None:
    normals = np.zeros((1, 4, 3), np.float16)
    normals[0, 0], normals[0, 1], normals[0, 2] = (1, 0, 0), (0, -1, 0), (0, 0, -1)
    assert normals_to_colour(normals).tolist() == [
        [[255, 128, 128], [128, 0, 128], [128, 128, 0], [128] * 3]
    ]
    depth = np.array([[65535, 0, 4096]], np.uint16)
    assert depth_to_grey(depth).tolist() == [
        [[255] * 3, [0] * 3, [round(255 * (4096 / 65535) ** 0.25)] * 3]
    ]


def test_a_stranger_may_call_a_camera_as_it_likes() -> None:
    message = stranger(3, ID="left/depth", outputShaderType=3)
    (one,), _ = read_pose(message)
    assert one.camera.name == "left/depth"
    assert one.T_world_camera.p_m.shape == pose_at(0, 0, 0).p_m.shape
