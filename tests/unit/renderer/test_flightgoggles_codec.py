from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.support.flightgoggles import golden, picture
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import Modality
from vil_renderer.flightgoggles.codec import (
    MAX_MESSAGE_BYTES,
    TOPIC,
    decode_images,
    decode_pose,
    encode_images,
    encode_pose,
)
from vil_renderer.flightgoggles.messages import (
    AnswerExtension,
    ExtendedActor,
    ExtendedCamera,
    ExtendedSkeleton,
    FlightGogglesCamera,
    FlightGogglesObject,
    ImageHeader,
    PoseExtension,
    PoseMessage,
)
from vil_renderer.flightgoggles.pictures import PixelImage

CAMERA = FlightGogglesCamera(ID="front", position=(0.0, 1.0, 0.0), rotation=(0.0, 0.0, 0.0, 1.0))


def pose(**changes: Any) -> PoseMessage:
    return msgspec.structs.replace(
        PoseMessage(camWidth=4, camHeight=3, camFOV=70.0, cameras=[CAMERA], ntime=5), **changes
    )


def header(**changes: Any) -> ImageHeader:
    plain = ImageHeader(
        camWidth=4, camHeight=3, cameraIDs=["front"], channels=[3], ntime=5, cameraIndexes=[0]
    )
    return msgspec.structs.replace(plain, **changes)


def as_json(message: PoseMessage | ImageHeader, **changes: Any) -> bytes:
    return json.dumps(json.loads(msgspec.json.encode(message)) | changes).encode()


# --- poses --------------------------------------------------------------------------------------


def test_reads_what_the_v2_client_sends() -> None:
    message = decode_pose(golden("pose_v2.json"))
    assert message.ntime == message.stamp == 1795199186488295359
    assert (message.camWidth, message.camHeight, message.camFOV, message.camDepthScale) == (
        640,
        480,
        70.0,
        0.2,
    )
    assert (
        message.sceneFilename == "Abandoned_Factory_Morning"
        and message.sceneIsInternal
        and message.objects == []
    )
    (camera,) = message.cameras
    assert camera.position == (-2.0, -1.5, 1.06)
    assert camera.rotation == (0.0, -0.0499791692706783, 0.0, 0.998750260394966)
    assert (camera.ID, camera.channels, camera.outputIndex) == ("Camera_Left", 3, 0)
    assert camera.hasCollisionCheck and camera.shouldRenderThisFrame
    assert camera.outputShaderType is msgspec.UNSET and message.vil is msgspec.UNSET


def test_reads_what_the_v3_client_sends() -> None:
    (camera,) = decode_pose(golden("pose_v3.json")).cameras
    assert (camera.ID, camera.outputShaderType, camera.motionBlurPercent) == (
        "Camera_Right",
        3,
        0.0,
    )
    assert camera.rotation == (0.0, 0.0699428473375328, 0.0, 0.99755100025328)


def test_reads_what_the_v1_client_sends() -> None:
    message = decode_pose(golden("pose_v1.json"))
    assert message.stamp == 1537000000123456 and message.ntime is msgspec.UNSET
    assert message.windows is not msgspec.UNSET and message.windows[0].size == (1.5, 1.0, 0.1)


def test_writes_the_keys_of_all_versions() -> None:
    topic, body = encode_pose(pose())
    message = json.loads(body)
    assert topic == b"Pose"
    assert message.keys() == {
        *("ntime", "camWidth", "camHeight", "camFOV", "camDepthScale", "cameras", "objects"),
        *("sceneIsInternal", "sceneFilename", "obstaclePerturbationFile"),
    }
    assert message["objects"] == []
    camera = json.loads(
        encode_pose(pose(cameras=[msgspec.structs.replace(CAMERA, outputShaderType=5)]))[1]
    )["cameras"][0]
    assert camera.keys() == {
        *("ID", "position", "rotation", "channels", "isDepth", "outputIndex", "hasCollisionCheck"),
        *("doesLandmarkVisCheck", "outputShaderType", "motionBlurPercent", "shouldRenderThisFrame"),
    }


@pytest.mark.parametrize("ntime", [2**53 + 1, 2**63 - 1, -(2**63)])
def test_ntime_is_an_exact_integer(ntime: int) -> None:
    assert decode_pose(encode_pose(pose(ntime=ntime))).ntime == ntime
    pictures = [PixelImage(picture(Modality.RGB, 4, 3))]
    assert decode_images(encode_images(header(ntime=ntime), pictures))[0].stamp == ntime


@pytest.mark.parametrize("name", ["pose_v1.json", "pose_v2.json", "pose_v3.json"])
def test_every_truncation_of_a_pose_is_refused(name: str) -> None:
    topic, body = golden(name)
    for size in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_pose([topic, body[:size]])
    for size in range(len(topic)):
        with pytest.raises(ProtocolError):
            decode_pose([topic[:size], body])


@pytest.mark.parametrize(
    "changes",
    [
        {"camWidth": 0},
        {"camWidth": 8193},
        {"camHeight": -1},
        {"camWidth": 4.5},
        {"camFOV": 0.0},
        {"camFOV": 180.0},
        {"camFOV": None},
        {"cameras": []},
        {"cameras": [msgspec.to_builtins(CAMERA)] * 2},
        {
            "cameras": [
                {"ID": str(i)} | {k: v for k, v in msgspec.to_builtins(CAMERA).items() if k != "ID"}
                for i in range(65)
            ]
        },
        {"cameras": [{"ID": "front", "position": [0, 0], "rotation": [0, 0, 0, 1]}]},
        {
            "objects": [
                {"ID": str(i), "prefabID": "", "position": [0, 0, 0], "rotation": [0, 0, 0, 1]}
                for i in range(4097)
            ]
        },
        {"ntime": 2**63},
        {"ntime": "5"},
        {"vil": {"v": 2, "cameras": []}},
        {"vil": {"v": 1, "cameras": [{"width": 4, "height": 3, "fov": 60, "modality": "rgb"}]}},
    ],
)
def test_a_pose_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    body = as_json(pose(), **changes)
    with pytest.raises(ProtocolError):
        decode_pose([TOPIC, body])
    assert decode_pose([TOPIC, as_json(pose())]).stamp == 5


@pytest.mark.parametrize(
    "change",
    [
        {"parents": [-1, 5]},
        {"parents": [0, 0]},
        {"parents": [-1]},
        {"offsets": []},
        {"rotations": [[0, 0, 0, 1]]},
    ],
)
def test_a_broken_skeleton_is_refused(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {
        "name": "human",
        "prefab": "",
        "bones": ["Hip", "Chest"],
        "parents": [-1, 0],
        "offsets": [[0, 0, 0]] * 2,
        "positions": [[0, 0, 0]] * 2,
        "rotations": [[0, 0, 0, 1]] * 2,
    }
    vil = {"v": 2, "cameras": [{"width": 4, "height": 3, "fov": 60, "modality": "rgb"}]}
    assert decode_pose([TOPIC, as_json(pose(), vil=vil | {"skeletons": [good]})])
    with pytest.raises(ProtocolError):
        decode_pose([TOPIC, as_json(pose(), vil=vil | {"skeletons": [good | change]})])


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[1,2,3,4,5,6,7]",
        b'{"camWidth":"\xff\xfe"}',
        b'{"skipped":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b" " * (MAX_MESSAGE_BYTES + 1),
        b'{"camWidth":1e999,"cameras":[]}',
        b'{"camWidth":NaN,"cameras":[]}',
    ],
)
def test_malformed_json_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_pose([TOPIC, body])
    with pytest.raises(ProtocolError):
        decode_images([body])


@pytest.mark.parametrize(
    "frames", [[], [TOPIC], [as_json(pose())], [TOPIC, as_json(pose()), b""], [b"pose", b"{}"]]
)
def test_a_pose_has_two_frames(frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        decode_pose(frames)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_are_never_sent(bad: float) -> None:
    thing = FlightGogglesObject(
        ID="a", prefabID="b", position=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0, bad)
    )
    camera = msgspec.structs.replace(CAMERA, position=(0.0, bad, 0.0))
    extended = [ExtendedCamera(width=4, height=3, fov=bad, modality="rgb")]
    origin, level = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)
    actor = ExtendedActor(
        name="a", kind="prop", prefab="", position=origin, rotation=level, size=(1.0, bad, 1.0)
    )
    skeleton = ExtendedSkeleton(
        name="a",
        prefab="",
        bones=["b"],
        parents=[-1],
        offsets=[origin],
        positions=[(0.0, bad, 0.0)],
        rotations=[level],
    )
    for message in (
        pose(camFOV=bad),
        pose(objects=[thing]),
        pose(cameras=[camera]),
        pose(vil=PoseExtension(v=2, cameras=extended)),
        pose(vil=PoseExtension(v=2, cameras=[], actors=[actor])),
        pose(vil=PoseExtension(v=2, cameras=[], skeletons=[skeleton])),
    ):
        with pytest.raises(RendererError):
            encode_pose(message)
    with pytest.raises(RendererError):
        encode_images(header(lidarReturn=bad), [PixelImage(picture(Modality.RGB, 4, 3))])


def test_a_name_may_look_like_a_missing_number() -> None:
    thing = FlightGogglesObject(
        ID="null", prefabID="null,null", position=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0, 1.0)
    )
    assert decode_pose(encode_pose(pose(objects=[thing]))).objects == [thing]


def test_limits_hold_when_writing() -> None:
    thing = FlightGogglesObject(
        ID="a", prefabID="b", position=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0, 1.0)
    )
    for message in (
        pose(cameras=[]),
        pose(cameras=[CAMERA] * 65),
        pose(objects=[thing] * 4097),
        pose(camWidth=8193),
    ):
        with pytest.raises(RendererError):
            encode_pose(message)


# --- pictures -----------------------------------------------------------------------------------


def test_rows_travel_bottom_up_and_arrive_top_down_without_a_copy() -> None:
    pixels = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    frames = encode_images(header(), [PixelImage(pixels)])
    assert bytes(frames[1]) == pixels[2].tobytes() + pixels[1].tobytes() + pixels[0].tobytes()
    wire = bytes(frames[1])
    _, (view,) = decode_images([frames[0], wire])
    assert (view.camera_id, view.index) == ("front", 0)
    assert np.array_equal(view.pixels, pixels)
    assert np.shares_memory(view.pixels, np.frombuffer(wire, np.uint8))


def test_the_writer_keeps_nothing_of_the_drawing() -> None:
    pixels = picture(Modality.RGB, 4, 3)[::-1]
    frames = encode_images(header(), [PixelImage(pixels)])
    assert not np.shares_memory(pixels, np.frombuffer(frames[1], np.uint8))


def test_no_hit_is_zero_on_the_wire_only() -> None:
    depth = np.array([[65535, 0, 1, 2], [65534, 1000, 65535, 7], [5, 5, 5, 5]], np.uint16)
    frames = encode_images(header(channels=[2]), [PixelImage(depth)])
    assert np.frombuffer(frames[1], "<u2").tolist() == [5, 5, 5, 5, 65534, 1000, 0, 7, 0, 1, 1, 2]
    _, (view,) = decode_images(frames)
    assert view.pixels.dtype == np.uint16
    assert view.pixels.tolist() == [[65535, 1, 1, 2], [65534, 1000, 65535, 7], [5, 5, 5, 5]]


@pytest.mark.parametrize(
    ("channels", "size", "shape"),
    [(1, 12, (3, 4)), (1, 36, (3, 4, 3)), (3, 36, (3, 4, 3)), (2, 24, (3, 4))],
)
def test_the_byte_count_tells_grey_from_colour(
    channels: int, size: int, shape: tuple[int, ...]
) -> None:
    _, (view,) = decode_images([as_json(header(channels=[channels])), bytes(size)])
    assert view.pixels.shape == shape


@pytest.mark.parametrize("channels", [0, 1, 2, 3, 4, -1])
def test_every_other_byte_count_is_refused(channels: int) -> None:
    accepted = {1: {12, 36}, 2: {24}, 3: {36}}.get(channels, set())
    for size in set(range(80)) - accepted:
        with pytest.raises(ProtocolError):
            decode_images([as_json(header(channels=[channels])), bytes(size)])


def test_every_truncation_of_an_answer_is_refused() -> None:
    vil = AnswerExtension(v=2, renderer="x", render_ns=3, sizes=[(4, 3)], info={"a": 1})
    frames = [
        bytes(f) for f in encode_images(header(vil=vil), [PixelImage(picture(Modality.RGB, 4, 3))])
    ]
    for part, whole in enumerate(frames):
        for size in range(len(whole)):
            with pytest.raises(ProtocolError):
                decode_images([whole[:size] if i == part else f for i, f in enumerate(frames)])
    for cut in ([], frames[:1], frames + frames[1:]):
        with pytest.raises(ProtocolError):
            decode_images(cut)


@pytest.mark.parametrize(
    "changes",
    [
        {"camWidth": 100_000},
        {"channels": []},
        {"cameraIDs": []},
        {"cameraIndexes": [0, 1]},
        {"vil": {"v": 2, "sizes": [[4, 3], [4, 3]]}},
        {"vil": {"v": 2, "sizes": [[9000, 3]]}},
        {"vil": {"v": 9}},
        {"landmarksInView": [{"ID": "a", "position": [0, 0]}]},
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        decode_images([as_json(header(), **changes), bytes(36)])


def test_answers_need_a_stamp() -> None:
    keys = json.loads(as_json(header()))
    del keys["ntime"]
    with pytest.raises(ProtocolError):
        decode_images([json.dumps(keys).encode(), bytes(36)])
    assert decode_images([json.dumps(keys | {"utime": 9}).encode(), bytes(36)])[0].stamp == 9


def test_sizes_of_the_extension_override_the_common_one() -> None:
    small, large = picture(Modality.RGB, 4, 3), picture(Modality.GRAY, 6, 2)
    two = header(
        cameraIDs=["a", "b"],
        channels=[3, 1],
        cameraIndexes=[0, 2],
        vil=AnswerExtension(v=2, sizes=[(4, 3), (6, 2)]),
    )
    _, views = decode_images(encode_images(two, [PixelImage(small), PixelImage(large)]))
    assert [v.index for v in views] == [0, 2]
    assert np.array_equal(views[0].pixels, small) and np.array_equal(views[1].pixels, large)


def test_a_picture_that_was_not_announced_is_not_sent() -> None:
    for image, changes in (
        (picture(Modality.RGB, 5, 3), {}),
        (picture(Modality.DEPTH, 4, 3), {}),
        (picture(Modality.RGB, 4, 3), {"channels": [2]}),
        (picture(Modality.RGB, 4, 3), {"cameraIDs": []}),
    ):
        with pytest.raises(RendererError):
            encode_images(header(**changes), [PixelImage(image)])
