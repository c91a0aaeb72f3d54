"""What travels under ``vil`` beyond the original protocol, and what strangers get instead."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.support.flightgoggles import FISHEYE, FRONT, ask, drawing, message_of, same_mask, view
from vil_bridge.core.camera_model import CameraModel, Distortion, Effects, LensModel
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import (
    LampState,
    Lighting,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    View,
    WorldSnapshot,
)
from vil_bridge.core.weather import Weather
from vil_renderer.flightgoggles.codec import (
    decode_header,
    decode_images,
    decode_pose,
    decode_slot,
    encode_images,
    encode_pose,
)
from vil_renderer.flightgoggles.convert import read_answer
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest, read_pose, write_answer

WIDE = CameraModel(
    "wide",
    10,
    6,
    1.2,
    None,
    Distortion(LensModel.PLUMB_BOB, (-0.28, 0.07, 0.0002, 1.8e-5, 0.0)),
    Effects(noise=1.0),
)
EVENING = Lighting(19.25, {"north": LampState(0.25, (1.0, 0.8, 0.6)), "south": LampState(0.0)})


STORM = Lighting(weather=Weather(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, (9.0, -8.0, 0.5)))


def received(request: RenderRequest) -> tuple[tuple[View, ...], WorldSnapshot]:
    return read_pose(decode_pose(encode_pose(message_of(request))))


def answered(request: RenderRequest) -> tuple[RenderedFrame, list[str]]:
    views, _ = received(request)
    header, pictures = write_answer(
        message_of(request), views, RenderedRequest(tuple(map(drawing, views))), 7
    )
    return read_answer(*decode_images(encode_images(header, pictures)), request, 99)


def pose_json(**changes: Any) -> list[bytes]:
    """A pose of ours with changes to its one camera."""
    topic, body = encode_pose(message_of(ask(1)))
    message = json.loads(body)
    message["vil"]["cameras"][0] |= changes
    return [topic, json.dumps(message).encode()]


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


@pytest.mark.parametrize(
    "lighting",
    [
        None,
        Lighting(),
        EVENING,
        Lighting(None, EVENING.lamps),
        Lighting(0.0),
        STORM,
        Lighting(weather=Weather()),
    ],
)
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
        {"weather": {"fog": 1.5}},
        {"weather": {"wind": [1.0, 2.0]}},
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
    lamp = replace(
        request.snapshot, lighting=Lighting(None, {"a": LampState(1.0, (1.0, bad, 1.0))})
    )
    for asked in (
        replace(request, snapshot=dark),
        replace(request, snapshot=lamp),
        ask(1, [view(replace(FRONT, pinhole_px=(400.0, 400.0, bad, 3.0)))]),
        ask(
            1,
            [
                view(
                    replace(
                        FRONT, distortion=Distortion(LensModel.EQUIDISTANT, (bad, 0.0, 0.0, 0.0))
                    )
                )
            ],
        ),
        ask(1, [view(replace(FRONT, effects=Effects(noise=bad)))]),
    ):
        with pytest.raises(RendererError, match="not finite"):
            encode_pose(message_of(asked))


def test_another_version_is_told_apart_in_words() -> None:
    topic, body = encode_pose(message_of(ask(1)))
    for frames in ([topic, body.replace(b'"vil":{"v":2', b'"vil":{"v":1')],):
        with pytest.raises(
            ProtocolError, match=r"speaks version 1 .* and this one 2: run bridge and renderer from"
        ):
            decode_pose(frames)
    header = {
        "ntime": 1,
        "camWidth": 1,
        "camHeight": 1,
        "cameraIDs": [],
        "channels": [],
        "vil": {"v": 3},
    }
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
    header, pictures = write_answer(
        message_of(request), views, RenderedRequest(tuple(map(drawing, views))), 7
    )
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
        message_of(request),
        request.views,
        RenderedRequest((RenderedImage(request.views[0], ids),)),
        1,
    )
    frame, _ = read_answer(*decode_images(encode_images(header, pictures)), request, 0)
    assert np.array_equal(frame.images[0].pixels, ids)


@pytest.mark.parametrize("modality", list(Modality))
def test_every_wrong_length_of_every_modality_is_refused(modality: Modality) -> None:
    request = ask(1, [view(modality=modality)])
    header, pictures = write_answer(
        message_of(request), request.views, RenderedRequest((drawing(request.views[0]),)), 1
    )
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
    header, pictures = write_answer(
        message_of(request), request.views, RenderedRequest((drawn,)), 1
    )
    with pytest.raises(ProtocolError, match="not finite"):
        decode_images(encode_images(header, pictures))


@pytest.mark.parametrize("formats", [["rgb8"], ["float128"], ["depth32f", "rgb8"], ["normals16f"]])
def test_formats_that_do_not_fit_are_refused_or_told(formats: list[str]) -> None:
    request = ask(1, [view(modality=Modality.DEPTH32)])
    header, pictures = write_answer(
        message_of(request), request.views, RenderedRequest((drawing(request.views[0]),)), 1
    )
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
            write_answer(message_of(ask(1, [one])), (one,), RenderedRequest((wrong,)), 1)
