from __future__ import annotations

import contextlib
import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.flightgoggles import ask, drone, pose_at, view
from tests.support.flightmare import FRONT, draw
from tests.support.flightmare_original import DIALECTS, OldClient
from tests.support.json_changes import changed
from vil_bridge.core.errors import ProtocolError
from vil_bridge.core.types import ActorKind, CameraModel, Modality
from vil_renderer.flightmare.codec import (
    decode_answer,
    decode_events,
    decode_point_cloud_state,
    decode_request,
    decode_time,
    dialect_of,
    encode_answer,
    encode_request,
)
from vil_renderer.flightmare.convert import SceneWriter, read_frame
from vil_renderer.flightmare.convert_renderer import read_scene, write_picture
from vil_renderer.flightmare.messages import (
    Dialect,
    FlightmareHeader,
    FrameExtension,
    SceneMessage,
    VehicleStateMessage,
)
from vil_renderer.flightmare.scenes import our_scene


def _bodies() -> list[tuple[bytes, bytes]]:
    """A settings and a pose message of every dialect, and the other requests."""
    found = []
    for dialect in DIALECTS:
        with OldClient(dialect, cameras=2, layers=(True, True, True)) as old:
            found += [
                (b"Pose", json.dumps(message).encode()) for message in (old.settings(), old.pose(7))
            ]
    check = {"checked_point": [1.0, 2.0, 3.0], "drone_width": 0.8, "if_start_point": False}
    box = {
        "range": [1, 2, 3],
        "origin": [0, 0, 0],
        "resolution": 0.1,
        "path": "a/",
        "file_name": "b",
    }
    return [
        *found,
        (b"CollisionCheck", json.dumps(check).encode()),
        (b"PointCloud", json.dumps(box).encode()),
    ]


REQUESTS = _bodies()
VIEWS = (view(FRONT), view(FRONT, Modality.DEPTH32), view(FRONT, Modality.INSTANCE))
ASKED = ask(7, VIEWS, (drone("d", pose_at(0, 0, 1)),))
WRITER = SceneWriter(Dialect.MASTER, 1, {ActorKind.HUMAN: "", ActorKind.PROP: ""})
POSE = WRITER.message(WRITER.setup_of(ASKED), ASKED, 7)
TASK = read_scene(POSE, POSE, 7)
IMAGES = {image.view.key: image for image in draw(TASK.views, TASK.snapshot).images}
STATES = [VehicleStateMessage(collision=False, lidar_ranges=[1.0]) for _ in POSE.vehicles]
FRAME = [
    bytes(part)
    for part in encode_answer(
        FlightmareHeader(frame_id=7, pub_vehicles=STATES, vil=FrameExtension(renderer="x")),
        [write_picture(shot, IMAGES) for shot in TASK.requests],
    )
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def read_all(parts: list[bytes]) -> None:
    """All readers to the end, as client and renderer would; anything but ProtocolError escapes."""
    with contextlib.suppress(ProtocolError):
        request = decode_request(parts)
        if isinstance(request, SceneMessage):
            our_scene(dialect_of(request), request.scene_id)
            read_scene(request, request, request.stamp or 0)
    with contextlib.suppress(ProtocolError):
        answer, pictures = decode_answer(parts)
        if isinstance(answer, FlightmareHeader):
            read_frame(answer, pictures, POSE.vehicles, ASKED, 0)
    for reader in (decode_events, decode_point_cloud_state, decode_time):
        with contextlib.suppress(ProtocolError):
            reader(parts[0] if parts else b"")


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_random_bytes_raise_only_protocol_errors(parts: list[bytes]) -> None:
    read_all(parts)
    read_all([b"Pose", *parts])
    read_all([b"PointCloud", *parts])
    read_all([FRAME[0], *parts])


@given(st.sampled_from([*REQUESTS, (b"", FRAME[0])]), st.data())
def test_overwritten_bytes_raise_only_protocol_errors(
    message: tuple[bytes, bytes], data: st.DataObject
) -> None:
    topic, body = message
    at = data.draw(st.integers(0, len(body) - 1))
    patch = data.draw(st.binary(min_size=1, max_size=6))
    broken = body[:at] + patch + body[at + len(patch) :]
    read_all([topic, broken])
    read_all([broken, *FRAME[1:]])


@given(st.sampled_from([*REQUESTS, (b"", FRAME[0])]), st.data(), JSON)
def test_any_value_of_any_key_raises_only_protocol_errors(
    message: tuple[bytes, bytes], data: st.DataObject, value: Any
) -> None:
    topic, body = message
    broken = changed(body, data, value)
    read_all([topic, broken])
    read_all([broken, *FRAME[1:]])


@given(st.sampled_from(REQUESTS), st.integers(-(2**63), 2**63 - 1))
def test_requests_survive_the_wire(message: tuple[bytes, bytes], number: int) -> None:
    request = decode_request(message)
    if isinstance(request, SceneMessage) and request.stamp is not None:
        key = "frame_id" if "frame_id" in json.loads(message[1]) else "ntime"
        setattr(request, key, number)
    assert decode_request(encode_request(request)) == request


@given(
    st.integers(1, 2**62 - 1),
    st.integers(8, 40),
    st.integers(8, 12),
    st.sets(st.sampled_from([Modality.RGB, Modality.DEPTH32, Modality.INSTANCE]), min_size=1),
    st.sampled_from([Dialect.MASTER, Dialect.V2022, Dialect.AGILE_AUTONOMY]),
    st.randoms(use_true_random=False),
)
def test_pictures_of_any_size_survive_the_wire(
    number: int, width: int, height: int, modalities: set[Modality], dialect: Dialect, rng: Any
) -> None:
    camera = CameraModel("front", width, height, 1.0)
    request = ask(number, [view(camera, modality) for modality in sorted(modalities)])
    made = SceneWriter(dialect, 1, {})
    message = made.message(made.setup_of(request), request, number)
    task = read_scene(message, message, number)
    noise = np.random.default_rng(rng.getrandbits(32))
    drawn = {}
    for image in draw(task.views, task.snapshot).images:
        shape = image.pixels.shape
        if image.view.modality is Modality.DEPTH32:
            image.pixels[...] = noise.uniform(0.0, 99.0, shape)
        else:
            image.pixels[...] = noise.integers(0, 256, shape)
        drawn[image.view.key] = image
    states = [VehicleStateMessage(collision=False, lidar_ranges=[])]
    parts = encode_answer(
        FlightmareHeader(frame_id=number, pub_vehicles=states, vil=FrameExtension(renderer="x")),
        [write_picture(s, drawn) for s in task.requests],
    )
    header, pictures = decode_answer(parts)
    assert isinstance(header, FlightmareHeader)
    frame, problems = read_frame(header, pictures, message.vehicles, request, 0)
    assert problems == [] and header.stamp == number
    for image in frame.images:
        was = drawn[image.view.key].pixels
        if image.view.modality is Modality.DEPTH32:
            assert np.allclose(image.pixels, was, rtol=1e-6, atol=1e-6)
        else:
            assert np.array_equal(image.pixels, was)
