"""Calls of AirVLN, CityNavAgent, TravelUAV and UAV_ON in their order, run with AirSim's own client.

Run as `python agents.py PROGRAM PORT FOLDER`. Each program uses the vehicle that it names, with its
own cameras.
"""

import math
import sys
import time
from pathlib import Path

import airsim
import numpy as np

SIDES = ("FrontCamera", "RearCamera", "LeftCamera", "RightCamera", "DownCamera")


def shown(response, size):
    """Return a picture as its client reshapes it."""
    assert (response.height, response.width) == (size, size), response.message
    if response.pixels_as_float:
        return np.array(response.image_data_float, dtype=np.float32).reshape(size, size)
    return np.frombuffer(response.image_data_uint8, np.uint8).reshape(size, size, 3)


def look(client, vehicle, scene_px, depth_px, depth_type, compress):
    """One step of a program that only sees: a pose, then colours and depth of front_0."""
    for x in range(3):
        pose = airsim.Pose(
            airsim.Vector3r(float(x), 0.0, -3.0), airsim.to_quaternion(0.0, 0.0, 0.2 * x)
        )
        client.simSetVehiclePose(pose, True, vehicle)
        scene, depth = client.simGetImages(
            [
                airsim.ImageRequest("front_0", airsim.ImageType.Scene, False, False),
                airsim.ImageRequest("front_0", depth_type, False, compress),
            ],
            vehicle_name=vehicle,
        )
        colours = shown(scene, scene_px)
        assert len(np.unique(colours.reshape(-1, 3), axis=0)) > 1
        assert abs(scene.camera_position.x_val - (x + 0.5 * math.cos(0.2 * x))) < 0.05
        if compress:
            gray = airsim.string_to_uint8_array(depth.image_data_uint8)
            assert gray[:4].tobytes() == b"\x89PNG" and (depth.height, depth.width) == (
                depth_px,
                depth_px,
            )
        else:
            assert shown(depth, depth_px).max() > 0


def air_vln(client, folder):
    """AirVLN: 224 x 224 colours, 256 x 256 depth as PNG."""
    look(client, "Drone_1", 224, 256, airsim.ImageType.DepthVis, True)
    assert client.simGetImages([], "Drone_1") == []


def city_nav_agent(client, folder):
    """CityNavAgent: the same with 512 x 512 pixels."""
    look(client, "Drone_2", 512, 512, airsim.ImageType.DepthVis, True)


def sides(client, vehicle, size, depths):
    """Pictures of five cameras of a paused world, in their order.

    Depths as floats of the first ones.
    """
    requests = []
    for camera in SIDES:
        requests.append(airsim.ImageRequest(camera, airsim.ImageType.Scene, False, False))
        if len(requests) <= 2 * depths:
            requests.append(
                airsim.ImageRequest(camera, airsim.ImageType.DepthPerspective, True, False)
            )
    responses = client.simGetImages(requests, vehicle_name=vehicle)
    assert [r.camera_name for r in responses] == [r.camera_name for r in requests]
    assert len({r.time_stamp for r in responses}) == 1
    for response in responses:
        shown(response, 256 if response.pixels_as_float else size)
    return responses


def travel_uav(client, folder):
    """TravelUAV: reset, pictures, a path watched by polling until its waypoints have passed,
    objects.
    """
    name = "Drone_1"
    client.simPause(False)
    state = client.simGetGroundTruthKinematics(name)
    state.position = airsim.Vector3r(0.0, 0.0, -6.0)
    state.linear_velocity = state.angular_velocity = airsim.Vector3r(0.0, 0.0, 0.0)
    client.simSetKinematics(state, True, name)
    client.simContinueForFrames(1)
    client.simPause(True)
    assert client.simIsPause()
    sides(client, name, 256, 1)
    client.enableApiControl(True, name)
    client.armDisarm(True, name)
    client.simPause(False)
    client.simSetKinematics(state, False, name)
    points = [airsim.Vector3r(2.0 + x, 0.0, -6.0) for x in range(6)]
    client.moveOnPathAsync(
        points,
        1,
        3e38,
        airsim.DrivetrainType.ForwardOnly,
        airsim.YawMode(is_rate=False),
        3,
        1,
        vehicle_name=name,
    )
    client.simGetCollisionInfo(name)
    passed, before, limit = 0, math.inf, time.monotonic() + 100
    while passed < 5:
        drone = client.getMultirotorState(vehicle_name=name)
        assert not client.simGetCollisionInfo(vehicle_name=name).has_collided
        imu = client.getImuData(imu_name="Imu", vehicle_name=name)
        assert imu.time_stamp > 0 and drone.timestamp > 0
        away = drone.kinematics_estimated.position.distance_to(points[passed])
        passed, before = (passed + 1, math.inf) if away > before + 1e-3 else (passed, away)
        assert time.monotonic() < limit, (passed, away)
        time.sleep(0.005)
    client.simPause(True)
    place = airsim.Pose(airsim.Vector3r(12.0, 1.0, -6.0), airsim.Quaternionr())
    for number in (1, 2):
        client.simDestroyObject(f"my_object_{number - 1}")
        made = client.simSpawnObject(
            f"my_object_{number}", "1M_Cube_Chamfer", place, airsim.Vector3r(1, 1, 1), False
        )
        assert made == f"my_object_{number}"
    assert client.simListSceneObjects("my_object_.*") == ["my_object_2"]
    assert client.simDestroyObject("my_object_2")
    client.simPause(False)
    client.cancelLastTask(name)


def uav_on(client, folder):
    """UAV_ON: a step to a point and a turn, each with 150 frames; a pose with 50."""
    name = "Drone_2"
    client.simPause(False)
    client.enableApiControl(True, name)
    client.armDisarm(True, name)
    client.simSetVehiclePose(
        airsim.Pose(airsim.Vector3r(0.0, 0.0, -5.0), airsim.Quaternionr()), True, name
    )
    client.simSetObjectScale(client.listVehicles()[0], airsim.Vector3r(0.5, 0.5, 0.5))
    client.simContinueForFrames(50)
    client.simPause(True)
    client.simGetCollisionInfo(name)  # the floor, before
    client.simPause(False)
    client.moveToPositionAsync(2.0, 0.0, -5.0, 1, vehicle_name=name)
    client.simContinueForFrames(150)
    client.simPause(True)
    there = client.simGetVehiclePose(name).position
    assert there.distance_to(airsim.Vector3r(2.0, 0.0, -5.0)) < 0.5, there
    client.simPause(False)
    client.rotateToYawAsync(30, vehicle_name=name)
    client.simContinueForFrames(150)
    client.simPause(True)
    yaw = airsim.to_eularian_angles(
        client.getMultirotorState(name).kinematics_estimated.orientation
    )[2]
    assert abs(yaw - math.radians(30)) < math.radians(6), yaw
    assert not client.simGetCollisionInfo(name).has_collided
    sides(client, name, 512, 1)
    client.simSetObjectScale(client.listVehicles()[0], airsim.Vector3r(1, 1, 1))
    client.simPause(False)
    client.cancelLastTask(name)


PROGRAMS = {
    function.__name__: function for function in (air_vln, city_nav_agent, travel_uav, uav_on)
}

if __name__ == "__main__":
    program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    client = airsim.MultirotorClient(port=port, timeout_value=300)
    client.confirmConnection()
    PROGRAMS[program](client, folder)
