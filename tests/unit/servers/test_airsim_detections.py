"""Detections and pictures of an external camera; drawn by a real process."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio
from scipy.spatial.transform import Rotation

from tests.support.common import needs_gl
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import ActorKind, SourceFrame
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.world.actors import Actor
from vil_bridge.world.world import World
from vil_renderer.queries.client import EmbeddedSceneQueries
from vil_renderer.queries.config import EmbeddedQueriesConfig
from vil_simulation.airsim.cameras import ServedCameras
from vil_simulation.airsim.detection_methods import DetectionMethods
from vil_simulation.airsim.geometry_methods import GeometryMethods
from vil_simulation.airsim.image_methods import ImageMethods
from vil_simulation.airsim.methods import NoSuchVehicle
from vil_simulation.airsim.object_methods import ObjectMethods
from vil_simulation.airsim.program_files import ProgramFiles
from vil_simulation.airsim.recorder import RecordingMethods, RecordingOptions
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.sensor_methods import SensorMethods
from vil_simulation.airsim.settings import (
    CameraSettings,
    CaptureSettings,
    SensorSettings,
    parse_settings,
)
from vil_simulation.airsim.state_methods import StateMethods
from vil_simulation.airsim.values import (
    AirsimGeoPoint,
    AirsimImageRequest,
    GivenPose,
    PointNed,
    Vector3r,
)
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles
from vil_simulation.vehicles.environment.geodesy import GeoOrigin

pytestmark = [pytest.mark.gl, pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

TOWER = CameraSettings(Transform.of((0.0, 0.0, 1.0)))
"""It looks north, one metre above the origin."""
RAISED = Transform.of((0.0, 0.0, 1.0))
NORTH = np.pi / 2
FRAME_S = 1 / 30


@dataclass
class Served:
    vehicles: ServedVehicles
    states: StateMethods
    detections: DetectionMethods
    images: ImageMethods
    scene: ServedScene
    geometry: GeometryMethods
    objects: ObjectMethods
    folder: Path


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A crate, 2 m high, that stands 5 m north of a camera, and nothing else."""
    needs_gl()
    queries = EmbeddedSceneQueries("test", EmbeddedQueriesConfig(scene="empty"))
    await queries.open()
    world = World({"sim": Transform.identity()}, [])
    vehicles = ServedVehicles([], VehicleCommandBus(), world, WallClock.of_run())
    scene, cameras = (
        ServedScene(queries, {}),
        ServedCameras({"tower": TOWER, "front_center": TOWER}),
    )
    origin = GeoOrigin(47.6, -122.1, 122.0)
    states = StateMethods(vehicles, "{}", origin, ())
    await scene.spawn("Crate1", "crate", Transform.of((0.0, 5.0, 0.0)), (1.0, 1.0, 2.0))
    folder = tmp_path_factory.mktemp("files")
    yield Served(
        vehicles,
        states,
        DetectionMethods(vehicles, cameras, scene, states),
        ImageMethods(vehicles, cameras, scene, lambda: FRAME_S),
        scene,
        GeometryMethods(vehicles, scene, states, ProgramFiles(folder)),
        ObjectMethods(vehicles, scene, states, origin),
        folder,
    )
    await queries.close()


def box(low: Vector3r, high: Vector3r) -> list[float]:
    return [low.x_val, low.y_val, low.z_val, high.x_val, high.y_val, high.z_val]


async def test_an_external_camera_detects_an_object_with_its_box_in_the_cameras_axes(
    served: Served,
) -> None:
    served.detections.add_filter("tower", 0, "crate*", external=True)
    (found,) = await served.detections.detections("tower", 0, external=True)
    assert found.name == "Crate1"
    assert box(found.box3D.min, found.box3D.max) == pytest.approx([4.5, -0.5, -1.0, 5.5, 0.5, 1.0])
    place = found.relative_pose.position
    assert (place.x_val, place.y_val, place.z_val) == pytest.approx((5.0, 0.0, 1.0))
    assert (
        found.box2D.min.x_val < 128 < found.box2D.max.x_val
        and found.box2D.min.y_val < 72 < found.box2D.max.y_val
    )
    served.detections.set_radius("tower", 0, 499.0, external=True)
    assert await served.detections.detections("tower", 0, external=True) == []
    served.detections.set_radius("tower", 0, 600.0, external=True)
    served.detections.clear("tower", 0, external=True)
    assert await served.detections.detections("tower", 0, external=True) == []


CRATE_CORNERS = np.array([(n, e, d) for n in (4.5, 5.5) for e in (-0.5, 0.5) for d in (-2.0, 0.0)])
"""North, east, down."""


@pytest.mark.parametrize(
    ("yaw_deg", "pitch_deg", "size_px", "fov_deg"),
    [
        (0.0, 0.0, (320, 200), 60.0),
        (-12.0, 0.0, (320, 200), 60.0),
        (-20.0, -15.0, (240, 320), 72.0),
    ],
)
async def test_a_box_in_the_picture_is_that_of_the_pinhole_equations(
    served: Served, yaw_deg: float, pitch_deg: float, size_px: tuple[int, int], fov_deg: float
) -> None:
    """The camera is 1.5 m east of the origin and 1.2 m high.

    A pixel shows what its middle shows.
    """
    eye = np.array([0.0, 1.5, -1.2])
    yaw = math.radians(yaw_deg)
    pitch = math.radians(pitch_deg)
    ahead = np.array(
        [math.cos(pitch) * math.cos(yaw), math.cos(pitch) * math.sin(yaw), -math.sin(pitch)]
    )
    right = np.array([-math.sin(yaw), math.cos(yaw), 0.0])
    down = np.cross(ahead, right)
    axes = np.column_stack((ahead, right, down))
    seen = (CRATE_CORNERS - eye) @ axes
    f_px = 0.5 * size_px[0] / math.tan(0.5 * math.radians(fov_deg))
    pixels = 0.5 * np.array(size_px) + f_px * seen[:, 1:] / seen[:, :1]
    low = np.ceil(pixels.min(axis=0) - 0.5)
    high = np.floor(pixels.max(axis=0) - 0.5) + 1.0
    assert np.abs(np.array([pixels.min(axis=0), pixels.max(axis=0)]) % 1.0 - 0.5).min() > 0.05, (
        "no middle on an edge"
    )

    settings = {"X": 0.0, "Y": 1.5, "Z": -1.2, "Yaw": yaw_deg, "Pitch": pitch_deg}
    capture = {"ImageType": 5, "Width": size_px[0], "Height": size_px[1], "FOV_Degrees": fov_deg}
    text = json.dumps({"ExternalCameras": {"corner": {**settings, "CaptureSettings": [capture]}}})
    cameras = ServedCameras(parse_settings(text).external_cameras)
    detections = DetectionMethods(served.vehicles, cameras, served.scene, served.states)
    detections.add_filter("corner", 5, "Crate1", external=True)
    (found,) = await detections.detections("corner", 5, external=True)
    assert (found.box2D.min.x_val, found.box2D.min.y_val) == tuple(low)
    assert (found.box2D.max.x_val, found.box2D.max.y_val) == tuple(high)
    np.testing.assert_allclose(
        box(found.box3D.min, found.box3D.max), [*seen.min(axis=0), *seen.max(axis=0)], atol=1e-6
    )
    p = found.relative_pose.position
    q = found.relative_pose.orientation
    np.testing.assert_allclose(
        (p.x_val, p.y_val, p.z_val), (np.array([5.0, 0.0, 0.0]) - eye) @ axes, atol=1e-6
    )
    # Its x is east: right is south.
    of_crate = np.array([(0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 0.0, 1.0)])
    turned = Rotation.from_quat([q.x_val, q.y_val, q.z_val, q.w_val]).as_matrix()
    np.testing.assert_allclose(turned.T, of_crate @ axes, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "seen"), [("CRATE1", True), ("c?ate1", True), ("Crate", False), ("[C]rate1", False)]
)
async def test_only_stars_and_question_marks_stand_for_others(
    served: Served, name: str, seen: bool
) -> None:
    served.detections.add_filter("0", 5, name, external=True)
    assert len(await served.detections.detections("0", 5, external=True)) == seen
    served.detections.clear("0", 5, external=True)


@pytest.mark.parametrize("name", ["", "0", "front_center"])
async def test_a_filter_belongs_to_the_camera_whatever_its_name_is(
    served: Served, name: str
) -> None:
    served.detections.add_filter("0", 3, "Crate?", external=True)
    assert len(await served.detections.detections(name, 3, external=True)) == 1
    assert await served.detections.detections("tower", 3, external=True) == []
    served.detections.clear("front_center", 3, external=True)


async def test_a_camera_that_does_not_exist_is_named(served: Served) -> None:
    with pytest.raises(
        NoSuchVehicle, match="'back' does not exist on 'the world'; known: tower, front_center"
    ):
        served.detections.clear("back", 3, external=True)


def sensors_of(
    served: Served, kind: str, yaw_rad: float, **sensors: SensorSettings
) -> SensorMethods:
    """Return the sensors of a vehicle at the origin; yaw counter-clockwise from east."""
    vehicle = ServedVehicle("V", "seer", None, kind, Transform.identity(), np.zeros(3), {}, sensors)
    q = np.array([[0.0, 0.0, np.sin(yaw_rad / 2), np.cos(yaw_rad / 2)]])
    world = World({"sim": Transform.identity()}, [Actor("seer", ActorKind.VEHICLE, "sim", "seer")])
    world.ingest(
        SourceFrame("sim", 0, None, now_ns(), ("seer",), np.zeros((1, 3)), q, np.ones(1, np.bool_))
    )
    vehicles = ServedVehicles([vehicle], VehicleCommandBus(), world, WallClock.of_run())
    no_clock: Any = None
    return SensorMethods(vehicles, served.scene, no_clock)


def lidar(**values: Any) -> SensorSettings:
    return SensorSettings("lidar", RAISED, {"PointsPerSecond": 4000, "Range": 7, **values})


@pytest.mark.parametrize(
    ("kind", "highest_m"), [("computervision", 0.793), ("car", 0.793), ("multirotor", -1.0)]
)
async def test_a_lidar_looks_ahead_on_all_but_multirotors(
    served: Served, kind: str, highest_m: float
) -> None:
    """Each beam that finds something within the range.

    The crate is a metre higher than the sensor.
    """
    scan = await sensors_of(served, kind, NORTH, L=lidar()).lidar()
    points = np.array(msgspec.msgpack.decode(bytes(scan.point_cloud))).reshape(-1, 3)
    assert (
        len(points) == len(msgspec.msgpack.decode(bytes(scan.segmentation))) > 0
        and scan.pose.position.z_val == -1.0
    )
    assert (-points[:, 2]).max() - 1.0 == pytest.approx(highest_m, abs=0.01)
    straight = points[np.abs(points[:, 1]) < 1e-3]
    first_m = 4.5 if highest_m > 0.0 else 1.0 / np.tan(np.radians(15.0))
    assert (straight[:, 0].max(), straight[:, 0].min() > 0.0) == (
        pytest.approx(first_m, abs=0.01),
        True,
    )


async def test_points_in_the_sensors_own_frame_are_ahead_right_and_down(served: Served) -> None:
    """The vehicle looks east: the crate is on its left."""
    own = await sensors_of(served, "car", 0.0, L=lidar(DataFrame="SensorLocalFrame")).lidar()
    world = await sensors_of(served, "car", 0.0, L=lidar()).lidar()
    local, north_east_down = (
        np.array(msgspec.msgpack.decode(bytes(scan.point_cloud))).reshape(-1, 3)
        for scan in (own, world)
    )
    crate = np.array(msgspec.msgpack.decode(bytes(own.segmentation))) == served.scene.ids.of(
        "Crate1"
    )
    assert (
        crate.any() and (local[crate, 1] < -4.0).all() and (north_east_down[crate, 0] > 4.0).all()
    )
    np.testing.assert_allclose(local[:, 0], north_east_down[:, 1], atol=1e-5)
    np.testing.assert_allclose(local[:, 1], -north_east_down[:, 0], atol=1e-5)
    np.testing.assert_allclose(local[:, 2] - 1.0, north_east_down[:, 2], atol=1e-5)


@pytest.mark.parametrize(
    ("yaw_rad", "most_m", "range_m"), [(NORTH, 40.0, 4.5), (NORTH, 3.0, 3.0), (-NORTH, 40.0, 40.0)]
)
async def test_a_range_is_at_most_the_largest_one(
    served: Served, yaw_rad: float, most_m: float, range_m: float
) -> None:
    sensor = SensorSettings("distance", RAISED, {"MaxDistance": most_m})
    found = await sensors_of(served, "multirotor", yaw_rad, S=sensor).distance()
    assert found.distance == pytest.approx(range_m, abs=0.01) and (
        found.min_distance,
        found.max_distance,
    ) == (
        0.2,
        most_m,
    )
    assert found.relative_pose.position.z_val == -1.0


async def test_a_picture_states_the_pose_that_it_was_drawn_from(served: Served) -> None:
    """Another program moves the camera while the picture is drawn."""
    pictures = asyncio.create_task(
        served.images.images([AirsimImageRequest("tower", 0)], external=True)
    )
    await asyncio.sleep(0)
    served.images.set_camera_pose("tower", GivenPose(Vector3r(0.0, 7.0, -1.0)), external=True)
    (picture,) = await pictures
    assert picture.width == 256
    assert (picture.camera_position.y_val, picture.camera_position.z_val) == (0.0, -1.0)
    served.images.set_camera_pose("tower", GivenPose(Vector3r(0.0, 0.0, -1.0)), external=True)


async def test_a_grid_of_voxels_has_north_fastest_then_up_then_east(served: Served) -> None:
    """Cells of half a metre: 4 m north by 2 m east by 3 m up.

    The crate's walls are in it, and the floor is not.
    """
    path = served.folder / "grid.binvox"
    middle = PointNed(5.0, 0.25, -1.85)
    assert await served.geometry.create_voxel_grid(middle, 4, 2, 3, 0.5, str(path)) is True
    header, data = path.read_bytes().split(b"\ndata\n", 1)
    assert header.decode().splitlines() == [
        "#binvox 1",
        "dim 8 6 4",
        "translate -4 -2 -3",
        "scale 4",
    ]
    runs = np.frombuffer(data, np.uint8).reshape(-1, 2)
    cells = np.repeat(runs[:, 0], runs[:, 1]).reshape(4, 6, 8)  # east, up, north
    expected = await served.scene.occupied(np.array([-0.75, 3.0, 0.35]), 0.5, (4, 8, 6))
    assert np.array_equal(cells, expected.transpose(0, 2, 1)) and 0 < cells.sum() < cells.size
    assert not cells[:, :, [0, 1, 6, 7]].any() and not cells[:, 5].any()


@pytest.mark.parametrize(
    ("size", "res", "path", "problem"),
    [
        ((1, 1, 1), 2.0, "a.binvox", "cells must be smaller than the box"),
        ((10**6, 1, 1), 0.5, "a.binvox", "at most 1048576 cells"),
        ((1, 1, 1), 0.5, "a.txt", "must end with .binvox"),
        ((1, 1, 1), 0.5, "missing/a.binvox", "No such file"),
        ((1, 1, 1), 0.5, "../a.binvox", "leads out of"),
    ],
)
async def test_a_grid_without_a_meaning_is_refused(
    served: Served, size: tuple[int, int, int], res: float, path: str, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        await served.geometry.create_voxel_grid(PointNed(), *size, res, path)


async def test_an_object_between_two_places_blocks_their_line_of_sight(served: Served) -> None:
    def place(north_m: float, height_m: float) -> AirsimGeoPoint:
        return AirsimGeoPoint(47.6 + math.degrees(north_m / 6.37e6), -122.1, 122.0 + height_m)

    assert not await served.objects.sees_between(place(3.0, 1.0), place(7.0, 1.0))
    assert await served.objects.sees_between(place(3.0, 1.0), place(4.0, 1.0))
    assert await served.objects.sees_between(place(3.0, 3.0), place(7.0, 3.0))
    assert await served.objects.sees_between(place(3.0, 1.0), place(3.0, 1.0))


def recordings(folder: Path) -> list[Path]:
    return list(folder.glob("*/airsim_rec.txt"))


async def test_a_row_of_a_recording_names_its_pictures(served: Served, tmp_path: Path) -> None:
    cameras = {"front": CameraSettings(RAISED, {0: CaptureSettings(8, 4)})}
    world = World({"sim": Transform.identity()}, [Actor("seer", ActorKind.VEHICLE, "sim", "seer")])
    q = np.array([[0.0, 0.0, np.sin(0.25 * np.pi), np.cos(0.25 * np.pi)]])
    p_m = np.array([[2.0, 1.0, 3.0]])
    world.ingest(SourceFrame("sim", 0, None, now_ns(), ("seer",), p_m, q, np.ones(1, np.bool_)))
    vehicle = ServedVehicle(
        "V", "seer", None, "multirotor", Transform.identity(), np.zeros(3), cameras, {}
    )
    vehicles = ServedVehicles([vehicle], VehicleCommandBus(), world, WallClock.of_run())
    images = ImageMethods(vehicles, ServedCameras({}), served.scene, lambda: FRAME_S)
    entries = [
        {"CameraName": "front"},
        {"ImageType": 1, "PixelsAsFloat": True},
        {"Compress": False},
    ]
    options = RecordingOptions.of({"Folder": str(tmp_path), "Cameras": entries})
    recording = RecordingMethods(vehicles, images, options, now_ns)
    await recording.start()
    found: list[Path] = []
    async with asyncio.timeout(60.0):
        while not found or len(found[0].read_text().splitlines()) < 2:
            await asyncio.sleep(0.01)
            found = recordings(tmp_path)
    assert await recording.end() == ""
    name, stamp, *numbers, files = found[0].read_text().splitlines()[1].split("\t")
    assert name == "V" and abs(int(stamp) - time.time() * 1e3) < 1e5
    assert [float(number) for number in numbers] == pytest.approx(
        [1.0, 2.0, -3.0, 1.0, 0.0, 0.0, 0.0], abs=1e-5
    )
    assert [file.split("_")[:4] for file in files.split(";")] == [
        ["img", "V", "front", "0"],
        ["img", "V", "0", "1"],
        ["img", "V", "0", "0"],
    ]
    assert [file.rpartition(".")[2] for file in files.split(";")] == ["png", "pfm", "ppm"]
    assert all((found[0].parent / "images" / file).stat().st_size > 0 for file in files.split(";"))
