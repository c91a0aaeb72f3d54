"""Axes, layouts and colours of the Flightmare protocol.

The vectors are those of its running client.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from msgspec import UNSET
from pydantic import ValidationError

from tests.support.flightgoggles import ask, drone, human, pose_at, view
from tests.support.flightmare import FRONT, draw
from tests.support.flightmare_original import OldClient
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.geometry import Transform, q_from_euler_zyx
from vil_bridge.core.types import ActorKind, Modality, RenderRequest, TrackingState
from vil_renderer.flightmare.axes import (
    T_CAMERA_OPTICAL,
    matrix_from_unity,
    matrix_to_unity,
    pose_from_unity,
    pose_to_unity,
    swapped,
)
from vil_renderer.flightmare.codec import decode_request
from vil_renderer.flightmare.colours import colours_of_ids, flow_colours, ids_of_colours
from vil_renderer.flightmare.config import FlightmareConfig
from vil_renderer.flightmare.convert import VIEWPOINT, SceneWriter, read_frame
from vil_renderer.flightmare.convert_renderer import read_scene, write_picture
from vil_renderer.flightmare.layout import Layer, slots_of
from vil_renderer.flightmare.messages import (
    Dialect,
    FlightmareHeader,
    SceneMessage,
    VehicleStateMessage,
)
from vil_renderer.flightmare.scenes import our_scene

P = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
WRITER_PREFABS = {ActorKind.HUMAN: "", ActorKind.PROP: ""}


def writer(dialect: Dialect = Dialect.MASTER) -> SceneWriter:
    return SceneWriter(dialect, 2, WRITER_PREFABS)


def written(request: RenderRequest, dialect: Dialect = Dialect.MASTER) -> SceneMessage:
    made = writer(dialect)
    return made.message(made.setup_of(request), request, request.frame_id)


# --- axes -----------------------------------------------------------------------------------------


def test_vectors_of_the_running_client() -> None:
    position, rotation = pose_to_unity(
        Transform.of((1, 2, 3), (0, 0, math.sin(0.3), math.cos(0.3)))
    )
    assert position == (1.0, 3.0, 2.0)
    assert rotation == pytest.approx((0.0, -0.29552, 0.0, 0.95534), abs=5e-6)
    T_BC = matrix_to_unity(Transform.of((0.1, 0.2, 0.3), q_from_euler_zyx(-math.pi / 2, 0, 0)))
    assert pytest.approx([0, 0, 1, 0.1, 0, 1, 0, 0.3, -1, 0, 0, 0.2, 0, 0, 0, 1], abs=1e-12) == T_BC


def test_axes_there_and_back() -> None:
    generator = np.random.default_rng(3)
    for _ in range(50):
        pose = Transform.of(generator.normal(size=3), generator.normal(size=4))
        back = pose_from_unity(*pose_to_unity(pose))
        assert back.p_m == pytest.approx(pose.p_m) and back.q_xyzw == pytest.approx(pose.q_xyzw)
        again = matrix_from_unity(matrix_to_unity(pose))
        assert again.p_m == pytest.approx(pose.p_m)
        assert again.rotation() == pytest.approx(pose.rotation())


def test_rotations_are_those_of_the_swapped_axes() -> None:
    """R_unity = P R P, by matrices."""
    pose = Transform.of((0.0, 0.0, 0.0), q_from_euler_zyx(0.5, -0.4, 1.1))
    _, (x, y, z, w) = pose_to_unity(pose)
    assert Transform.of((0, 0, 0), (x, y, z, w)).rotation() == pytest.approx(
        P @ pose.rotation() @ P
    )
    matrix = np.array(matrix_to_unity(pose)).reshape(4, 4)
    assert matrix[:3, :3] == pytest.approx(P @ pose.rotation() @ P)


def test_the_usual_camera_looks_along_the_bodys_x() -> None:
    T_body_optical = (
        Transform.of((0, 0, 0), q_from_euler_zyx(-math.pi / 2, 0, 0)) @ T_CAMERA_OPTICAL
    )
    right, down, ahead = T_body_optical.rotation().T
    assert ahead == pytest.approx([1, 0, 0]) and right == pytest.approx([0, -1, 0])
    assert down == pytest.approx([0, 0, -1])
    assert T_CAMERA_OPTICAL.rotation() @ [0, 0, 1] == pytest.approx([0, 1, 0]), (
        "unturned it looks along y"
    )


@pytest.mark.parametrize(
    "values", [[0.0] * 16, [2.0, *[0.0] * 15], np.diag([1.0, 1.0, -1.0, 1.0]).ravel().tolist()]
)
def test_a_matrix_that_is_no_pose(values: list[float]) -> None:
    with pytest.raises(ProtocolError, match="matrix of a pose"):
        matrix_from_unity(values)


def test_numbers_beyond_all_measure() -> None:
    with pytest.raises(ProtocolError):
        swapped((0.0, 1e8, 0.0))
    with pytest.raises(ProtocolError):
        pose_from_unity((0, 0, 0), (0, 0, 0, 1e9))
    with pytest.raises(ProtocolError):
        matrix_from_unity([1, 0, 0, 1e9, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("dialect", [Dialect.MASTER, Dialect.V2022, Dialect.AGILE_AUTONOMY])
def test_a_request_comes_out_at_the_other_end(dialect: Dialect) -> None:
    views = (
        view(FRONT, pose=pose_at(1.2, 2.5, 3.1, 0.4, -0.2, 0.1), hide=("d",)),
        view(FRONT, Modality.DEPTH, pose=pose_at(1.2, 2.5, 3.1, 0.4, -0.2, 0.1), hide=("d",)),
        view(
            replace(FRONT, name="wall", fov_y_rad=0.7), pose=pose_at(-4.0, 2.0, 3.8, -1.1, 0.3, 0.2)
        ),
    )
    d = drone("d", pose_at(1.0, 2.0, 3.0, 2.5, 1.2, -0.7))
    message = written(ask(9, views, (d,)), dialect)
    task = read_scene(message, message, 9)
    by_key = {shot.view.key: shot for shot in task.requests}
    assert set(by_key) == {"front", "front/depth32", "wall"}
    for wanted in (views[0], views[2]):
        got = by_key[wanted.key].view
        assert got.T_world_camera.p_m == pytest.approx(wanted.T_world_camera.p_m)
        assert got.T_world_camera.rotation() == pytest.approx(wanted.T_world_camera.rotation())
        assert got.camera.fov_y_rad == pytest.approx(wanted.camera.fov_y_rad)
        assert pytest.approx(wanted.camera.K) == got.camera.K
    assert by_key["front"].view.hide == ("d",) and by_key["wall"].view.hide == (VIEWPOINT,)
    (actor,) = task.snapshot.actors
    assert (actor.name, actor.kind, actor.size_m) == ("d", ActorKind.VEHICLE, (0.35, 0.35, 0.12))
    assert actor.T_world_body.p_m == pytest.approx(d.T_world_body.p_m)
    assert actor.T_world_body.rotation() == pytest.approx(d.T_world_body.rotation())
    assert by_key["front/depth32"].slot.far_m == (
        1000.0 if dialect is Dialect.AGILE_AUTONOMY else 100.0
    )


# --- what the client writes -----------------------------------------------------------------------


def test_keys_of_each_dialect() -> None:
    request = ask(
        9,
        (view(FRONT, Modality.DEPTH), view(FRONT, Modality.INSTANCE)),
        (drone("d", pose_at(0, 0, 1)),),
    )
    master, modern, agile = (
        written(request, dialect)
        for dialect in (Dialect.MASTER, Dialect.V2022, Dialect.AGILE_AUTONOMY)
    )
    cameras = [
        next(c for v in message.vehicles for c in v.cameras) for message in (master, modern, agile)
    ]
    assert master.frame_id == modern.frame_id == agile.ntime == 9 and agile.frame_id is UNSET
    assert cameras[0].enabledLayers == cameras[1].enabledLayers == [True, True, False]
    assert cameras[0].farClipPlane == [1000.0, 100.0, 1000.0, 1000.0]
    assert (
        cameras[2].post_processing == ["depth", "object_segment"]
        and cameras[2].enabledLayers is UNSET
    )
    assert master.objects == agile.objects == modern.dynamic_objects == modern.static_objects == []
    assert (
        modern.objects is UNSET
        and modern.object_csv == "/dev/null"
        and modern.render_offset == (0.0, 0.0, 0.0)
    )
    assert master.scene_id == 2


def test_settings_have_no_number_and_poses_repeat_them() -> None:
    request = ask(9, (view(FRONT),), (drone("d", pose_at(0, 0, 1)),))
    made = writer()
    shape = made.setup_of(request)
    settings, pose = made.message(shape, request), made.message(shape, request, 9)
    assert settings.stamp is None and pose.stamp == 9
    assert settings.vehicles == pose.vehicles and settings.scene_id == pose.scene_id


def test_the_shape_is_what_the_settings_fix() -> None:
    made = writer()
    actors = (drone("a", pose_at(0, 0, 1)), drone("b", pose_at(1, 0, 1)))
    first = made.setup_of(ask(1, (view(FRONT, hide=("a",)),), actors))
    moved = (drone("a", pose_at(5, 5, 1)), drone("b", pose_at(1, 0, 2), TrackingState.LOST))
    assert made.setup_of(ask(2, (view(FRONT, hide=("a",), pose=pose_at(1, 1, 1)),), moved)) == first
    for other in (
        ask(3, (view(FRONT, hide=("b",)),), actors),
        ask(3, (view(FRONT, hide=("a",)),), actors[:1]),
        ask(3, (view(FRONT, Modality.DEPTH, hide=("a",)),), actors),
        ask(3, (view(replace(FRONT, width_px=32), hide=("a",)),), actors),
        ask(3, (view(FRONT, hide=("a",)), view(replace(FRONT, name="rear"))), actors),
    ):
        assert made.setup_of(other) != first
    with pytest.raises(RendererError, match="without cameras"):
        made.setup_of(RenderRequest(1, 0, (), ask(1).snapshot))


@pytest.mark.parametrize("bare", range(6))
def test_the_vehicle_in_the_middle_has_a_camera(bare: int) -> None:
    actors = [drone(f"bare{i}", pose_at(i, 0, 1)) for i in range(bare)]
    for hide in ((), ("carrier",)):
        request = ask(1, (view(FRONT, hide=hide),), (*actors, drone("carrier", pose_at(0, 5, 1))))
        carriers = writer().setup_of(request).carriers
        assert carriers[len(carriers) // 2][1]
        assert len(carriers) == bare + (1 if hide else 2)


def test_objects_of_2022_are_those_of_the_settings() -> None:
    made = SceneWriter(Dialect.V2022, 0, {ActorKind.HUMAN: "Bone", ActorKind.PROP: ""})
    alone, both = ask(1, (view(FRONT),)), ask(2, (view(FRONT),), (human(0.1, prefab=""),))
    shape = made.setup_of(alone)
    assert made.message(shape, alone).dynamic_objects == []
    assert made.message(shape, both, 2).dynamic_objects == [], (
        "the program stops at an unknown object"
    )
    assert len(made.message(shape, both).dynamic_objects or []) == 4
    assert len(made.message(shape, both, 3).dynamic_objects or []) == 4


# --- frames ---------------------------------------------------------------------------------------


@pytest.mark.wire
def test_parts_follow_vehicles_cameras_and_layers() -> None:
    with OldClient("event_camera", cameras=2, layers=(True, False, True)) as old:
        old.vehicles.append(old.vehicles[0] | {"ID": "second", "cameras": [], "eventcameras": []})
        message = decode_request(
            [b"Pose", json.dumps(old.pose(1)).encode().replace(b'"second"', b'"second"')]
        )
    assert isinstance(message, SceneMessage)
    order = [(slot.camera, slot.layer, slot.parts) for slot in slots_of(message.vehicles)]
    both = [(Layer.COLOUR, 1), (Layer.DEPTH, 1), (Layer.FLOW, 1)]
    assert order == [(c, *layer) for c in (0, 1) for layer in both] + [(0, Layer.EVENTS, 3)]


def test_a_frame_of_another_layout_is_malformed() -> None:
    request = ask(3, (view(FRONT), view(FRONT, Modality.DEPTH32)))
    message = written(request)
    task = read_scene(message, message, 3)
    images = {i.view.key: i for i in draw(task.views, task.snapshot).images}
    parts = [write_picture(shot, images) for shot in task.requests]
    state = VehicleStateMessage(collision=False, lidar_ranges=[])
    header = FlightmareHeader(frame_id=3, pub_vehicles=[state])
    frame, problems = read_frame(header, parts, message.vehicles, request, 77)
    assert not problems and frame.t_image_ns == 77 and len(frame.images) == 2
    for wrong in (parts[:1], [*parts, parts[0]], parts[::-1], [parts[0], parts[0][:-4]]):
        with pytest.raises(ProtocolError):
            read_frame(header, wrong, message.vehicles, request, 77)
    with pytest.raises(ProtocolError):
        read_frame(replace_states(header, 2), parts, message.vehicles, request, 77)
    old_depth = [parts[0], bytes(3 * 16 * 8)]
    frame, problems = read_frame(header, old_depth, message.vehicles, request, 77)
    assert [i.view.key for i in frame.images] == [
        "front"
    ] and "older than November 2020" in problems[0]


def replace_states(header: FlightmareHeader, count: int) -> FlightmareHeader:
    return FlightmareHeader(frame_id=header.frame_id, pub_vehicles=header.pub_vehicles * count)


def test_a_picture_that_was_not_drawn_as_asked_is_no_frame() -> None:
    message = written(ask(3, (view(FRONT),)))
    (shot,) = read_scene(message, message, 3).requests
    with pytest.raises(RendererError, match="not drawn"):
        write_picture(shot, {})
    small = draw((replace(shot.view, camera=replace(FRONT, width_px=32)),), ask(3).snapshot).images[
        0
    ]
    with pytest.raises(RendererError, match="another size"):
        write_picture(shot, {shot.view.key: small})


# --- colours, scenes, configuration ---------------------------------------------------------------


def test_colours_of_instances() -> None:
    """Red, green and blue of the first ids: the bits of 2 id, reversed and dealt out."""
    expected = {
        0: (0, 0, 0),
        1: (0, 4, 0),
        2: (128, 0, 0),
        3: (128, 4, 0),
        64: (0, 0, 1),
        128: (0, 64, 0),
    }
    ids = np.array([list(expected)], np.uint16)
    assert [tuple(c) for c in colours_of_ids(ids)[0].tolist()] == list(expected.values())
    every = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    assert np.array_equal(ids_of_colours(colours_of_ids(every)), every)
    assert ids_of_colours(np.array([[[0, 32, 0], [7, 7, 7]]], np.uint8)).tolist() == [[0, 0]], (
        "nobody's colours"
    )


@pytest.mark.parametrize(
    ("flow_px", "colour"),
    [
        ((20.0, 0.0), (255, 0, 0)),  # right
        ((-20.0, 0.0), (0, 255, 255)),  # left
        ((0.0, -10.0), (128, 255, 0)),  # up: Unity's y
        ((0.0, 10.0), (128, 0, 255)),  # down
        ((10.0, 0.0), (128, 0, 0)),
        ((0.0, 0.0), (0, 0, 0)),
        ((400.0, 0.0), (255, 0, 0)),
    ],
)
def test_colours_of_motion(flow_px: tuple[float, float], colour: tuple[int, int, int]) -> None:
    """A whole picture (20 x 10) is full brightness."""
    flow = np.full((10, 20, 2), flow_px, np.float32)
    assert flow_colours(flow, None)[3, 4].tolist() == pytest.approx(colour, abs=1)
    assert not flow_colours(flow, np.zeros((10, 20), np.bool_)).any()


def test_scene_numbers() -> None:
    assert our_scene(Dialect.MASTER, 1) == our_scene(Dialect.V2022, 0) == "hall"
    assert our_scene(Dialect.MASTER, 2) == "garage" and our_scene(Dialect.MASTER, 3) == "yard"
    assert our_scene(Dialect.V2022, 3) == our_scene(Dialect.AGILE_AUTONOMY, 7) == "yard"
    assert our_scene(Dialect.MASTER, 99) == "hall", "an unknown number is the first scene"


def test_the_configuration_is_checked() -> None:
    config = FlightmareConfig(dialect="2022", bind="0.0.0.0", insecure=True)
    assert config.max_in_flight == 2 and config.silence_s == 5.0
    for wrong in (
        {"dialect": "chao"},
        {"bind": "localhost"},
        {"max_in_flight": 3},
        {"keep_alive_s": 1.5},
        {"pose_port": 70000},
    ):
        with pytest.raises(ValidationError):
            FlightmareConfig.model_validate(wrong)
