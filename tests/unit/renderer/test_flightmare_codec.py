"""Messages of the Flightmare protocol, byte by byte."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from tests.support.flightmare_original import DIALECTS, OldClient
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_renderer.flightmare.codec import (
    colours_from_wire,
    colours_to_wire,
    decode_answer,
    decode_events,
    decode_point_cloud_state,
    decode_request,
    decode_time,
    depth_from_wire,
    depth_to_wire,
    dialect_of,
    encode_answer,
    encode_json,
    encode_request,
    encode_scene,
)
from vil_renderer.flightmare.messages import (
    MAX_PARTS,
    CollisionCheckMessage,
    CollisionStateMessage,
    EventMessage,
    EventsMessage,
    FlightmareHeader,
    PointCloudMessage,
    PointCloudStateMessage,
    ReadyMessage,
    SceneMessage,
    TimeMessage,
    VehicleStateMessage,
)

# The minimal exchange of the protocol's description.
SETTINGS = (
    b'{"scene_id":1,"vehicles":[{"ID":"quadrotor0","position":[0,0,0],"rotation":[0,0,0,'
    b'1],"size":[1,1,1],'
    b'"cameras":[{"ID":"quadrotor0_0","channels":3,"width":64,"height":48,"fov":90,'
    b'"nearClipPlane":[0.01,0.01,0.01,0.01],"farClipPlane":[1000,100,1000,1000],'
    b'"T_BC":[0,0,1,0.1,0,1,0,0.3,-1,0,0,0.2,0,0,0,1],"isDepth":false,'
    b'"enabledLayers":[true,false,false],'
    b'"depthScale":0.2,"outputIndex":0}],"lidars":[],"hasCollisionCheck":true}],"objects":[]}'
)
POSE = b'{"frame_id":1,' + SETTINGS.removeprefix(b'{"scene_id":1,')
FRAME = b'{"frame_id":1,"pub_vehicles":[{"collision":false,"lidar_ranges":[]}]}'


def scene(body: bytes) -> SceneMessage:
    message = decode_request([b"Pose", body])
    assert isinstance(message, SceneMessage)
    return message


def test_the_minimal_exchange() -> None:
    settings, pose = scene(SETTINGS), scene(POSE)
    assert settings.stamp is None and pose.stamp == 1
    assert settings.vehicles == pose.vehicles and settings.scene_id == 1
    camera = settings.vehicles[0].cameras[0]
    assert (camera.width, camera.height, camera.fov, camera.enabledLayers) == (
        64,
        48,
        90.0,
        [True, False, False],
    )
    header, parts = decode_answer([FRAME, bytes(9216), bytes(12288)])
    assert isinstance(header, FlightmareHeader) and header.stamp == 1 and len(parts) == 2
    assert decode_answer([b'{"ready":true}']) == (ReadyMessage(ready=True), ())
    assert encode_answer(ReadyMessage(ready=True)) == [b'{"ready":true}']
    again = FlightmareHeader(
        frame_id=1, pub_vehicles=[VehicleStateMessage(collision=False, lidar_ranges=[])]
    )
    assert encode_answer(again, [b"picture"]) == [FRAME, b"picture"]


@pytest.mark.parametrize("body", [SETTINGS, POSE])
def test_what_is_read_is_written_again(body: bytes) -> None:
    topic, written = encode_scene(scene(body))
    assert topic == b"Pose"
    read, was = json.loads(written), json.loads(body)
    assert {key: read[key] for key in was if key != "vehicles"} == {
        k: was[k] for k in was if k != "vehicles"
    }
    assert read["vehicles"] == was["vehicles"]


@pytest.mark.parametrize("number", [2**63 - 1, 2**53 + 1, 1, 0, -1, -(2**63)])
def test_numbers_are_carried_exactly(number: int) -> None:
    assert scene(POSE.replace(b'"frame_id":1', b'"frame_id":%d' % number)).stamp == number
    header, _ = decode_answer([FRAME.replace(b'"frame_id":1', b'"frame_id":%d' % number)])
    assert isinstance(header, FlightmareHeader) and header.stamp == number
    assert json.loads(bytes(encode_answer(header)[0]))["frame_id"] == number


@pytest.mark.wire
@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_are_told_apart(dialect: str) -> None:
    with OldClient(dialect, cameras=2, layers=(True, True, True)) as old:
        for message in (old.settings(), old.pose(5)):
            read = scene(json.dumps(message).encode())
            assert dialect_of(read) == dialect
            assert read.stamp == (None if "scene_id" in message else 5)


def test_point_clouds_and_collision_checks() -> None:
    body = (
        b'{"range":[20,10,5],"origin":[1,2,3],"resolution":0.15,"path":"point_clouds_data/",'
        b'"file_name":"default"}'
    )
    asked = PointCloudMessage(range=(20.0, 10.0, 5.0), origin=(1.0, 2.0, 3.0))
    assert decode_request([b"PointCloud", body]) == asked
    check = CollisionCheckMessage(
        checked_point=(1.0, 2.0, 3.0), drone_width=0.8, if_start_point=True
    )
    for request in (asked, check):
        assert decode_request(encode_request(request)) == request
    state = CollisionStateMessage(get_msg=True, if_collision=False, new_point=(1.0, 2.0, 3.0))
    assert encode_answer(state)[0] == b"CollisionState"
    assert decode_answer(encode_answer(state)) == (state, ())


def test_parts_of_some_dialects() -> None:
    saved = PointCloudStateMessage(get_pc_msg=True, save_pc_success=False)
    assert encode_json(saved) == b'{"get_pc_msg":true,"save_pc_success":false}'
    assert decode_point_cloud_state(encode_json(saved)) == saved
    events = [EventMessage(coord_x=1, coord_y=2, polarity=-1, time=3.5)]
    assert encode_json(EventsMessage(events=events)) == (
        b'{"events":[{"coord_x":1,"coord_y":2,"polarity":-1,"time":3.5}]}'
    )
    assert decode_events(encode_json(EventsMessage(events=events))) == events
    now = TimeMessage(current_time=1, next_timestep=2, rgb_frame=True)
    assert decode_time(encode_json(now)) == now
    with pytest.raises(ProtocolError):
        decode_time(b'{"current_time":1}')


@pytest.mark.parametrize("missing", ["ID", "position", "rotation"])
def test_a_vehicle_without_a_key_is_malformed(missing: str) -> None:
    message = json.loads(POSE)
    del message["vehicles"][0][missing]
    with pytest.raises(ProtocolError, match=missing):
        scene(json.dumps(message).encode())


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("vehicles",), []),
        (("frame_id",), 2**63),
        (("frame_id",), 1.5),
        (("vehicles", 0, "position"), [0, 0]),
        (("vehicles", 0, "rotation"), [0, 0, 1]),
        (("vehicles", 0, "cameras", 0, "width"), 0),
        (("vehicles", 0, "cameras", 0, "height"), 8193),
        (("vehicles", 0, "cameras", 0, "fov"), 180.0),
        (("vehicles", 0, "cameras", 0, "T_BC"), [0.0] * 15),
        (("vehicles", 0, "cameras", 0, "enabledLayers"), [True] * 4),
        (("vehicles", 0, "cameras", 0, "farClipPlane"), [1.0]),
        (("vehicles", 0, "lidars"), [{"num_beams": 5000, "T_BS": [0.0] * 16}]),
        (("vehicles", 0, "lidars"), [{"num_beams": 10}]),
        (("objects",), [{"ID": "gate"}]),
        (("objects",), [0] * 5000),
    ],
)
def test_values_out_of_bounds_are_malformed(path: tuple[Any, ...], value: object) -> None:
    message = json.loads(POSE)
    *to, last = path
    holder = message
    for key in to:
        holder = holder[key]
    holder[last] = value
    with pytest.raises(ProtocolError):
        scene(json.dumps(message).encode())


def test_ids_are_unique() -> None:
    message = json.loads(POSE)
    message["vehicles"] *= 2
    with pytest.raises(ProtocolError, match="vehicle IDs"):
        scene(json.dumps(message).encode())
    message["vehicles"][1] = message["vehicles"][1] | {"ID": "quadrotor1"}
    with pytest.raises(ProtocolError, match="camera IDs"):
        scene(json.dumps(message).encode())


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"Pose"],
        [b"Pose", POSE, b""],
        [b"Weather", POSE],
        [b"pose", POSE],
        [b"Pose", b"{}"],
        [b"Pose", b"[" * 100_000],
        [b"Pose", POSE + b"x"],
        [b"PointCloud", POSE.replace(b"frame_id", b"range")],
    ],
)
def test_requests_that_are_none(parts: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        decode_request(parts)


def test_every_truncation_is_malformed() -> None:
    for end in range(len(POSE)):
        with pytest.raises(ProtocolError):
            decode_request([b"Pose", POSE[:end]])
    for end in range(len(FRAME)):
        with pytest.raises(ProtocolError):
            decode_answer([FRAME[:end]])


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b'{"pub_vehicles":[]}'],
        [b'{"ready":true}', b"x"],
        [b'{"ready":1}'],
        [FRAME] * (MAX_PARTS + 1),
    ],
)
def test_answers_that_are_none(parts: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        decode_answer(parts)


def test_what_is_not_finite_is_not_sent() -> None:
    for place in ("position", "rotation", "size"):
        message = scene(POSE.replace(b'"ID":"quadrotor0"', b'"ID":"null"'))
        encode_scene(message)
        vehicle = message.vehicles[0]
        setattr(vehicle, place, (float("nan"), *getattr(vehicle, place)[1:]))
        with pytest.raises(RendererError, match="not finite"):
            encode_scene(message)
    with pytest.raises(RendererError, match="range"):
        states = [VehicleStateMessage(collision=False, lidar_ranges=[float("inf")])]
        encode_answer(FlightmareHeader(frame_id=1, pub_vehicles=states))


def test_pictures_have_their_bottom_row_first() -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    wire = colours_to_wire(pixels)
    assert bytes(wire[:3]) == bytes(pixels[1, 0]) and len(wire) == 18
    assert np.array_equal(colours_from_wire(wire, 3, 2), pixels)
    with pytest.raises(ProtocolError):
        colours_from_wire(wire[:-1], 3, 2)
    with pytest.raises(ProtocolError):
        colours_from_wire(wire, 2, 2)


def test_depth_is_a_share_of_the_far_plane() -> None:
    depth = np.array([[100.0, 99.0], [0.25, 150.0]], np.float32)
    wire = depth_to_wire(depth, 50.0, 100.0)
    assert np.frombuffer(wire, "<f4").tolist() == pytest.approx([0.25 / 50, 1.0, 1.0, 1.0])
    wire = depth_to_wire(depth, 1000.0, 100.0)
    assert np.frombuffer(wire, "<f4").tolist() == pytest.approx([0.00025, 1.0, 1.0, 0.099])
    wild = np.array([[np.nan, np.inf], [-1.0, 0.5]], "<f4")
    assert depth_from_wire(wild[::-1].tobytes(), 2, 2).tolist() == [[1.0, 1.0], [0.0, 0.5]]
    with pytest.raises(ProtocolError):
        depth_from_wire(bytes(12), 2, 2)


def test_a_settings_message_has_no_number() -> None:
    assert scene(SETTINGS).frame_id is UNSET
    agile = scene(POSE.replace(b'"frame_id"', b'"ntime"'))
    assert agile.stamp == 1 and agile.frame_id is UNSET
