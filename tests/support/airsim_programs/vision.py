"""Programs for SimMode ComputerVision, run with AirSim's own client; as multirotor.py."""

import json
import math
import sys
import time
from pathlib import Path

import airsim
import numpy as np


def cv_mode(client, folder):
    """Poses set one after another, with pictures of every kind; each belongs to its pose."""
    kinds = range(9)
    for x in range(3):
        pose = airsim.Pose(airsim.Vector3r(x, 0, -2), airsim.to_quaternion(0, 0, 0.3 * x))
        client.simSetVehiclePose(pose, True)
        responses = client.simGetImages(
            [airsim.ImageRequest("0", kind, False, False) for kind in kinds]
        )
        for kind, response in zip(kinds, responses, strict=True):
            assert response.image_type == kind and response.width == 256, response.message
            assert (
                abs(response.camera_position.x_val - x) < 0.6
                and abs(response.camera_position.z_val + 2) < 0.01
            )
            assert len(response.image_data_uint8) == 256 * 144 * 3
        found = client.simGetVehiclePose()
        assert abs(found.position.x_val - x) < 1e-3
        assert abs(airsim.to_eularian_angles(found.orientation)[2] - 0.3 * x) < 1e-3


def depth(client, folder):
    """Depth along the axis and along the ray agree with geometry.

    A camera that looks straight down.
    """
    client.simSetVehiclePose(airsim.Pose(airsim.Vector3r(0, 0, -10), airsim.Quaternionr()), True)
    client.simSetCameraPose(
        "0", airsim.Pose(airsim.Vector3r(0, 0, 0), airsim.to_quaternion(-math.pi / 2, 0, 0))
    )
    planar, perspective = client.simGetImages(
        [airsim.ImageRequest("0", 1, True, False), airsim.ImageRequest("0", 2, True, False)]
    )
    planar = np.array(planar.image_data_float).reshape(144, 256)
    perspective = np.array(perspective.image_data_float).reshape(144, 256)
    assert abs(np.median(planar) - 10) < 0.05
    u, v = (np.arange(256) - 127.5) / 128, (np.arange(144) - 71.5) / 128
    ray = np.sqrt(1 + u[None, :] ** 2 + v[:, None] ** 2)
    assert np.abs(perspective - planar * ray).max() < 0.05
    client.simSetCameraPose("0", airsim.Pose(airsim.Vector3r(0.46, 0, 0), airsim.Quaternionr()))


def ground_truth(client, folder):
    """Kinematics and camera info."""
    client.simSetVehiclePose(
        airsim.Pose(airsim.Vector3r(3, 2, -1), airsim.to_quaternion(0, 0, 0)), True
    )
    state = client.simGetGroundTruthKinematics()
    assert abs(state.position.x_val - 3) < 1e-3 and abs(state.position.y_val - 2) < 1e-3
    info = client.simGetCameraInfo("front_center")
    assert (
        info.fov == 90
        and abs(info.pose.position.z_val + 1) < 0.5
        and len(info.proj_mat.matrix) == 4
    )


def fov_change(client, folder):
    """A narrower view has larger things."""
    pose = airsim.Pose(airsim.Vector3r(0, 0, -2), airsim.to_quaternion(0, 0, 0))
    client.simSetVehiclePose(pose, True)
    client.simSetCameraFov("0", 120)
    assert client.simGetCameraInfo("0").fov == 120
    client.simSetCameraFov("0", 90)
    client.simSetDistortionParam("0", "K1", 0.1)
    assert client.simGetDistortionParams("0")[0] == 0.1
    client.simSetDistortionParam("0", "K1", 0.0)


def external_camera(client, folder):
    """Cameras that stand in the world: pose in NED, whatever the vehicle does.

    It sees the vehicle.
    """
    client.simSetVehiclePose(
        airsim.Pose(airsim.Vector3r(3, 1, -2), airsim.to_quaternion(0, 0, 1)), True
    )
    info = client.simGetCameraInfo("fixed", external=True)
    p = info.pose.position
    assert max(abs(p.x_val - 1), abs(p.y_val - 2), abs(p.z_val + 3)) < 1e-6 and info.fov == 80
    assert abs(airsim.to_eularian_angles(info.pose.orientation)[2] - math.radians(30)) < 1e-6
    pose = airsim.Pose(airsim.Vector3r(0, 0, -10), airsim.to_quaternion(-math.pi / 2, 0, 0))
    client.simSetCameraPose("fixed", pose, external=True)
    request = airsim.ImageRequest("fixed", airsim.ImageType.DepthPlanar, True, False)
    for x in (3, 5):
        client.simSetVehiclePose(airsim.Pose(airsim.Vector3r(x, 1, -2), airsim.Quaternionr()), True)
        (response,) = client.simGetImages([request], external=True)
        assert (response.width, response.height) == (64, 48) and abs(
            response.camera_position.z_val + 10
        ) < 1e-6
        assert abs(np.median(response.image_data_float) - 10) < 0.05
    assert client.simGetImage("fixed", airsim.ImageType.Scene, external=True)[:4] == b"\x89PNG"
    client.simSetCameraFov("fixed", 60, external=True)
    assert client.simGetCameraInfo("fixed", external=True).fov == 60
    client.simSetDistortionParam("fixed", "K1", 0.1, external=True)
    assert client.simGetDistortionParams("fixed", external=True)[0] == 0.1
    assert client.simGetDistortionParams("0")[0] == 0
    for name, external in (("fixed", False), ("missing", True)):
        try:
            client.simGetCameraInfo(name, external=external)
        except Exception as error:
            assert f"Camera '{name}' does not exist" in str(error), error
        else:
            raise AssertionError("a camera that does not exist answered")


def objects(client, folder):
    """Objects by name: two that are there, and one that is not."""
    names = client.simListSceneObjects("Orange.*")
    assert names == ["OrangeBall"], names
    assert client.simGetObjectPose("PulsingCone").position.containsNan() is False
    assert client.simGetObjectPose("OrangeBall").position.x_val > 10
    assert client.simGetObjectPose("Non-Existent").position.containsNan()


def segmentation(client, folder):
    """Ids by name, in the palette's colours."""
    assert client.simSetSegmentationObjectID("[\\w]*", 0, True)
    assert client.simSetSegmentationObjectID("Ground", 20)
    assert client.simGetSegmentationObjectID("ground") == 20
    assert not client.simSetSegmentationObjectID("No Such Thing", 2)
    client.simSetVehiclePose(
        airsim.Pose(airsim.Vector3r(0, 0, -2), airsim.to_quaternion(0, 0, 0)), True
    )
    response = client.simGetImages(
        [airsim.ImageRequest("0", airsim.ImageType.Segmentation, False, False)]
    )[0]
    flat = np.frombuffer(response.image_data_uint8, np.uint8).reshape(-1, 3)
    colours = np.unique(flat, axis=0)
    assert 1 <= len(colours) <= 2, colours


def create_objects(client, folder):
    """A cube that is spawned, moved, scaled, seen and destroyed."""
    assert "1M_Cube_Chamfer" in client.simListAssets()
    pose = airsim.Pose(airsim.Vector3r(8, 0, -2), airsim.Quaternionr())
    name = client.simSpawnObject("box", "1M_Cube_Chamfer", pose, airsim.Vector3r(1, 1, 1))
    assert (
        name in client.simListSceneObjects()
        and abs(client.simGetObjectScale(name).x_val - 1) < 1e-6
    )
    other = client.simSpawnObject("box", "1M_Cube_Chamfer", pose, airsim.Vector3r(1, 1, 1))
    assert other != name and client.simDestroyObject(other)
    client.simSetVehiclePose(airsim.Pose(airsim.Vector3r(0, 0, -2), airsim.Quaternionr()), True)
    depth = airsim.ImageRequest("0", airsim.ImageType.DepthPlanar, True, False)

    def middle():
        return np.array(client.simGetImages([depth])[0].image_data_float).reshape(144, 256)[72, 128]

    far = middle()
    pose.position.x_val = 5
    assert client.simSetObjectPose(name, pose, True)
    assert abs(client.simGetObjectPose(name).position.x_val - 5) < 1e-3
    assert far - middle() > 2.5
    assert client.simSetObjectScale(name, airsim.Vector3r(2, 2, 2))
    client.simSetVehiclePose(airsim.Pose(airsim.Vector3r(-1, 0, -2), airsim.Quaternionr()), True)
    client.simAddDetectionFilterMeshName("0", airsim.ImageType.Scene, name + "*")
    client.simSetDetectionFilterRadius("0", airsim.ImageType.Scene, 100 * 100)
    (found,) = client.simGetDetections("0", airsim.ImageType.Scene)
    assert found.name == name and found.box2D.max.x_val > found.box2D.min.x_val + 10
    assert abs(found.relative_pose.position.x_val - 5.5) < 1.0
    client.simClearDetectionMeshNames("0", airsim.ImageType.Scene)
    assert client.simDestroyObject(name) and not client.simDestroyObject(name)


def markers(client, folder):
    """Points, lines, arrows, words and axes appear in the picture, and go."""
    client.simSetVehiclePose(airsim.Pose(airsim.Vector3r(0, 0, -2), airsim.Quaternionr()), True)

    def picture():
        return client.simGetImages([airsim.ImageRequest("0", 0, False, False)])[0].image_data_uint8

    client.simFlushPersistentMarkers()
    plain, green = picture(), [0.0, 1.0, 0.0, 1.0]
    a, b = airsim.Vector3r(5, -1, -2), airsim.Vector3r(5, 1, -2)
    pose = airsim.Pose(airsim.Vector3r(5, 0, -2), airsim.Quaternionr())
    for plot in (
        lambda: client.simPlotPoints([a, b], green, 10, is_persistent=True),
        lambda: client.simPlotLineStrip([a, b], green, 5, is_persistent=True),
        lambda: client.simPlotLineList([a, b], green, 5, is_persistent=True),
        lambda: client.simPlotArrows([a], [b], green, 5, 2, is_persistent=True),
        lambda: client.simPlotStrings(["words"], [a], 1, green, 100),
        lambda: client.simPlotTransforms([pose], 100, 5, is_persistent=True),
        lambda: client.simPlotTransformsWithNames([pose], ["here"], 100, 5, 1, green, 100),
    ):
        plot()
        assert picture() != plain
        client.simFlushPersistentMarkers()
        assert picture() == plain
    client.simPlotPoints([a], green, 10, 0.2)
    while picture() != plain:
        pass


def geometry(client, folder):
    """A voxel grid around the cone, meshes and extents."""
    grid = Path(json.loads(client.getSettingsString())["Recording"]["Folder"]) / "cone.binvox"
    assert client.simCreateVoxelGrid(airsim.Vector3r(30, -12, -2), 8, 8, 8, 0.5, str(grid))
    header, data = grid.read_bytes().split(b"data\n", 1)
    assert header.startswith(b"#binvox 1\ndim 16 16 16\n")
    cells = b"".join(bytes([data[i]]) * data[i + 1] for i in range(0, len(data), 2))
    assert len(cells) == 16**3 and 50 < sum(cells) < 2000
    meshes = {mesh.name: mesh for mesh in client.simGetMeshPositionVertexBuffers()}
    cone = np.array(meshes["PulsingCone"].vertices).reshape(-1, 3)
    assert (
        np.allclose(cone.mean(axis=0)[:2], (30, -12), atol=0.5) and abs(cone[:, 2].min() + 5) < 0.01
    )


def weather(client, folder):
    """Fog that is set shows in the picture, more of it more, and not in depth and segmentation.

    Off is as before.
    """
    pose = airsim.Pose(airsim.Vector3r(-5, 0, -2), airsim.to_quaternion(0, 0, 0))
    client.simSetVehiclePose(pose, True)

    def seen(*kinds):
        requests = [airsim.ImageRequest("0", kind, kind == 1, False) for kind in kinds]
        found = client.simGetImages(requests)
        return [
            np.array(r.image_data_float) if r.pixels_as_float else r.image_data_uint8 for r in found
        ]

    def contrast():
        (picture,) = seen(0)
        return np.frombuffer(picture, np.uint8).astype(float).std()

    before, truth = contrast(), seen(1, 5)
    client.simSetWeatherParameter(airsim.WeatherParameter.Fog, 0.4)
    assert abs(contrast() - before) < 1e-6, "weather is off until it is enabled"
    client.simEnableWeather(True)
    some = contrast()
    client.simSetWeatherParameter(airsim.WeatherParameter.Fog, 0.9)
    more = contrast()
    assert more < 0.7 * some < 0.7 * before, (before, some, more)
    fogged = seen(1, 5)
    assert np.array_equal(truth[0], fogged[0]) and truth[1] == fogged[1]
    client.simSetWeatherParameter(airsim.WeatherParameter.Fog, 0.0)
    client.simSetWeatherParameter(airsim.WeatherParameter.RoadSnow, 1.0)
    (snowy,) = seen(0)
    client.simEnableWeather(False)
    assert abs(contrast() - before) < 1e-6
    (clear,) = seen(0)
    assert np.frombuffer(snowy, np.uint8).mean() > np.frombuffer(clear, np.uint8).mean() + 10


def recording(client, folder):
    """A recording in AirSim's format, and the time of day."""
    client.simSetTimeOfDay(True, "2018-02-12 15:20:00", True, 1, 60, True)
    client.startRecording()
    assert client.isRecording()
    place = Path(json.loads(client.getSettingsString())["Recording"]["Folder"])
    rows = []
    while len(rows) < 3:
        rows = [
            line
            for file in place.glob("*/airsim_rec.txt")
            for line in file.read_text().splitlines()
        ]
        time.sleep(0.02)
    client.stopRecording()
    assert rows[0].split("\t")[:2] == ["VehicleName", "TimeStamp"] and rows[1].startswith(
        "ComputerVision\t"
    )
    (file,) = place.glob("*/images/" + rows[1].split("\t")[-1])
    assert file.read_bytes()[:4] == b"\x89PNG"
    assert not client.isRecording()
    client.simSetTimeOfDay(False)


PROGRAMS = {
    function.__name__: function
    for function in (
        cv_mode,
        depth,
        ground_truth,
        fov_change,
        external_camera,
        objects,
        segmentation,
        create_objects,
        geometry,
        markers,
        recording,
        weather,
    )
}

if __name__ == "__main__":
    program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    client = airsim.VehicleClient(port=port)
    client.confirmConnection()
    PROGRAMS[program](client, folder)
