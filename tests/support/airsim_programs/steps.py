"""The methods that public programs call, most used first.

72 methods in ten steps, run with AirSim's own client.

Run as `python steps.py STEP PORT FOLDER CAR_PORT`: calls the methods of the first STEP sets, in
their order.
"""

import sys
from pathlib import Path

import airsim

ADDED = (
    "confirmConnection simGetImages simSetVehiclePose",
    "getLidarData reset simGetCameraInfo simGetObjectPose simSetObjectPose",
    "armDisarm enableApiControl moveByVelocityBodyFrameAsync simSetCameraPose",
    "moveByVelocityAsync simGetCollisionInfo simGetVehiclePose takeoffAsync "
    "getMultirotorState simListSceneObjects",
    "simGetImage simLoadLevel isApiControlEnabled hoverAsync simPause landAsync "
    "rotateByYawRateAsync simSetWind",
    "simDestroyObject simSetSegmentationObjectID simSpawnObject moveOnPathAsync "
    "moveToPositionAsync rotateToYawAsync "
    "moveToZAsync moveByVelocityZAsync",
    "simGetGroundTruthKinematics simPlotPoints moveByAngleThrottleAsync "
    "getDistanceSensorData simPrintLogMessage "
    "getCarState setCarControls simCreateVoxelGrid simSetCameraFov stopRecording",
    "getImuData simContinueForFrames simSetKinematics listVehicles simSetObjectScale",
    "getClientVersion getServerVersion ping cancelLastTask simFlushPersistentMarkers "
    "simTestLineOfSightBetweenPoints getBarometerData getGpsData getMagnetometerData "
    "simPlotLineList",
    "simGetObjectScale simGetSegmentationObjectID simPlotLineStrip simPlotStrings "
    "simTestLineOfSightToPoint "
    "getRotorStates moveByAngleRatesThrottleAsync moveByMotorPWMsAsync simEnableWeather "
    "simSetWeatherParameter "
    "simSetObjectMaterial simSetTimeOfDay simSetTraceLine",
)
ONE = airsim.Vector3r(1.0, 1.0, 1.0)
HIGH = airsim.Pose(airsim.Vector3r(0.0, 0.0, -4.0), airsim.Quaternionr())
AWAY = airsim.Pose(airsim.Vector3r(-30.0, -30.0, -20.0), airsim.Quaternionr())
"""Place of what is spawned: objects are solid, and the vehicle flies about its start."""
LINE = [airsim.Vector3r(5, -1, -2), airsim.Vector3r(5, 1, -2)]
GREEN = [0.0, 1.0, 0.0, 1.0]


class Caller:
    """Calls of each method as public programs write them, on a multirotor and on a car."""

    def __init__(self, client, car):
        self.client = client
        self.car = car
        self.spawned = None

    def call(self, name):
        """Call a method with its usual arguments, wait for its end, and return its result."""
        arguments, named = self.arguments(name)
        owner = self.car if name in ("getCarState", "setCarControls") else self.client
        result = getattr(owner, name)(*arguments, **named)
        if name.endswith("Async"):
            result = result.get()
        if name == "simSpawnObject":
            self.spawned = result
        return result

    def arguments(self, name):
        """Return positional and named arguments."""
        client = self.client
        state = client.simGetGroundTruthKinematics() if name == "simSetKinematics" else None
        home = client.getHomeGeoPoint() if name.startswith("simTestLine") else None
        move = {
            "drivetrain": airsim.DrivetrainType.MaxDegreeOfFreedom,
            "yaw_mode": airsim.YawMode(False, 0),
        }
        path = {
            "drivetrain": airsim.DrivetrainType.ForwardOnly,
            "yaw_mode": airsim.YawMode(False, 0),
        }
        ahead = [airsim.Vector3r(3, 0, -4), airsim.Vector3r(3, 3, -4)]
        table = {
            "simGetImages": (
                ([airsim.ImageRequest("0", airsim.ImageType.Scene, False, False)],),
                {},
            ),
            "simSetVehiclePose": ((HIGH, True), {}),
            "getLidarData": ((), {"lidar_name": "Lidar"}),
            "simGetCameraInfo": ((0,), {}),
            "simGetObjectPose": (("OrangeBall",), {}),
            "simSetObjectPose": (("PulsingCone", client.simGetObjectPose("PulsingCone"), True), {}),
            "armDisarm": ((True,), {}),
            "enableApiControl": ((True,), {}),
            "moveByVelocityBodyFrameAsync": ((1, 0, 0, 0.3), {}),
            "simSetCameraPose": (
                ("0", airsim.Pose(airsim.Vector3r(0.46, 0, 0), airsim.Quaternionr())),
                {},
            ),
            "moveByVelocityAsync": ((1, 0, -1, 0.3), move),
            "simGetImage": (("0", airsim.ImageType.Scene), {}),
            "simLoadLevel": (("blocks",), {}),
            "simPause": ((False,), {}),
            "landAsync": ((), {"timeout_sec": 1}),
            "rotateByYawRateAsync": ((20, 0.3), {}),
            "simSetWind": ((airsim.Vector3r(0, 0, 0),), {}),
            "simDestroyObject": ((self.spawned or "box",), {}),
            "simSetSegmentationObjectID": (("Ground[\\w]*", 20, True), {}),
            "simSpawnObject": (("box", "1M_Cube_Chamfer", AWAY, ONE), {"physics_enabled": False}),
            "moveOnPathAsync": ((ahead, 3, 10), {**path, "lookahead": -1, "adaptive_lookahead": 1}),
            "moveToPositionAsync": ((0, 0, -4, 3), {"timeout_sec": 10}),
            "rotateToYawAsync": ((10,), {"timeout_sec": 5, "margin": 5}),
            "moveToZAsync": ((-6, 2), {"timeout_sec": 10}),
            "moveByVelocityZAsync": ((1, 0, -6, 0.3), path),
            "simPlotPoints": ((LINE,), {"color_rgba": GREEN, "size": 10, "is_persistent": True}),
            "moveByAngleThrottleAsync": ((0.05, 0.0, 0.6, 0.0, 0.2), {}),
            "getDistanceSensorData": ((), {"distance_sensor_name": "Distance"}),
            "simPrintLogMessage": (("step ", "7", 0), {}),
            "setCarControls": ((airsim.CarControls(throttle=0.2, steering=1),), {}),
            "simCreateVoxelGrid": ((airsim.Vector3r(0, 0, 0), 4, 4, 4, 1, "grid.binvox"), {}),
            "simSetCameraFov": (("0", 90), {}),
            "simContinueForFrames": ((1,), {}),
            "simSetKinematics": ((state, True), {}),
            "simSetObjectScale": (("PulsingCone", ONE), {}),
            "simTestLineOfSightBetweenPoints": ((home, home), {}),
            "simTestLineOfSightToPoint": ((home,), {}),
            "simPlotLineList": ((LINE, GREEN, 5.0, 1.0, False), {}),
            "simPlotLineStrip": ((LINE, GREEN, 5.0, 1.0, False), {}),
            "simPlotStrings": (
                (["a", "b"], LINE),
                {"scale": 1, "color_rgba": GREEN, "duration": 1.0},
            ),
            "simGetObjectScale": (("OrangeBall",), {}),
            "simGetSegmentationObjectID": (("ground",), {}),
            "moveByAngleRatesThrottleAsync": ((0, 0, 0.2, 0.6, 0.2), {}),
            "moveByMotorPWMsAsync": ((0.6, 0.6, 0.6, 0.6, 0.1), {}),
            "simEnableWeather": ((True,), {}),
            "simSetWeatherParameter": ((airsim.WeatherParameter.Fog, 0.25), {}),
            "simSetObjectMaterial": (("Ground", "material"), {}),
            "simSetTimeOfDay": ((False,), {"start_datetime": "", "celestial_clock_speed": 1}),
            "simSetTraceLine": (([1.0, 0.0, 0.0, 1.0],), {"thickness": 2.0}),
        }
        return table.get(name, ((), {}))


EXPECTED = {
    "simSetObjectPose": True,
    "isApiControlEnabled": True,
    "armDisarm": True,
    "moveByVelocityBodyFrameAsync": True,
    "moveByVelocityAsync": True,
    "moveByVelocityZAsync": True,
    "rotateByYawRateAsync": True,
    "moveOnPathAsync": True,
    "moveToPositionAsync": True,
    "moveToZAsync": True,
    "moveByAngleThrottleAsync": True,
    "moveByAngleRatesThrottleAsync": True,
    "moveByMotorPWMsAsync": True,
    "hoverAsync": False,
    "simLoadLevel": True,
    "simSetSegmentationObjectID": True,
    "simGetSegmentationObjectID": 20,
    "simCreateVoxelGrid": True,
    "simSetObjectScale": True,
    "simSetObjectMaterial": False,
    "ping": True,
    "getClientVersion": 1,
    "getServerVersion": 1,
}
"""Results of the calls that say something about success."""


def ready(client):
    """Take control, which a reset has released, and arm."""
    client.enableApiControl(True)
    client.armDisarm(True)


def main(step, port, _folder, car_port):
    client, car = airsim.MultirotorClient(port=port), airsim.CarClient(port=car_port)
    client.reset()
    caller = Caller(client, car)
    ready(client)
    for added in ADDED[:step]:
        for name in added.split():
            if name == "takeoffAsync":  # refused while the vehicle moves
                client.reset()
                ready(client)
            print(name, flush=True)
            result = caller.call(name)
            assert result == EXPECTED.get(name, result), (name, result)
            if name == "simContinueForFrames":  # it leaves the world paused
                client.simPause(False)
            if name in ("reset", "landAsync"):
                ready(client)
                client.simSetVehiclePose(HIGH, True)
    if caller.spawned:
        client.simDestroyObject(caller.spawned)
    names = " ".join(ADDED).split()
    assert len(names) == len(set(names)) == 72


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
