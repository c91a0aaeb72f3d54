from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.support.flightgoggles import (
    BLUE,
    BONES,
    FRONT,
    OFFSETS_M,
    PARENTS,
    RED,
    ask,
    draw,
    drone,
    golden,
    human,
    picture,
    pose_at,
    view,
    walker,
)
from vil_bridge.core import geometry
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    Landmark,
    Modality,
    RenderRequest,
    TrackingState,
    View,
)
from vil_renderer.flightgoggles.codec import decode_images, decode_pose, encode_images, encode_pose
from vil_renderer.flightgoggles.convert import PoseWriter, read_answer
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest, read_pose, write_answer
from vil_renderer.flightgoggles.messages import PoseMessage

# Row "ENU world, FLU body" of the protocol's frame table, and its rule for optical cameras.
WORLD = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
BODY = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
OPTICAL = np.diag([1.0, -1.0, 1.0])
PREFABS = {ActorKind.VEHICLE: "Quad", ActorKind.HUMAN: "", ActorKind.PROP: ""}
LOST = TrackingState.LOST


def wire(request: RenderRequest, writer: PoseWriter | None = None) -> dict[str, Any]:
    """The JSON that a renderer gets."""
    result: dict[str, Any] = json.loads(
        encode_pose((writer or PoseWriter("Hall", PREFABS)).message(request))[1]
    )
    return result


def through(request: RenderRequest, drawn: RenderedRequest | None = None) -> tuple[Any, list[str]]:
    """Request, renderer, answer: everything but the sockets."""
    message = decode_pose(encode_pose(PoseWriter("Hall", PREFABS).message(request)))
    views, snapshot = read_pose(message)
    header, images = write_answer(message, views, drawn or draw(views, snapshot), 7)
    return read_answer(*decode_images(encode_images(header, images)), request, 99)


def assert_rotation(q_unity: list[float], expected: FloatArray) -> None:
    assert np.linalg.norm(q_unity) == pytest.approx(1.0, abs=1e-9)
    assert np.abs(Rotation.from_quat(q_unity).as_matrix() - expected).max() < 1e-6


# --- actors -------------------------------------------------------------------------------------


def test_segments_of_a_walking_skeleton_have_the_reference_pose() -> None:
    writer = PoseWriter("Hall", PREFABS)
    for step in range(25):
        skeleton = walker(0.3 * step)
        message = wire(ask(step + 1, actors=[human(0.3 * step)]), writer)
        objects = {o["ID"]: o for o in message["objects"]}
        assert list(objects) == [f"human/{bone}" for bone in BONES]
        (sent,) = message["vil"]["skeletons"]
        for i, bone in enumerate(BONES):
            thing = objects[f"human/{bone}"]
            R_world_bone = Rotation.from_quat(skeleton.q_xyzw[i]).as_matrix()
            assert thing["prefabID"] == "Bone"
            assert np.abs(np.array(thing["position"]) - WORLD @ skeleton.p_m[i]).max() < 1e-6
            assert_rotation(thing["rotation"], WORLD @ R_world_bone @ BODY)
            assert (sent["positions"][i], sent["rotations"][i]) == (
                thing["position"],
                thing["rotation"],
            )


def test_the_skeleton_for_our_renderer() -> None:
    (sent,) = wire(ask(1, actors=[drone("d", pose_at(0, 0, 1)), human(1.0)]))["vil"]["skeletons"]
    assert (sent["name"], sent["prefab"], sent["objects_prefix"]) == ("human", "Bone", "human/")
    assert (tuple(sent["bones"]), tuple(sent["parents"])) == (BONES, PARENTS)
    assert np.allclose(sent["offsets"], OFFSETS_M @ BODY)


def test_vehicles_and_props_are_objects() -> None:
    gate = ActorState(
        "gate", ActorKind.PROP, TrackingState.STALE, 9, pose_at(5, 1, 2, 0.5), None, "Square_Gate"
    )
    bare = ActorState("crate", ActorKind.PROP, TrackingState.TRACKED, 9, pose_at(5, 1, 2))
    other = ActorState("other", ActorKind.VEHICLE, TrackingState.COASTING, 9, pose_at(1, 2, 3))
    writer = PoseWriter("Hall", PREFABS)
    message = wire(ask(1, actors=[gate, bare, other]), writer)
    assert [(o["ID"], o["prefabID"], o["size"]) for o in message["objects"]] == [
        ("gate", "Square_Gate", [1.0, 1.0, 1.0]),
        ("other", "Quad", [1.0, 1.0, 1.0]),
    ]
    assert message["objects"][0]["position"] == [5.0, 2.0, 1.0]
    assert_rotation(
        message["objects"][0]["rotation"], WORLD @ Rotation.from_euler("z", 0.5).as_matrix() @ BODY
    )
    assert writer.without_prefab == {"crate"}
    assert [a["name"] for a in message["vil"]["actors"]] == ["gate", "crate", "other"]
    assert message["sceneFilename"] == "Hall"


def test_what_was_sent_once_is_sent_for_ever_and_hidden_while_lost() -> None:
    writer = PoseWriter("Hall", PREFABS)
    there = pose_at(1, 2, 3)
    first = wire(ask(1, actors=[human(0.0), drone("a", there)]), writer)
    ids = [o["ID"] for o in first["objects"]]
    assert ids == [*(f"human/{bone}" for bone in BONES), "a"]
    for actors in ([human(0.1, LOST), drone("a", there)], [drone("a", there)]):
        message = wire(ask(2, actors=actors), writer)
        assert [o["ID"] for o in message["objects"]] == ids
        assert [o["position"][1] for o in message["objects"]] == [-1000.0] * len(BONES) + [3.0]
        assert message["vil"]["skeletons"] == [] and [
            a["name"] for a in message["vil"]["actors"]
        ] == ["a"]
    again = wire(ask(3, actors=[drone("b", there), human(0.2), drone("a", there, LOST)]), writer)
    assert [o["ID"] for o in again["objects"]] == [*ids, "b"]
    assert [o["position"][1] > 0.0 for o in again["objects"]] == [True] * len(BONES) + [False, True]


def test_an_actor_that_was_never_seen_is_not_sent() -> None:
    message = wire(ask(1, actors=[human(0.0, LOST), drone("a", pose_at(0, 0, 0), LOST)]))
    assert message["objects"] == message["vil"]["actors"] == []


def test_the_carrier_of_a_camera_is_hidden_from_it() -> None:
    views = [view(hide=("ego",)), view(CameraModel("chase", 8, 6, 1.0))]
    message = wire(
        ask(1, views, [drone("ego", pose_at(0, 0, 1)), drone("other", pose_at(1, 0, 1))])
    )
    assert [o["ID"] for o in message["objects"]] == ["other"]
    assert [a["name"] for a in message["vil"]["actors"]] == ["ego", "other"]
    assert [c["hide"] for c in message["vil"]["cameras"]] == [["ego"], []]


# --- cameras ------------------------------------------------------------------------------------


def test_cameras_carry_the_keys_of_v2_and_v3() -> None:
    pose = pose_at(1.0, 2.0, 3.0, 0.4, -0.2, 0.1)
    views = [
        view(pose=pose),
        view(modality=Modality.DEPTH, pose=pose),
        view(modality=Modality.GRAY, due=False),
    ]
    message = wire(ask(2**53 + 1, views))
    rgb, depth, grey = message["cameras"]
    assert message["ntime"] == 2**53 + 1
    assert (message["camWidth"], message["camHeight"]) == (8, 6)
    assert message["camFOV"] == pytest.approx(70.0)
    assert rgb["position"] == [1.0, 3.0, 2.0]
    assert_rotation(rgb["rotation"], WORLD @ pose.rotation() @ OPTICAL)
    assert [c["ID"] for c in message["cameras"]] == ["front", "front/depth", "front/gray"]
    assert [c["outputShaderType"] for c in message["cameras"]] == [-1, 3, 5]
    assert [c["channels"] for c in message["cameras"]] == [3, 1, 1]
    assert [c["isDepth"] for c in message["cameras"]] == [False, True, False]
    assert [c["outputIndex"] for c in message["cameras"]] == [0, 1, 2]
    assert [c["shouldRenderThisFrame"] for c in message["cameras"]] == [True, True, False]
    assert rgb["hasCollisionCheck"] and depth["hasCollisionCheck"] and grey["hasCollisionCheck"]


def test_a_camera_that_looks_ahead_is_unitys_identity_at_identity() -> None:
    # An optical camera looking along world +y (north, Unity's +z) with its x axis east is not
    # turned in Unity.
    looking_north = geometry.Transform(
        np.array([0.0, 0.0, 1.0]),
        geometry.q_from_matrix(np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])),
    )
    (camera,) = wire(ask(1, [view(pose=looking_north)]))["cameras"]
    assert np.allclose(np.abs(camera["rotation"]), [0, 0, 0, 1], atol=1e-12)


def test_requests_survive_the_way_to_our_renderer() -> None:
    down = CameraModel("down", 10, 4, math.radians(91.0))
    views = [
        view(hide=("ego",)),
        view(down, Modality.DEPTH, pose_at(0, 1, 2, 3)),
        view(down, Modality.GRAY, due=False),
    ]
    request = ask(9, views, [drone("ego", pose_at(1, 2, 3, 0.3)), human(0.7)])
    read_views, snapshot = read_pose(
        decode_pose(encode_pose(PoseWriter("Hall", PREFABS).message(request)))
    )
    assert snapshot.t_ns == request.snapshot.t_ns
    for got, sent in zip(read_views, views, strict=True):
        assert (got.key, got.modality, got.due, got.collision, got.hide) == (
            sent.key,
            sent.modality,
            sent.due,
            sent.collision,
            sent.hide,
        )
        assert np.allclose(got.camera.K, sent.camera.K, rtol=1e-12)
        assert np.allclose(got.T_world_camera.p_m, sent.T_world_camera.p_m)
        assert np.allclose(
            got.T_world_camera.rotation(), sent.T_world_camera.rotation(), atol=1e-12
        )
    for actor, was in zip(snapshot.actors, request.snapshot.actors, strict=True):
        assert (actor.name, actor.kind, actor.prefab) == (was.name, was.kind, was.prefab)
        assert actor.size_m == pytest.approx(was.size_m)
        assert np.allclose(actor.T_world_body.rotation(), was.T_world_body.rotation(), atol=1e-12)
    got_skeleton, was_skeleton = snapshot.actors[1].skeleton, walker(0.7)
    assert got_skeleton is not None and snapshot.actors[0].skeleton is None
    assert (got_skeleton.model.bones, got_skeleton.model.parents) == (BONES, PARENTS)
    assert np.allclose(got_skeleton.model.offsets_m, OFFSETS_M)
    assert np.allclose(got_skeleton.p_m, was_skeleton.p_m)
    assert np.allclose(np.abs((got_skeleton.q_xyzw * was_skeleton.q_xyzw).sum(axis=1)), 1.0)


# --- plain clients ------------------------------------------------------------------------------


def test_original_clients_are_understood() -> None:
    (left,), snapshot = read_pose(decode_pose(golden("pose_v2.json")))
    assert (left.key, left.modality, left.camera.width_px, left.due, left.collision) == (
        "Camera_Left",
        Modality.RGB,
        640,
        True,
        True,
    )
    assert left.camera.f_px == pytest.approx(342.755521608)
    assert left.T_world_camera.p_m.tolist() == [-2.0, 1.06, -1.5]
    assert snapshot.actors == ()
    (right,), _ = read_pose(decode_pose(golden("pose_v3.json")))
    assert right.modality is Modality.DEPTH
    assert right.camera.f_px == pytest.approx(415.692193817)
    (grey,), snapshot = read_pose(decode_pose(golden("pose_v1.json")))
    assert grey.modality is Modality.GRAY
    (window,) = snapshot.actors
    assert (window.name, window.kind, window.prefab) == ("window_1", ActorKind.PROP, "window")
    assert window.T_world_body.p_m.tolist() == [1.0, 5.0, 2.0] and window.size_m == (0.1, 1.5, 1.0)


@pytest.mark.parametrize("shader", [7, 99, -2])
def test_shaders_that_we_lack_are_left_out_of_the_answer(shader: int) -> None:
    message = decode_pose(golden("pose_v3.json"))
    message.cameras.append(
        msgspec.structs.replace(message.cameras[0], ID="other", outputShaderType=shader)
    )
    views, snapshot = read_pose(message)
    assert [v.due for v in views] == [True, False]
    header, images = write_answer(message, views, draw(views, snapshot), 1)
    assert (header.cameraIDs, header.cameraIndexes, len(images)) == (["Camera_Right"], [0], 1)
    assert header.vil is not msgspec.UNSET and (header.vil.renderer, header.vil.render_ns) == (
        "test",
        1,
    )


def test_attitudes_of_other_lengths_are_normalised() -> None:
    topic, body = golden("pose_v2.json")
    message = json.loads(body)
    ((camera, *_), _) = read_pose(decode_pose([topic, body]))
    message["cameras"][0]["rotation"] = [3.0 * value for value in message["cameras"][0]["rotation"]]
    ((longer, *_), _) = read_pose(decode_pose([topic, json.dumps(message).encode()]))
    assert np.allclose(longer.T_world_camera.q_xyzw, camera.T_world_camera.q_xyzw, atol=1e-12)
    assert np.linalg.norm(longer.T_world_camera.q_xyzw) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "change",
    [
        {
            "objects": [
                {"ID": "a", "prefabID": "b", "position": [1e9, 0, 0], "rotation": [0, 0, 0, 1]}
            ]
        },
        {
            "objects": [
                {"ID": "a", "prefabID": "b", "position": [0, 0, 0], "rotation": [0, 0, 0, 1e200]}
            ]
        },
    ],
)
def test_numbers_beyond_all_measure_are_refused(change: dict[str, Any]) -> None:
    topic, body = golden("pose_v2.json")
    with pytest.raises(ProtocolError):
        read_pose(decode_pose([topic, json.dumps(json.loads(body) | change).encode()]))


def test_two_cameras_of_one_name_are_refused() -> None:
    topic, body = golden("pose_v3.json")
    message = json.loads(body)
    (camera,) = message["cameras"]
    message["cameras"] = [camera | {"ID": "a"}, camera | {"ID": "a/depth", "outputShaderType": -1}]
    with pytest.raises(ProtocolError):
        read_pose(decode_pose([topic, json.dumps(message).encode()]))


# --- answers ------------------------------------------------------------------------------------


def test_pictures_come_back_as_drawn() -> None:
    down = CameraModel("down", 10, 4, 1.0)
    views = [
        view(),
        view(due=False, camera=CameraModel("idle", 8, 6, 1.0)),
        view(down, Modality.DEPTH),
        view(down, Modality.GRAY),
    ]
    frame, problems = through(ask(4, views))
    assert problems == []
    assert [image.view for image in frame.images] == [views[0], views[2], views[3]]
    for image in frame.images:
        camera = image.view.camera
        assert np.array_equal(
            image.pixels, picture(image.view.modality, camera.width_px, camera.height_px)
        )
    assert (frame.t_image_ns, frame.request.frame_id) == (99, 4)


def test_side_channels_come_back() -> None:
    marks = (Landmark("Gate1_1", 0.0, 0.0, 4.5), Landmark("Gate1_2", 7.0, 5.0, 2.0))
    frame, _ = through(ask(1), RenderedRequest((), True, marks, 3.25))
    assert frame.collision and frame.range_m == 3.25 and frame.images == ()
    for got, was in zip(frame.landmarks, marks, strict=True):
        assert (got.name, got.u_px, got.v_px, got.depth_m) == pytest.approx(
            (was.name, was.u_px, was.v_px, was.depth_m)
        )
    assert through(ask(1), RenderedRequest(()))[0].range_m is None


def answered(
    request: RenderRequest, header: dict[str, Any], *pictures: bytes
) -> tuple[Any, list[str]]:
    """What the bridge makes of an original renderer's answer."""
    keys = {"ntime": request.frame_id, "camWidth": 8, "camHeight": 6, "camDepthScale": 0.2} | header
    return read_answer(*decode_images([json.dumps(keys).encode(), *pictures]), request, 1)


def test_landmarks_have_their_origin_at_the_bottom_left() -> None:
    header = {
        "cameraIDs": [],
        "channels": [],
        "lidarReturn": 21.0,
        "landmarksInView": [{"ID": "Gate1_1", "position": [0.25, 0.75, 3.0]}],
    }
    frame, _ = answered(ask(1), header)
    assert frame.landmarks == (Landmark("Gate1_1", 0.25 * 8 - 0.5, 0.25 * 6 - 0.5, 3.0),)
    assert frame.range_m is None


def rgb_on_the_wire() -> bytes:
    return bytes(BLUE) * 24 + bytes(RED) * 24


def test_cameras_are_matched_by_index_else_by_name() -> None:
    views = [view(), view(CameraModel("second", 8, 6, FRONT.fov_y_rad))]
    by_index = {"cameraIDs": ["whatever"], "channels": [3], "cameraIndexes": [1]}
    frame, problems = answered(ask(1, views), by_index, rgb_on_the_wire())
    assert [i.view for i in frame.images] == [views[1]] and not problems
    assert frame.images[0].pixels[0, 0].tolist() == list(RED)
    by_name = {"cameraIDs": ["second", "front"], "channels": [3, 3]}
    frame, problems = answered(ask(1, views), by_name, rgb_on_the_wire(), rgb_on_the_wire())
    assert [i.view for i in frame.images] == views[::-1] and not problems
    frame, problems = answered(
        ask(1, views), {"cameraIDs": ["third"], "channels": [3]}, rgb_on_the_wire()
    )
    assert frame.images == () and len(problems) == 1
    frame, problems = answered(ask(1, views), by_index | {"cameraIndexes": [2]}, rgb_on_the_wire())
    assert frame.images == () and len(problems) == 1


def test_v2_draws_cameras_that_were_not_due() -> None:
    views = [view(due=False), view(CameraModel("second", 8, 6, FRONT.fov_y_rad))]
    both = {"cameraIDs": ["front", "second"], "channels": [3, 3]}
    frame, problems = answered(ask(1, views), both, rgb_on_the_wire(), rgb_on_the_wire())
    assert [i.view for i in frame.images] == [views[1]] and problems == []


@pytest.mark.parametrize("data", [rgb_on_the_wire(), bytes([7]) * 24 + bytes([9]) * 24])
def test_grey_with_three_or_one_byte_per_pixel(data: bytes) -> None:
    frame, problems = answered(
        ask(1, [view(modality=Modality.GRAY)]), {"cameraIDs": ["front/gray"], "channels": [1]}, data
    )
    (image,) = frame.images
    assert problems == [] and image.pixels.shape == (6, 8) and image.pixels.dtype == np.uint8
    if len(data) == 48:
        assert (image.pixels[0, 0], image.pixels[5, 0]) == (9, 7)
    else:
        for pixel, (r, g, b) in ((image.pixels[0, 0], RED), (image.pixels[5, 0], BLUE)):
            assert abs(int(pixel) - (77 * r + 150 * g + 29 * b) / 256) <= 1.0


@pytest.mark.parametrize(
    ("asked", "channels", "size"),
    [
        (view(modality=Modality.DEPTH), 3, 144),
        (view(), 2, 96),
        (view(), 1, 48),
        (view(CameraModel("front", 4, 3, 1.0)), 3, 144),
    ],
)
def test_pictures_that_are_not_what_was_asked_for_are_left_out(
    asked: View, channels: int, size: int
) -> None:
    frame, problems = answered(
        ask(1, [asked]), {"cameraIDs": [asked.key], "channels": [channels]}, bytes(size)
    )
    assert frame.images == () and len(problems) == 1


def test_original_renderers_have_one_field_of_view() -> None:
    views = [view(), view(CameraModel("wide", 8, 6, 2.0))]
    both = {"cameraIDs": ["front", "wide"], "channels": [3, 3]}
    frame, problems = answered(ask(1, views), both, rgb_on_the_wire(), rgb_on_the_wire())
    assert [i.view for i in frame.images] == [views[0]] and "wide" in problems[0]


def test_a_request_needs_a_camera() -> None:
    with pytest.raises(RendererError):
        PoseWriter("Hall", PREFABS).message(RenderRequest(1, 1, (), ask(1).snapshot))


def test_metadata_repeats_the_request() -> None:
    message: PoseMessage = decode_pose(golden("pose_v2.json"))
    views, snapshot = read_pose(message)
    header, _ = write_answer(message, views, draw(views, snapshot), 1)
    assert (header.ntime, header.utime) == (1795199186488295359, 1795199186488295359)
    assert (header.camDepthScale, header.lidarReturn, header.isCompressed) == (0.2, 21.0, False)
