"""What travels under ``vil`` beyond the original protocol, and what strangers get instead."""

from __future__ import annotations

import colorsys
import json
import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.flightgoggles_support import FRONT, ask, golden, pose_at, same_mask, strict_read, view
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.optics import CameraModel, Distortion, Effects, LensModel
from vil_bridge.core.pixels import FORMAT_OF
from vil_bridge.core.types import (
    ActorKind,
    BoolArray,
    ImageArray,
    LampState,
    Lighting,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    View,
    WorldSnapshot,
)
from vil_renderer.colour_views import depth_to_grey, flow_to_colour, ids_to_colour, normals_to_colour
from vil_renderer.flightgoggles.codec import (
    decode_header,
    decode_images,
    decode_pose,
    decode_slot,
    encode_images,
    encode_pose,
)
from vil_renderer.flightgoggles.convert import PoseWriter, read_answer
from vil_renderer.flightgoggles.convert_renderer import Drawn, read_pose, write_answer
from vil_renderer.flightgoggles.messages import PoseMessage

PREFABS = dict.fromkeys(ActorKind, "")
FISHEYE = CameraModel(
    "fish",
    10,
    6,
    math.radians(80.0),
    (412.5, 410.25, 4.75, 2.5),
    Distortion(LensModel.EQUIDISTANT, (0.01, -0.02, 0.003, -0.0004)),
    Effects(shutter=0.5, exposure_ev=-1.5, auto_exposure=True, noise=2.0, vignetting=0.3, dirt=0.1),
)
WIDE = CameraModel(
    "wide", 10, 6, 1.2, None, Distortion(LensModel.PLUMB_BOB, (-0.28, 0.07, 0.0002, 1.8e-5, 0.0)), Effects(noise=1.0)
)
EVENING = Lighting(19.25, {"north": LampState(0.25, (1.0, 0.8, 0.6)), "south": LampState(0.0)})


def drawing(one: View) -> RenderedImage:
    """A picture of any modality in which no pixel is like another."""
    form = FORMAT_OF[one.modality]
    shape = form.shape(one.camera.width_px, one.camera.height_px)
    ramp: ImageArray = (np.arange(math.prod(shape)).reshape(shape) % 251 + 1).astype(form.dtype)
    valid: BoolArray | None = ramp[..., 0] % 3 > 0 if form.masked else None
    return RenderedImage(one, ramp, valid)


def message_of(request: RenderRequest) -> PoseMessage:
    return PoseWriter("Hall", PREFABS).message(request)


def received(request: RenderRequest) -> tuple[tuple[View, ...], WorldSnapshot]:
    return read_pose(decode_pose(encode_pose(message_of(request))))


def answered(request: RenderRequest) -> tuple[RenderedFrame, list[str]]:
    views, _ = received(request)
    header, pictures = write_answer(message_of(request), views, Drawn(tuple(map(drawing, views))), 7)
    return read_answer(*decode_images(encode_images(header, pictures)), request, 99)


def pose_json(**changes: Any) -> list[bytes]:
    """A pose of ours with changes to its one camera."""
    topic, body = encode_pose(message_of(ask(1)))
    message = json.loads(body)
    message["vil"]["cameras"][0] |= changes
    return [topic, json.dumps(message).encode()]


def stranger(version: int, **camera: Any) -> PoseMessage:
    message = decode_pose(golden(f"pose_v{version}.json"))
    message.camWidth, message.camHeight = 10, 6
    message.cameras = [msgspec.structs.replace(message.cameras[0], **camera)]
    return message


def for_stranger(message: PoseMessage, draw: ImageArray, valid: BoolArray | None = None) -> tuple[ImageArray, int]:
    """What the strict reader of v3 gets, and the channels that were announced."""
    (one,), _ = read_pose(message)
    header, pictures = write_answer(message, (one,), Drawn((RenderedImage(one, draw, valid),)), 1)
    told, (pixels,) = strict_read(3, [bytes(frame) for frame in encode_images(header, pictures)])
    return pixels, told["channels"][0]


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("camera", [FRONT, FISHEYE, WIDE])
@pytest.mark.parametrize("modality", list(Modality))
def test_a_camera_arrives_whole(camera: CameraModel, modality: Modality) -> None:
    sent = replace(view(camera, modality), layer="actors")
    ((got,), _) = received(ask(1, [sent]))
    assert replace(got.camera, fov_y_rad=camera.fov_y_rad) == camera
    assert got.camera.fov_y_rad == pytest.approx(camera.fov_y_rad, rel=1e-12)
    assert (got.modality, got.layer, got.key, got.due) == (modality, "actors", sent.key, True)


def test_all_modalities_of_a_camera_have_names_of_their_own() -> None:
    views, _ = received(ask(1, [view(modality=modality) for modality in Modality]))
    assert len({v.key for v in views}) == len(Modality)
    assert {v.camera.name for v in views} == {"front"}
    assert [v.modality for v in views] == list(Modality)


def test_an_ideal_camera_says_no_more_than_it_did() -> None:
    (told,) = json.loads(encode_pose(message_of(ask(1)))[1])["vil"]["cameras"]
    assert told.keys() == {"width", "height", "fov", "modality", "hide", "layer"}


@pytest.mark.parametrize("lighting", [None, Lighting(), EVENING, Lighting(None, EVENING.lamps), Lighting(0.0)])
def test_the_light_arrives(lighting: Lighting | None) -> None:
    request = ask(1)
    request = replace(request, snapshot=replace(request.snapshot, lighting=lighting))
    assert received(request)[1].lighting == lighting


@pytest.mark.parametrize(
    "changes",
    [
        {"pinhole": [0.0, 400.0, 4.0, 3.0]},
        {"pinhole": [400.0, 400.0, 4.0]},
        {"pinhole": [400.0, 400.0, 1e9, 3.0]},
        {"distortion": {"model": "fov", "coefficients": [0.9]}},
        {"distortion": {"model": "plumb_bob", "coefficients": [0.0] * 4}},
        {"distortion": {"model": "equidistant", "coefficients": [0.0] * 5}},
        {"distortion": {"model": "equidistant", "coefficients": [0.0, 0.0, 0.0, 1e12]}},
        {"distortion": {"model": "equidistant"}},
        {"effects": {"shutter": 1.5}},
        {"effects": {"noise": -1.0}},
        {"effects": {"exposure_ev": 1e6}},
        {"effects": {"auto_exposure": 1}},
        {"layer": "x" * 300},
    ],
)
def test_a_camera_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    read_pose(decode_pose(pose_json()))
    with pytest.raises(ProtocolError):
        read_pose(decode_pose(pose_json(**changes)))


@pytest.mark.parametrize(
    "lighting",
    [
        {"time": -1.0},
        {"time": 25.0},
        {"lamps": {"a": {"power": -1.0}}},
        {"lamps": {"a": {"colour": [1.0, 1.0]}}},
        {"lamps": {str(i): {} for i in range(257)}},
    ],
)
def test_light_that_cannot_be_is_refused(lighting: dict[str, Any]) -> None:
    topic, body = encode_pose(message_of(ask(1)))
    message = json.loads(body)
    message["vil"]["lighting"] = lighting
    with pytest.raises(ProtocolError):
        decode_pose([topic, json.dumps(message).encode()])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_light_and_lenses_that_are_not_finite_are_not_sent(bad: float) -> None:
    request = ask(1)
    dark = replace(request.snapshot, lighting=Lighting(bad))
    lamp = replace(request.snapshot, lighting=Lighting(None, {"a": LampState(1.0, (1.0, bad, 1.0))}))
    for asked in (
        replace(request, snapshot=dark),
        replace(request, snapshot=lamp),
        ask(1, [view(replace(FRONT, pinhole_px=(400.0, 400.0, bad, 3.0)))]),
        ask(1, [view(replace(FRONT, distortion=Distortion(LensModel.EQUIDISTANT, (bad, 0.0, 0.0, 0.0))))]),
        ask(1, [view(replace(FRONT, effects=Effects(noise=bad)))]),
    ):
        with pytest.raises(RendererError, match="not finite"):
            encode_pose(message_of(asked))


def test_another_version_is_told_apart_in_words() -> None:
    topic, body = encode_pose(message_of(ask(1)))
    for frames in ([topic, body.replace(b'"vil":{"v":2', b'"vil":{"v":1')],):
        with pytest.raises(ProtocolError, match=r"speaks version 1 .* and this one 2: run bridge and renderer from"):
            decode_pose(frames)
    header = {"ntime": 1, "camWidth": 1, "camHeight": 1, "cameraIDs": [], "channels": [], "vil": {"v": 3}}
    with pytest.raises(ProtocolError, match="speaks version 3"):
        decode_images([json.dumps(header).encode()])


# --- answers ------------------------------------------------------------------------------------


def test_every_modality_comes_back_as_it_was_drawn() -> None:
    request = ask(1, [view(FISHEYE, modality) for modality in Modality])
    frame, problems = answered(request)
    assert problems == []
    assert [i.view.modality for i in frame.images] == list(Modality)
    for image in frame.images:
        drawn = drawing(image.view)
        assert image.pixels.dtype == drawn.pixels.dtype
        assert np.array_equal(image.pixels, drawn.pixels)
        assert same_mask(image.valid, drawn.valid)


def test_the_bytes_of_each_modality_on_the_wire() -> None:
    request = ask(1, [view(FISHEYE, modality) for modality in Modality])
    views, _ = received(request)
    header, pictures = write_answer(message_of(request), views, Drawn(tuple(map(drawing, views))), 7)
    _, *parts = encode_images(header, pictures)
    sizes = {v.modality: len(part) / 60 for v, part in zip(views, parts, strict=True)}
    assert sizes == {
        Modality.RGB: 3,
        Modality.GRAY: 1,
        Modality.RGBA: 4,
        Modality.DEPTH: 2,
        Modality.DEPTH32: 4,
        Modality.NORMALS: 6,
        Modality.SEMANTIC: 2,
        Modality.INSTANCE: 2,
        Modality.FLOW: 9,
    }
    flow = drawing(views[list(Modality).index(Modality.FLOW)])
    assert flow.valid is not None
    part = bytes(parts[list(Modality).index(Modality.FLOW)])
    assert part == flow.pixels[::-1].tobytes() + flow.valid[::-1].astype(np.uint8).tobytes()


def test_an_id_of_no_hit_is_an_id() -> None:
    request = ask(1, [view(modality=Modality.INSTANCE)])
    ids = np.full((6, 8), 65535, np.uint16)
    ids[0] = 0
    header, pictures = write_answer(
        message_of(request), request.views, Drawn((RenderedImage(request.views[0], ids),)), 1
    )
    frame, _ = read_answer(*decode_images(encode_images(header, pictures)), request, 0)
    assert np.array_equal(frame.images[0].pixels, ids)


@pytest.mark.parametrize("modality", list(Modality))
def test_every_wrong_length_of_every_modality_is_refused(modality: Modality) -> None:
    request = ask(1, [view(modality=modality)])
    header, pictures = write_answer(message_of(request), request.views, Drawn((drawing(request.views[0]),)), 1)
    head, part = map(bytes, encode_images(header, pictures))
    whole = len(part)
    for size in (0, 1, whole - 1, whole + 1, whole // 2, 2 * whole):
        with pytest.raises(ProtocolError):
            decode_images([head, (part * 2)[:size]])
        with pytest.raises(ProtocolError):
            decode_slot(decode_header(head), np.frombuffer((part * 2)[:size], np.uint8))
    assert len(decode_images([head, part])[1]) == 1


@pytest.mark.parametrize("modality", [Modality.DEPTH32, Modality.NORMALS, Modality.FLOW])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_not_finite_are_refused(modality: Modality, bad: float) -> None:
    request = ask(1, [view(modality=modality)])
    drawn = drawing(request.views[0])
    drawn.pixels[2, 3] = bad
    header, pictures = write_answer(message_of(request), request.views, Drawn((drawn,)), 1)
    with pytest.raises(ProtocolError, match="not finite"):
        decode_images(encode_images(header, pictures))


@pytest.mark.parametrize("formats", [["rgb8"], ["float128"], ["depth32f", "rgb8"], ["normals16f"]])
def test_formats_that_do_not_fit_are_refused_or_told(formats: list[str]) -> None:
    request = ask(1, [view(modality=Modality.DEPTH32)])
    header, pictures = write_answer(message_of(request), request.views, Drawn((drawing(request.views[0]),)), 1)
    head, part = map(bytes, encode_images(header, pictures))
    wrong = json.loads(head)
    wrong["vil"]["formats"] = formats
    with pytest.raises(ProtocolError):
        decode_images([json.dumps(wrong).encode(), part])
    colour = np.zeros((6, 8, 3), np.uint8).tobytes()
    wrong["vil"]["formats"] = ["rgb8"]
    frame, problems = read_answer(*decode_images([json.dumps(wrong).encode(), colour]), request, 0)
    assert frame.images == () and "front/depth32" in problems[0]


@pytest.mark.parametrize("modality", list(Modality))
def test_a_drawing_of_another_kind_is_not_sent(modality: Modality) -> None:
    (one,) = ask(1, [view(modality=modality)]).views
    good = drawing(one)
    other_mask = None if good.valid is not None else np.ones((6, 8), np.bool_)
    for wrong in (
        replace(good, pixels=good.pixels.astype(np.float64)),
        replace(good, pixels=good.pixels[..., None]),
        replace(good, valid=other_mask),
    ):
        with pytest.raises(RendererError, match="front"):
            write_answer(message_of(ask(1, [one])), (one,), Drawn((wrong,)), 1)


def test_a_lens_is_more_than_an_original_renderer_can_draw() -> None:
    request = ask(1, [view(replace(FRONT, pinhole_px=(4.0, 4.0, 3.0, 2.0)))])
    header, pictures = write_answer(message_of(request), request.views, Drawn((drawing(request.views[0]),)), 1)
    original = msgspec.structs.replace(header, vil=msgspec.UNSET)
    frame, problems = read_answer(*decode_images(encode_images(original, pictures)), request, 0)
    assert frame.images == () and "lens" in problems[0]


# --- strangers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shader", "modality"),
    [(0, Modality.INSTANCE), (1, Modality.SEMANTIC), (2, Modality.DEPTH), (4, Modality.NORMALS), (6, Modality.FLOW)],
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


@pytest.mark.parametrize(("percent", "shutter"), [(0.0, 0.0), (0.25, 0.25), (7.0, 1.0), (-1.0, 0.0)])
def test_motion_blur_of_v3_is_a_shutter(percent: float, shutter: float) -> None:
    (one,), _ = read_pose(stranger(3, motionBlurPercent=percent))
    assert one.camera.effects == Effects(shutter=shutter)


def test_our_shutter_is_the_motion_blur_of_v3() -> None:
    (camera,) = message_of(ask(1, [view(FISHEYE)])).cameras
    assert camera.motionBlurPercent == 0.5


def test_the_shaders_asked_of_an_original_renderer() -> None:
    cameras = message_of(ask(1, [view(modality=modality) for modality in Modality])).cameras
    asked = {modality: camera.outputShaderType for modality, camera in zip(Modality, cameras, strict=True)}
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
    colours = ids_to_colour(np.arange(65536, dtype=np.uint16).reshape(256, 256)).reshape(-1, 3).astype(np.int64)
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
    assert normals_to_colour(normals).tolist() == [[[255, 128, 128], [128, 0, 128], [128, 128, 0], [128] * 3]]
    depth = np.array([[65535, 0, 4096]], np.uint16)
    assert depth_to_grey(depth).tolist() == [[[255] * 3, [0] * 3, [round(255 * (4096 / 65535) ** 0.25)] * 3]]


def test_a_stranger_may_call_a_camera_as_it_likes() -> None:
    message = stranger(3, ID="left/depth", outputShaderType=3)
    (one,), _ = read_pose(message)
    assert one.camera.name == "left/depth"
    assert one.T_world_camera.p_m.shape == pose_at(0, 0, 0).p_m.shape
