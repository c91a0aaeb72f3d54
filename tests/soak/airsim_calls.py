"""A model of AirSim's calls.

Random arguments of every served method, and whether the call must succeed.

A call is right when every argument has a value of its domain; it is wrong when one of them has a
value that the server must refuse, or is absent. Only what other programs do at the same time leaves
an error open: its text is given.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.soak.airsim_arguments import (
    CAMERA,
    COLOUR,
    DRIVETRAIN,
    DURATION,
    FLAG,
    GAINS,
    GEO,
    LENS_CAMERA,
    LENSES,
    NAN,
    NEVER_RATE,
    NO_STRUCT,
    POINT,
    POINTS,
    POSE,
    SCALE,
    SIZE,
    STICKS,
    TEXT,
    TIMEOUT,
    TRACKER_GAINS,
    TYPE,
    YAW,
    Argument,
    attitude,
    car_controls,
    high_point,
    image_request,
    kinematics,
    list_of,
    number,
    one_of,
    vector_of,
    whole,
)

OBJECTS: Final = "soak"
"""Names of the objects that programs spawn begin with it."""
_OBJECTS: Final = tuple(f"{OBJECTS}{letter}" for letter in "abcdef")
_GAINS: Final = [
    f"set{loop}ControllerGains" for loop in ("AngleRate", "AngleLevel", "Velocity", "Position")
]
_WRONG: Final = 0.15
"""Share of calls with an argument that the server refuses, or without it."""
_TOO_FEW: Final = 0.2
"""Share of those in which it is absent."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method.

    Attributes:
        arguments: in their order. optional: how many of the last ones a client may leave out.
        answers: type of the result. check: True for a right result; None = the type alone counts.
        vehicle: kind that it is for; empty = any.
        open_error: expression of the error that other programs' deeds may cause; empty = none.
        weight: how often it is drawn.
    """

    arguments: tuple[Argument, ...]
    answers: type | None
    optional: int = 0
    check: Callable[[Any], bool] | None = None
    vehicle: str = ""
    open_error: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call and its judgement."""

    name: str
    arguments: Sequence[Any]
    method: Method
    succeeds: bool

    def problem(self, error: str | None, result: Any) -> str:
        """Return what is wrong with an answer; empty = it is as it must be."""
        if error is not None:
            allowed = not self.succeeds or (
                self.method.open_error and re.search(self.method.open_error, error)
            )
            inside = "failed inside the server" in error
            return "" if allowed and not inside else f"must succeed: {error}"
        if not self.succeeds:
            return f"must be refused, returned {result!r:.100}"
        wanted = self.method.answers
        fits = result is None if wanted is None else isinstance(result, wanted)
        if not fits or (self.method.check is not None and not self.method.check(result)):
            return f"wrong result {result!r:.200}"
        return ""


@dataclass(slots=True)
class CallModel:
    """Draws calls.

    Args:
        kind: of the server's vehicles, multirotor or car. vehicles: their names. assets: what can
            be spawned.
        folder: of the server, whose files go into ``recordings`` in it.
    """

    random: random.Random
    kind: str
    vehicles: Sequence[str]
    assets: Sequence[str]
    folder: str
    methods: Mapping[str, Method] = field(init=False)

    def __post_init__(self) -> None:
        self.methods = methods_of(self.vehicles, self.assets, self.folder)

    def draw(self) -> Call:
        """Return the next call."""
        names = list(self.methods)
        (name,) = self.random.choices(names, [self.methods[n].weight for n in names])
        return self.call(name, wrong=self.random.random() < _WRONG)

    def call(self, name: str, *, wrong: bool) -> Call:
        """Return a call of a method, right or wrong where it can be wrong."""
        method = self.methods[name]
        required = len(method.arguments) - method.optional
        count = len(method.arguments) - (0 if wrong else self.random.randint(0, method.optional))
        arguments = [argument.draw(self.random) for argument in method.arguments[:count]]
        wrong = wrong and bool(arguments)
        if wrong and required and self.random.random() < _TOO_FEW:
            del arguments[self.random.randrange(required) :]
        elif wrong:
            places = [i for i, argument in enumerate(method.arguments) if argument.refused]
            place = self.random.choice(places)
            arguments[place] = self.random.choice(method.arguments[place].refused)
        return Call(
            name, arguments, method, succeeds=not wrong and method.vehicle in ("", self.kind)
        )


def methods_of(vehicles: Sequence[str], assets: Sequence[str], folder: str) -> dict[str, Method]:
    """Return all methods that a server of these vehicles serves."""
    vehicle = one_of("", *vehicles, refused=("no such vehicle", 5, None))
    things = one_of(*_OBJECTS, *vehicles, "no such object")
    return {
        **_readings(vehicle),
        **_flights(vehicle),
        **_pictures(vehicle),
        **_world(vehicle, things, folder),
        **_objects(things, assets),
        **_race(vehicle),
        **_markers(),
    }


def _readings(vehicle: Argument) -> dict[str, Method]:
    controls = Argument(car_controls, (*NO_STRUCT, {"throttle": NAN}))
    one, sensor = (vehicle,), (one_of("", refused=("no such sensor", 5, None)), vehicle)
    return {
        "ping": Method((), bool),
        "getServerVersion": Method((), int),
        "getMinRequiredClientVersion": Method((), int),
        "getSettingsString": Method((), str),
        "listVehicles": Method((), list),
        "enableApiControl": Method((FLAG, vehicle), None, 1),
        "isApiControlEnabled": Method(one, bool, 1),
        "armDisarm": Method((FLAG, vehicle), bool, 1),
        "simGetVehiclePose": Method(one, dict, 1),
        "simGetGroundTruthKinematics": Method(one, dict, 1),
        "simGetGroundTruthEnvironment": Method(one, dict, 1),
        "getMultirotorState": Method(one, dict, 1, weight=3.0),
        "getRotorStates": Method(one, dict, 1),
        "simGetCollisionInfo": Method(one, dict, 1),
        "getHomeGeoPoint": Method(one, dict, 1),
        "getImuData": Method(sensor, dict, 2),
        "getBarometerData": Method(sensor, dict, 2),
        "getMagnetometerData": Method(sensor, dict, 2),
        "getGpsData": Method(sensor, dict, 2),
        "getDistanceSensorData": Method(sensor, dict, 2),
        "getLidarData": Method(sensor, dict, 2),
        "simGetLidarSegmentation": Method(sensor, list, 2),
        "setCarControls": Method((controls, vehicle), None, 1, vehicle="car"),
        "getCarControls": Method(one, dict, 1, vehicle="car"),
        "getCarState": Method(one, dict, 1, vehicle="car"),
    }


def _flights(vehicle: Argument) -> dict[str, Method]:
    v, z, speed = number(-3.0, 3.0, NAN), number(-12.0, -1.0), number(0.5, 6.0)
    angle, rate, throttle = number(-0.5, 0.5), number(-1.0, 1.0), number(0.0, 1.0)
    ahead = (number(3.0, 5.0, 0.0, 0.1), number(0.0, 1.0), vehicle)
    path = Argument(
        lambda r: [high_point(r) for _ in range(r.randint(1, 4))],
        (5, None, [7], [{"x_val": "far"}]),
    )
    found = {
        "takeoff": ((TIMEOUT, vehicle), 1),
        "land": ((TIMEOUT, vehicle), 1),
        "goHome": ((TIMEOUT, vehicle), 1),
        "hover": ((vehicle,), 1),
        "moveByVelocity": ((v, v, v, DURATION, DRIVETRAIN, YAW, vehicle), 1),
        "moveByVelocityBodyFrame": ((v, v, v, DURATION, DRIVETRAIN, YAW, vehicle), 1),
        "moveByVelocityZ": ((v, v, z, DURATION, DRIVETRAIN, YAW, vehicle), 1),
        "moveByVelocityZBodyFrame": ((v, v, z, DURATION, DRIVETRAIN, YAW, vehicle), 1),
        "moveOnPath": ((path, speed, TIMEOUT, DRIVETRAIN, NEVER_RATE, *ahead), 3),
        "moveToPosition": ((v, v, z, speed, TIMEOUT, DRIVETRAIN, NEVER_RATE, *ahead), 3),
        "moveToZ": ((z, speed, TIMEOUT, YAW, *ahead), 3),
        "moveToGPS": ((*_geo_numbers(), speed, TIMEOUT, DRIVETRAIN, NEVER_RATE, *ahead), 3),
        "rotateToYaw": ((number(-180.0, 180.0, NAN), TIMEOUT, number(1.0, 10.0), vehicle), 2),
        "rotateByYawRate": ((number(-60.0, 60.0, NAN), DURATION, vehicle), 1),
        "moveByRollPitchYawZ": ((angle, angle, angle, z, DURATION, vehicle), 1),
        "moveByRollPitchYawThrottle": ((angle, angle, angle, throttle, DURATION, vehicle), 1),
        "moveByRollPitchYawrateThrottle": ((angle, angle, rate, throttle, DURATION, vehicle), 1),
        "moveByRollPitchYawrateZ": ((angle, angle, rate, z, DURATION, vehicle), 1),
        "moveByAngleRatesZ": ((rate, rate, rate, z, DURATION, vehicle), 1),
        "moveByAngleRatesThrottle": ((rate, rate, rate, throttle, DURATION, vehicle), 1),
        "moveByManual": (
            (
                number(0.0, 1e5),
                number(0.0, 1e5),
                number(-1e5, 0.0, NAN),
                DURATION,
                DRIVETRAIN,
                YAW,
                vehicle,
            ),
            1,
        ),
        "moveByMotorPWMs": ((throttle, throttle, throttle, throttle, DURATION, vehicle), 1),
    }
    moves = {
        name: Method(arguments, bool, optional, vehicle="multirotor", weight=0.7)
        for name, (arguments, optional) in found.items()
    }
    moves["takeoff"] = Method(
        (TIMEOUT, vehicle), bool, 1, vehicle="multirotor", open_error="already moving with velocity"
    )
    gains = {
        name: Method((GAINS, GAINS, GAINS, vehicle), None, 1, vehicle="multirotor", weight=0.3)
        for name in _GAINS
    }
    look = (
        FLAG,
        FLAG,
        FLAG,
        number(3.0, 15.0, 0.0, NAN),
        number(1.0, 7.5, -1.0, NAN),
        FLAG,
        COLOUR,
        FLAG,
        number(0.0, 1.0),
    )
    still = Argument(lambda _: [], (5, None, [7]))
    return {
        **moves,
        **gains,
        "moveOnSpline": Method((path, *look, vehicle), bool, 10, vehicle="multirotor", weight=0.7),
        "moveOnSplineVelConstraints": Method(
            (path, still, *look, vehicle), bool, 10, vehicle="multirotor", weight=0.3
        ),
        "setTrajectoryTrackerGains": Method((TRACKER_GAINS, vehicle), None, 1),
        "moveByRC": Method((STICKS, vehicle), None, 1, vehicle="multirotor"),
        "cancelLastTask": Method((vehicle,), None, 1),
        "waitOnLastTask": Method((TIMEOUT, vehicle), bool, 2),
    }


def _geo_numbers() -> tuple[Argument, ...]:
    return (
        number(47.6414, 47.6415, NAN),
        number(-122.1402, -122.1401, NAN),
        number(124.0, 130.0, NAN),
    )


def _pictures(vehicle: Argument) -> dict[str, Method]:
    mesh, type_ = one_of("soak*", "*", "Cube*", "nothing"), TYPE
    filters = (CAMERA, type_)
    too_many = [image_request(random.Random(1))] * 65
    requests = Argument(
        lambda r: [image_request(r) for _ in range(r.choice((1, 1, 1, 2, 5)))],
        (
            5,
            None,
            [{"camera_name": "0"}],
            [{"camera_name": "0", "image_type": 12}],
            too_many,
        ),
    )
    bent = one_of(LENS_CAMERA, refused=CAMERA.refused)
    straight = one_of("0", "1", "front_center", refused=CAMERA.refused)
    return {
        "simGetImages": Method((requests, vehicle), list, 1, _are_pictures, weight=4.0),
        "simGetImage": Method(
            (CAMERA, type_, vehicle), bytes, 1, lambda png: png.startswith(b"\x89PNG")
        ),
        "simGetCameraInfo": Method((CAMERA, vehicle), dict, 1),
        "simSetCameraPose": Method((CAMERA, POSE, vehicle), None, 1),
        "simSetCameraFov": Method(
            (straight, number(30.0, 120.0, 0.5, 180.0, NAN), vehicle), None, 1
        ),
        "simGetDistortionParams": Method((CAMERA, vehicle), list, 1),
        "simSetDistortionParam": Method(
            (
                bent,
                one_of("K1", refused=("K9", 5)),
                one_of(*LENSES, refused=(1e4, NAN, "far")),
                vehicle,
            ),
            None,
            1,
        ),
        "simAddDetectionFilterMeshName": Method(
            (*filters, mesh, vehicle),
            None,
            1,
            open_error="at most 100 names of 255 characters a camera",
        ),
        "simSetDetectionFilterRadius": Method(
            (*filters, number(100.0, 1e5, -1.0, NAN), vehicle), None, 1
        ),
        "simClearDetectionMeshNames": Method((*filters, vehicle), None, 1),
        "simGetDetections": Method((*filters, vehicle), list, 1),
    }


def _are_pictures(answers: list[dict[str, Any]]) -> bool:
    """Return True if each has a size, and as many values as pixels where they are not
    compressed.
    """
    for answer in answers:
        pixels = answer["width"] * answer["height"]
        floats, data = answer["image_data_float"], answer["image_data_uint8"]
        if answer["pixels_as_float"]:
            right = len(floats) == pixels
        else:
            right = data.startswith(b"\x89PNG") if answer["compress"] else len(data) == 3 * pixels
        if not pixels or not right or answer["message"]:
            return False
    return True


def _world(vehicle: Argument, things: Argument, folder: str) -> dict[str, Method]:
    grid, file = (
        whole(2, 6, 0, -1),
        one_of(
            "grid.binvox", f"{folder}/recordings/grid.binvox", refused=("x.txt", "../x.binvox", 5)
        ),
    )
    time = one_of("", "2026-06-01 09:30:00", refused=(5, None))
    expression = one_of(".*", "soak.*", "Cube", refused=("(", "x" * 300, 5))
    return {
        "reset": Method((), None, weight=0.3),
        "simPause": Method((FLAG,), None, weight=0.3),
        "simIsPaused": Method((), bool),
        "simContinueForTime": Method((number(0.0, 0.1, -1.0, NAN, 1e9),), None, weight=0.2),
        "simContinueForFrames": Method((whole(0, 3, -1, 1 << 60),), None, weight=0.2),
        "simSetVehiclePose": Method((POSE, FLAG, vehicle), None, 1),
        "simSetKinematics": Method((Argument(kinematics, NO_STRUCT), FLAG, vehicle), None, 1),
        "simSetWind": Method(
            (Argument(vector_of(3.0), (*NO_STRUCT, {"x_val": NAN})),), None, vehicle="multirotor"
        ),
        "simSetExtForce": Method(
            (Argument(vector_of(1.0), (*NO_STRUCT, {"x_val": NAN})),), None, vehicle="multirotor"
        ),
        "simSetTimeOfDay": Method(
            (FLAG, time, FLAG, number(0.0, 100.0), number(0.0, 60.0), FLAG), None, 1
        ),
        "simEnableWeather": Method((FLAG,), None),
        "simSetWeatherParameter": Method((whole(0, 7, -1, 9), number(0.0, 1.0, NAN)), None),
        "simPrintLogMessage": Method((TEXT, TEXT, whole(0, 3)), None, 2),
        "simLoadLevel": Method((TEXT,), bool),
        "startRecording": Method((), None, weight=0.2),
        "stopRecording": Method((), None, weight=0.2),
        "isRecording": Method((), bool),
        "simGetWorldExtents": Method((), list),
        "simGetMeshPositionVertexBuffers": Method((), list, weight=0.1),
        "simCreateVoxelGrid": Method(
            (POINT, grid, grid, grid, number(0.5, 2.0, 0.0, 100.0), file), bool, weight=0.2
        ),
        "simListSceneObjects": Method((expression,), list, 1),
        "simSetSegmentationObjectID": Method((things, whole(-1, 255, 256, 1 << 40), FLAG), bool, 1),
        "simGetSegmentationObjectID": Method((things,), int),
        "simTestLineOfSightToPoint": Method((GEO, vehicle), bool, 1),
        "simTestLineOfSightBetweenPoints": Method((GEO, GEO), bool),
        "simListAssets": Method((), list),
    }


def _objects(things: Argument, assets: Sequence[str]) -> dict[str, Method]:
    asset = one_of(*assets, refused=("no such asset", "", 5, None))
    name = one_of(*_OBJECTS, refused=("", "x" * 300, 5, None))
    added, kind = (
        one_of("Added", refused=("", "x" * 300, 5, None)),
        one_of("SimpleFlight", "PhysXCar", "Submarine"),
    )
    return {
        "simAddVehicle": Method(
            (added, kind, POSE, TEXT), bool, 1, open_error="a vehicle is named Added already"
        ),
        "simGetObjectPose": Method((things, FLAG), dict, 1),
        "simGetObjectScale": Method((things,), dict),
        "simGetObjectScaleInternal": Method((things,), dict),
        "simSetObjectPose": Method((things, POSE, FLAG), bool, 1),
        "simSetObjectScale": Method((things, SCALE), bool),
        "simSpawnObject": Method((name, asset, POSE, SCALE, FLAG, FLAG), str, 2, weight=0.5),
        "simDestroyObject": Method((things,), bool, weight=3.0),
    }


def _race(vehicle: Argument) -> dict[str, Method]:
    none = "this bridge has no race"
    return {
        "simStartRace": Method((whole(1, 3),), None, 1, open_error=none),
        "simResetRace": Method((), None, open_error=none),
        "simGetDisqualified": Method((vehicle,), bool, 1, open_error=none),
        "simGetLastGatePassed": Method((vehicle,), int, 1, open_error=none),
        "simGetNominalGateInnerDimensions": Method((), dict, open_error=none),
    }


def _markers() -> dict[str, Method]:
    words, poses = list_of(TEXT.draw, 4), list_of(_pose_seen, 3)
    return {
        "simPlotPoints": Method((POINTS, COLOUR, SIZE, DURATION, FLAG), None),
        "simPlotLineStrip": Method((POINTS, COLOUR, SIZE, DURATION, FLAG), None),
        "simPlotLineList": Method((POINTS, COLOUR, SIZE, DURATION, FLAG), None),
        "simPlotArrows": Method((POINTS, POINTS, COLOUR, SIZE, SIZE, DURATION, FLAG), None),
        "simPlotStrings": Method((words, POINTS, SIZE, COLOUR, DURATION), None),
        "simPlotTransforms": Method((poses, SIZE, SIZE, DURATION, FLAG), None),
        "simPlotTransformsWithNames": Method(
            (poses, words, SIZE, SIZE, SIZE, COLOUR, DURATION), None
        ),
        "simFlushPersistentMarkers": Method((), None),
    }


def _pose_seen(r: random.Random) -> dict[str, Any]:
    return {"position": high_point(r), "orientation": attitude(r)}
