"""Programs for a multirotor, run with AirSim's own client.

The calls of the stock scripts, in their order.

Run as `python multirotor.py PROGRAM PORT FOLDER`; exits with 0 when everything was as AirSim has
it.
"""

import math
import sys
import time
from pathlib import Path

import airsim
import numpy as np
from controls import gains, manual_levels, sticks
from flying import connected, near, position

FOREVER = 3e38


def hello_drone(client, folder):
    """Sensors, takeoff, a flight, four pictures in their four encodings."""
    client.armDisarm(True)
    assert client.getMultirotorState().landed_state == airsim.LandedState.Landed
    assert abs(client.getImuData().linear_acceleration.z_val + 9.8) < 0.5
    assert 0 < client.getBarometerData().altitude < 300
    assert abs(client.getMagnetometerData().magnetic_field_body.z_val) > 0.1
    gnss = client.getGpsData().gnss
    while gnss.fix_type != airsim.GnssFixType.GNSS_FIX_3D_FIX:  # a receiver starts
        time.sleep(0.1)
        gnss = client.getGpsData().gnss
    gps = gnss.geo_point
    assert abs(gps.latitude - 47.641468) < 1e-3 and abs(gps.longitude + 122.140165) < 1e-3
    client.takeoffAsync().join()
    assert client.getMultirotorState().landed_state == airsim.LandedState.Flying
    client.moveToPositionAsync(-10, 10, -10, 5).join()
    near(client, -10, 10, -10)
    client.hoverAsync().join()
    responses = client.simGetImages(
        [
            airsim.ImageRequest("0", airsim.ImageType.DepthVis),
            airsim.ImageRequest("1", airsim.ImageType.DepthPlanar, True),
            airsim.ImageRequest("1", airsim.ImageType.Scene),
            airsim.ImageRequest("1", airsim.ImageType.Scene, False, False),
        ]
    )
    assert len({r.time_stamp for r in responses}) == 1
    for index, response in enumerate(responses):
        assert (response.width, response.height) == (256, 144)
        name = str(folder / str(index))
        if response.pixels_as_float:
            assert (
                len(response.image_data_float) == 256 * 144 and min(response.image_data_float) > 0.1
            )
            airsim.write_pfm(name + ".pfm", airsim.get_pfm_array(response))
        elif response.compress:
            assert response.image_data_uint8[:4] == b"\x89PNG"
            airsim.write_file(name + ".png", response.image_data_uint8)
        else:
            flat = np.frombuffer(response.image_data_uint8, dtype=np.uint8)
            assert flat.reshape(response.height, response.width, 3).std() > 10
    client.armDisarm(False)
    client.reset()
    assert not client.isApiControlEnabled()


def box(client, folder):
    """Velocity flights around a square at a height."""
    client.armDisarm(True)
    client.takeoffAsync().join()
    client.moveToZAsync(-4, 3).join()
    start = position(client)
    for vx, vy in ((2, 0), (0, 2), (-2, 0), (0, -2)):
        client.moveByVelocityZAsync(
            vx, vy, -4, 2, airsim.DrivetrainType.ForwardOnly, airsim.YawMode(False, 0)
        ).join()
    # Each leg begins with the speed of the last.
    near(client, start.x_val, start.y_val, -4, within=2.5)
    client.moveByVelocityAsync(0, 0, -1, 1).join()
    client.moveByVelocityBodyFrameAsync(1, 0, 0, 1).join()
    client.rotateToYawAsync(90).join()
    yaw = airsim.to_eularian_angles(client.simGetVehiclePose().orientation)[2]
    assert abs(yaw - math.pi / 2) < math.radians(6), yaw
    client.rotateByYawRateAsync(20, 1).join()


def path(client, folder):
    """A path, then home and down."""
    client.armDisarm(True)
    client.takeoffAsync().join()
    client.moveToZAsync(-5, 2).join()
    corners = [airsim.Vector3r(12, 0, -5), airsim.Vector3r(12, -8, -5), airsim.Vector3r(0, -8, -5)]
    corners.append(airsim.Vector3r(0, 0, -5))
    mode = airsim.YawMode(False, 0)
    assert client.moveOnPathAsync(
        corners, 4, 120, airsim.DrivetrainType.ForwardOnly, mode, 6, 1
    ).get()
    near(client, 0, 0, -5, within=1.0)
    client.moveToPositionAsync(0, 0, -1.5, 1).join()
    assert client.landAsync().get()
    client.armDisarm(False)
    while client.getMultirotorState().landed_state == airsim.LandedState.Flying:
        time.sleep(0.01)


def pause_continue_drone(client, folder):
    """A paused world stands still, also for a move."""
    client.armDisarm(True)
    client.takeoffAsync().join()
    client.moveByVelocityZAsync(0.5, 0.5, -3, 15)
    client.simContinueForTime(2.0)
    assert client.simIsPause()
    before = client.getMultirotorState()
    time.sleep(0.2)
    after = client.getMultirotorState()
    assert after.timestamp == before.timestamp
    assert after.kinematics_estimated.position.x_val == before.kinematics_estimated.position.x_val
    stamp = after.timestamp
    client.simContinueForTime(0.5)
    passed = client.getMultirotorState().timestamp - stamp
    assert abs(passed - 500_000_000) < 20_000_000, passed
    client.simContinueForFrames(3)
    client.simPause(False)
    assert not client.simIsPause()
    client.cancelLastTask()


def teleport(client, folder):
    """Poses set at once, quaternions of any length, kinematics."""
    client.simPause(True)
    pose = client.simGetVehiclePose()
    pose.position = airsim.Vector3r(5, -3, -7)
    pose.orientation = airsim.Quaternionr(0, 0, 3, 3)
    client.simSetVehiclePose(pose, True)
    found = client.simGetVehiclePose()
    near(client, 5, -3, -7, within=0.01)
    assert abs(airsim.to_eularian_angles(found.orientation)[2] - math.pi / 2) < 0.01
    first = client.simGetImages([airsim.ImageRequest("0", 0, False, False)])[0]
    assert (
        abs(first.camera_position.x_val - 5) < 0.1 and abs(first.camera_position.y_val + 2.54) < 0.1
    )
    state = client.simGetGroundTruthKinematics()
    state.linear_velocity = airsim.Vector3r(2, 0, 0)
    client.simSetKinematics(state, True)
    assert abs(client.simGetGroundTruthKinematics().linear_velocity.x_val - 2) < 0.01
    client.simPause(False)
    client.reset()
    near(client, 0, 0, 0, within=0.2)


def state(client, folder):
    """Everything that can be read."""
    assert client.ping() and client.getServerVersion() == 1 and client.listVehicles()[0]
    assert "SettingsVersion" in client.getSettingsString()
    environment = client.simGetGroundTruthEnvironment()
    assert (
        abs(environment.air_pressure - 99_870) < 500 and abs(environment.gravity.z_val - 9.8) < 0.02
    )
    assert abs(client.getHomeGeoPoint().altitude - 122) < 1
    assert len(client.getRotorStates().rotors) == 4
    client.simGetCollisionInfo()
    assert not client.simGetCollisionInfo().has_collided  # reading resets it
    assert client.getDistanceSensorData("Distance").distance < 40
    points = np.array(client.getLidarData("Lidar").point_cloud).reshape(-1, 3)
    assert len(points) > 100 and np.all(np.abs(points[:, 2]) < 12)
    for call in (client.getImuData, client.getLidarData, client.getDistanceSensorData):
        try:
            call("Missing")
        except Exception as error:
            assert "with name Missing exist" in str(error), error
        else:
            raise AssertionError("a sensor that does not exist answered")
    client.simPrintLogMessage("height ", "3", 1)
    client.simSetTraceLine([1.0, 0.0, 0.0, 1.0], 2.0)
    client.simPlotPoints([airsim.Vector3r(1, 2, -3)], [1, 0, 0, 1], 10, 5)
    client.simFlushPersistentMarkers()
    assert client.simTestLineOfSightToPoint(client.getHomeGeoPoint())


def weather(client, folder):
    """A lidar in dense fog: no far points, near ones of the fog, with the id of nothing.

    And again as before.
    """

    def ranges():
        scan = client.getLidarData("Lidar")
        points = np.array(scan.point_cloud).reshape(-1, 3)
        p = scan.pose.position
        return np.linalg.norm(points - (p.x_val, p.y_val, p.z_val), axis=1), np.array(
            scan.segmentation
        )

    client.reset()
    client.simSetVehiclePose(airsim.Pose(airsim.Vector3r(0, 0, -8), airsim.Quaternionr()), True)
    client.simPause(True)
    clear, _ = ranges()
    client.simSetWeatherParameter(airsim.WeatherParameter.Fog, 1.0)
    client.simEnableWeather(True)
    foggy, ids = ranges()
    again, _ = ranges()
    client.simEnableWeather(False)
    assert clear.max() > 20 and foggy.max() < 16, (clear.max(), foggy.max())
    assert np.array_equal(foggy, again), "a paused world has one answer"
    early = foggy < 0.9 * clear.min()
    assert early.any() and np.all(ids[early] == ids[early][0])
    assert np.allclose(ranges()[0], clear)
    client.simPause(False)
    client.reset()


def multi_agent(client, folder):
    """Two vehicles fly at once on one connection."""
    for name in ("Drone1", "Drone2"):
        client.enableApiControl(True, name)
        client.armDisarm(True, name)
    for move in [client.takeoffAsync(vehicle_name=name) for name in ("Drone1", "Drone2")]:
        move.join()
    flights = [
        client.moveToPositionAsync(-5, 5, -8, 5, vehicle_name="Drone1"),
        client.moveToPositionAsync(5, -5, -8, 5, vehicle_name="Drone2"),
    ]
    for flight in flights:
        flight.join()
    near(client, -5, 5, -8, name="Drone1")
    near(client, 5, -5, -8, name="Drone2")
    assert client.simGetObjectPose("Drone2").position.x_val > 3


def add_drone(client, folder):
    """A drone is added: it is listed, measures, sees, is seen, flies next to the first.

    Wrong ones are refused.
    """
    added, flying = "Drone9", ("Drone1", "Drone9")
    segments = [airsim.ImageRequest("0", airsim.ImageType.Segmentation, False, False)]
    before = client.simGetImages(segments, "Drone1")[0].image_data_uint8
    listed = client.listVehicles()
    south = airsim.Pose(airsim.Vector3r(1.5, 0.2, 0), airsim.to_quaternion(0, 0, math.pi))
    assert client.simAddVehicle(added, "simpleflight", south)
    assert client.listVehicles() == [*listed, added] and added in client.simListSceneObjects()
    after = client.simGetImages(segments, "Drone1")[0].image_data_uint8
    changed = (
        (np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8))
        .reshape(-1, 3)
        .any(axis=1)
    )
    assert changed.sum() > 50, changed.sum()
    place = client.simGetObjectPose(added).position
    assert math.dist((place.x_val, place.y_val), (1.5, 0.2)) < 0.1
    near(client, 0, 0, 0, within=0.1, name=added)
    heading = airsim.to_eularian_angles(client.simGetVehiclePose(added).orientation)[2]
    assert abs(abs(heading) - math.pi) < 0.05
    assert client.getMultirotorState(added).landed_state == airsim.LandedState.Landed
    assert abs(client.getImuData(vehicle_name=added).linear_acceleration.z_val + 9.8) < 0.5
    assert 0 < client.getBarometerData(vehicle_name=added).altitude < 300
    assert abs(client.getMagnetometerData(vehicle_name=added).magnetic_field_body.z_val) > 0.1
    assert client.getGpsData(vehicle_name=added).time_stamp > 0
    wanted = [
        airsim.ImageRequest("front_center", 0, False, False),
        airsim.ImageRequest("3", 2, True),
    ]
    scene, depth = client.simGetImages(wanted, added)
    assert (
        np.frombuffer(scene.image_data_uint8, np.uint8).std() > 10
        and len(depth.image_data_float) == 256 * 144
    )
    assert client.simAddVehicle("Drone10", "Submarine", south) is False
    assert client.simAddVehicle("Drone10", "PhysXCar", south) is False
    try:
        client.simAddVehicle(added, "SimpleFlight", south)
        raise SystemExit("a second vehicle of one name was added")
    except Exception as exc:
        assert "named Drone9 already" in str(exc), exc
    assert not client.isApiControlEnabled(added)
    for name in flying:
        client.enableApiControl(True, name)
        assert client.armDisarm(True, name)
    for move in [client.takeoffAsync(vehicle_name=name) for name in flying]:
        move.join()
    flights = [
        client.moveToPositionAsync(-5, 5, -8, 5, vehicle_name="Drone1"),
        client.moveToPositionAsync(5, -5, -8, 5, vehicle_name=added),
    ]
    for flight in flights:
        flight.join()
    near(client, -5, 5, -8, name="Drone1")
    near(client, 5, -5, -8, name=added)
    assert abs(client.simGetObjectPose(added).position.x_val - 6.5) < 0.7
    client.reset()
    assert added in client.listVehicles() and not client.isApiControlEnabled(added)
    near(client, 0, 0, 0, within=0.1, name=added)


def set_wind(client, folder):
    """Wind from the south pushes a hovering vehicle to the north."""
    client.armDisarm(True)
    client.takeoffAsync().join()
    before = position(client).x_val
    client.simSetWind(airsim.Vector3r(8, 0, 0))
    client.moveByVelocityAsync(0, 0, 0, 4).join()
    client.simSetWind(airsim.Vector3r(0, 0, 0))
    assert position(client).x_val - before > 0.2, position(client).x_val - before


def wall(client, folder):
    """A cone that is hit at 10 m/s stops the vehicle, whose collision names it."""
    client.armDisarm(True)
    client.takeoffAsync().join()
    client.moveToPositionAsync(20, -12, -1, 6).join()
    client.simGetCollisionInfo()
    client.moveByVelocityAsync(10, 0, 0, 2.5).join()
    hit = client.simGetCollisionInfo()
    assert hit.has_collided and hit.object_name == "PulsingCone"
    assert (
        hit.normal.x_val < -0.7
        and 27.5 < hit.impact_point.x_val < 30
        and hit.penetration_depth < 0.05
    )
    assert position(client).x_val < 30


def obstacles(client, folder):
    """A spawned box stops a vehicle, a box that is moved away does not, and neither does a
    destroyed one.
    """
    client.reset()
    client.enableApiControl(True)
    client.armDisarm(True)
    client.takeoffAsync().join()
    client.moveToPositionAsync(0, -8, -3, 5).join()
    pose = airsim.Pose(airsim.Vector3r(6, -8, -3), airsim.to_quaternion(0, 0, 0))
    box = client.simSpawnObject("Barrier", "Cube", pose, airsim.Vector3r(1, 4, 4), False)
    client.simGetCollisionInfo()
    client.moveByVelocityAsync(5, 0, 0, 2.5).join()
    hit = client.simGetCollisionInfo()
    assert hit.has_collided and hit.object_name == box, hit
    assert hit.normal.x_val < -0.99 and abs(hit.impact_point.x_val - 5.5) < 0.01
    assert position(client).x_val < 5.5
    client.moveToPositionAsync(0, -8, -3, 5).join()
    pose.position.y_val = 10
    assert client.simSetObjectPose(box, pose, True)
    client.simGetCollisionInfo()
    client.moveToPositionAsync(10, -8, -3, 5).join()
    assert not client.simGetCollisionInfo().has_collided
    assert client.simDestroyObject(box)
    client.moveToPositionAsync(10, 10, -3, 5).join()
    client.moveToPositionAsync(0, 10, -3, 5).join()
    assert not client.simGetCollisionInfo().has_collided
    client.reset()


def two_vehicles(client, folder):
    """A vehicle that flies into another one is thrown back, and so is the other.

    Both collisions name the other.
    """
    client.reset()
    for name in ("Drone1", "Drone2"):
        client.enableApiControl(True, name)
        client.armDisarm(True, name)
    moves = [client.takeoffAsync(vehicle_name=name) for name in ("Drone1", "Drone2")]
    for move in moves:
        move.join()
    # Drone2 is 4 m north.
    moves = [client.moveToZAsync(-3, 1, vehicle_name=name) for name in ("Drone1", "Drone2")]
    for move in moves:
        move.join()
    for name in ("Drone1", "Drone2"):
        client.simGetCollisionInfo(name)
    before = client.simGetGroundTruthKinematics("Drone2").position.x_val
    client.moveByVelocityAsync(5, 0, 0, 2, vehicle_name="Drone1").join()
    first, second = client.simGetCollisionInfo("Drone1"), client.simGetCollisionInfo("Drone2")
    assert first.has_collided and first.object_name == "Drone2", first
    assert second.has_collided and second.object_name == "Drone1", second
    assert first.normal.x_val < -0.9 and second.normal.x_val > 0.9
    assert client.simGetGroundTruthKinematics("Drone2").position.x_val != before
    client.reset()


PROGRAMS = {
    function.__name__: function
    for function in (
        hello_drone,
        box,
        path,
        pause_continue_drone,
        teleport,
        state,
        weather,
        multi_agent,
        manual_levels,
        gains,
        sticks,
        set_wind,
        wall,
        obstacles,
        two_vehicles,
        add_drone,
    )
}

if __name__ == "__main__":
    program, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    PROGRAMS[program](connected(port), folder)
