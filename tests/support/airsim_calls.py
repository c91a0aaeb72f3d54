"""Every call of AirSim's client 1.8.1.

Valid and wrong arguments by kind, and the shape of its result.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.support.airsim_shapes import (
    BAROMETER,
    CAMERA,
    CAR,
    COLLISION,
    CONTROLS,
    DETECTION,
    DISTANCE,
    ENVIRONMENT,
    GPS,
    IMAGE,
    IMU,
    KINEMATICS,
    LIDAR,
    MAGNETOMETER,
    MESH,
    PLACE,
    POSE,
    ROTORS,
    STATE,
    VECTOR,
)

LARGE: Final = 1e308
_ABSURD: Final = (math.nan, math.inf, -math.inf, LARGE, -LARGE)


def vector(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> dict[str, float]:
    """Return a Vector3r."""
    return {"x_val": x, "y_val": y, "z_val": z}


def pose(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> dict[str, Any]:
    """Return a Pose that looks north."""
    return {"position": vector(x, y, z), "orientation": {"w_val": 1.0, **vector()}}


_HERE: Final = {"latitude": 47.641468, "longitude": -122.140165, "altitude": 125.0}
_YAW: Final = {"is_rate": True, "yaw_or_rate": 0.0}
_RED: Final = [1.0, 0.0, 0.0, 1.0]
_STICKS: Final = {
    "timestamp": 0,
    **dict.fromkeys(("pitch", "roll", "yaw"), 0.0),
    "throttle": 0.6,
    "is_valid": True,
}
_CONTROLS: Final = {"throttle": 0.1, "steering": 0, "brake": 0.0, "gear_immediate": True}
_PICTURE: Final = {"camera_name": "0", "image_type": 0, "pixels_as_float": False, "compress": True}

_NO_NUMBER: Final[tuple[Any, ...]] = ("far", None, [], {})
_NO_VECTOR: Final[tuple[Any, ...]] = (7, None, "far", [], {"x_val": "far"})
_NO_POSE: Final[tuple[Any, ...]] = (
    *_NO_VECTOR[:4],
    {"position": 7},
    {"position": {"y_val": None}},
    {"orientation": {"w_val": []}},
)
_NO_LIST: Final[tuple[Any, ...]] = (7, None, "far", {}, [7], ["far"], [[]])

_WRONG: Final[Mapping[str, tuple[Any, ...]]] = {
    "number": _NO_NUMBER,
    "seconds": _NO_NUMBER,
    "whole": (*_NO_NUMBER, 1.5),
    "flag": ("maybe", None, [], {}, 7),
    "flag_or_text": (None, [], {}),
    "text": (7, None, [], {}),
    "new": (7, None, [], {}),
    "vehicle": (7, None, [], {}),
    "camera": (7, None, [], {}),
    "sensor": (7, None, [], {}),
    "asset": (7, None, [], {}),
    "vector": _NO_VECTOR,
    "place": (*_NO_VECTOR[:4], {"latitude": "far"}),
    "pose": _NO_POSE,
    "state": (*_NO_POSE, {"linear_velocity": 7}),
    "yaw": (7, None, "far", [], {"yaw_or_rate": "far"}, {"is_rate": 7}),
    "sticks": (7, None, "far", [], {"pitch": "far"}),
    "controls": (7, None, "far", [], {"throttle": "far"}, {"manual_gear": 1.5}),
    "vectors": _NO_LIST,
    "poses": _NO_LIST,
    "colour": (7, None, "far", {}, ["far"], [[]]),
    "gains": (7, None, "far", {}, ["far"], [1.0], [1.0] * 4),
    "tracker": (7, None, "far", {}, ["far"], [1.0] * 13, [1.0] * 15),
    "texts": (7, None, "far", {}, [7], [[]]),
    "pictures": (*_NO_LIST, [{"camera_name": "0", "image_type": "far"}], [{"image_type": 0}]),
}
"""Values of another type, by kind of argument; the server refuses each of them."""

_UNKNOWN: Final[Mapping[str, str]] = {
    "vehicle": "is not available",
    "camera": "does not exist",
    "sensor": "exist on vehicle",
    "asset": "asset",
}
"""Kinds whose values name something, and what the error says of a name that nothing has."""


def _absurd(kind: str, value: Any) -> Iterator[Any]:
    """Yield values of an argument's own type that have no sense."""
    if kind in ("number", "seconds"):
        yield from _ABSURD
    elif kind == "whole":
        yield from (-(2**63), 2**64 - 1, -1, 1 << 31)
    elif kind in ("text", "vehicle", "camera", "sensor", "asset"):
        yield from ("", "missing", "(" * 300, "a" * 60_000, "\0\n\x1b[31m")
    elif kind == "new":  # names that nothing gets, so that the other calls find what they expect
        yield from ("", "(" * 300, "a" * 60_000, "\0\n\x1b[31m")
    elif kind in ("vectors", "poses", "colour", "gains", "tracker", "texts", "pictures"):
        yield []
        inner = {
            "vectors": "vector",
            "poses": "pose",
            "colour": "number",
            "gains": "number",
            "tracker": "number",
            "texts": "text",
        }
        yield from ([odd, *value[1:]] for odd in _absurd(inner.get(kind, "picture"), value[0]))
    elif isinstance(value, Mapping):
        for key, part in value.items():
            inner_kind = (
                "number" if isinstance(part, float) else "whole" if type(part) is int else "picture"
            )
            yield from ({**value, key: odd} for odd in _absurd(inner_kind, part))


@dataclass(frozen=True)
class Call:
    """A call of the RPC.

    Attributes:
        kinds, arguments: of each argument, as the client sends them: its kind and a valid value.
        result: shape of its result: a type, None, a mapping of fields, or a list with the shape of
            its parts.
        optional: trailing arguments that may be absent. refused: part of the text with which every
            call ends.
        absent: part of the text with which calls with good arguments end, where the world lacks
            what they need.
        mode: SimMode that it needs.
    """

    name: str
    kinds: tuple[str, ...]
    arguments: tuple[Any, ...]
    result: Any
    optional: int = 0
    refused: str = ""
    absent: str = ""
    mode: str = "Multirotor"

    def wrong(self) -> Iterator[tuple[tuple[Any, ...], str]]:
        """Yield arguments that are refused, each with a part of the error's text."""
        for count in range(len(self.arguments) - self.optional):
            yield (
                self.arguments[:count],
                f"invalid number of arguments. Expected: {len(self.kinds)}, got: {count}",
            )
        for index, kind in enumerate(self.kinds):
            for value in _WRONG[kind]:
                yield self._with(index, value), f"argument {index + 1} ("
            if kind in _UNKNOWN:
                yield self._with(index, "missing"), _UNKNOWN[kind]

    def absurd(self) -> Iterator[tuple[Any, ...]]:
        """Yield arguments of the right types with values that have no sense."""
        for index, (kind, value) in enumerate(zip(self.kinds, self.arguments, strict=True)):
            for odd in _absurd(kind, value):
                yield self._with(index, odd)

    def _with(self, index: int, value: Any) -> tuple[Any, ...]:
        return (*self.arguments[:index], value, *self.arguments[index + 1 :])


def _call(name: str, kinds: str, arguments: tuple[Any, ...], result: Any, **more: Any) -> Call:
    return Call(name, tuple(kinds.split()), arguments, result, **more)


def _of_vehicle(name: str, result: Any, kinds: str = "", *arguments: Any, **more: Any) -> Call:
    """Return a call whose last argument is a vehicle, which may be absent."""
    return _call(name, f"{kinds} vehicle", (*arguments, ""), result, **{"optional": 1, **more})


_LENS: Final = "lenses of the Unreal Engine"
_UNREAL: Final = "it belongs to the Unreal Engine"
_NO_RACE: Final = "this bridge has no race"
_MOVE: Final = "seconds whole yaw"
_PATH: Final = "number seconds whole yaw number number"
_PATH_VALUES: Final = (3.0, 0.2, 0, _YAW, -1, 1)


def calls() -> tuple[Call, ...]:
    """Return all calls."""
    return (
        *_general(),
        *_vehicles(),
        *_cameras(),
        *_moves(),
        *_scene(),
        *_unreal(),
        *_racing_lab(),
    )


def _general() -> Iterator[Call]:
    yield _call("ping", "", (), bool)
    yield _call("getServerVersion", "", (), int)
    yield _call("getMinRequiredClientVersion", "", (), int)
    yield _call("getSettingsString", "", (), str)
    yield _call("listVehicles", "", (), [str])
    yield _call("reset", "", (), None)
    yield _call("simPause", "flag", (False,), None)
    yield _call("simIsPaused", "", (), bool)
    yield _call("simContinueForTime", "number", (0.1,), None)
    yield _call("simContinueForFrames", "whole", (1,), None)
    yield _call("simPrintLogMessage", "text text whole", ("a", "b", 0), None, optional=2)
    yield _call("startRecording", "", (), None)
    yield _call("isRecording", "", (), bool)
    yield _call("stopRecording", "", (), None)
    yield _call("simSetWind", "vector", (vector(1.0),), None)
    yield _call("simSetExtForce", "vector", (vector(1.0),), None)
    yield _call("simEnableWeather", "flag", (True,), None)
    yield _call("simSetWeatherParameter", "whole number", (0, 0.5), None)
    day = (True, "2026-01-31 12:00:00", False, 1.0, 60.0, True)
    yield _call("simSetTimeOfDay", "flag text flag number number flag", day, None, optional=1)
    yield _call("simLoadLevel", "text", ("blocks",), bool)


def _vehicles() -> Iterator[Call]:
    yield _of_vehicle("enableApiControl", None, "flag", True)
    yield _of_vehicle("isApiControlEnabled", bool)
    yield _of_vehicle("armDisarm", bool, "flag", True)
    yield _of_vehicle("getHomeGeoPoint", PLACE)
    yield _of_vehicle("getMultirotorState", STATE)
    yield _of_vehicle("getRotorStates", ROTORS)
    yield _of_vehicle("simGetVehiclePose", POSE)
    yield _of_vehicle("simSetVehiclePose", None, "pose flag", pose(0, 0, -3), True)
    yield _of_vehicle("simGetGroundTruthKinematics", KINEMATICS)
    state = {**dict.fromkeys(KINEMATICS, vector()), **pose(0, 0, -3)}
    yield _of_vehicle("simSetKinematics", None, "state flag", state, True)
    yield _of_vehicle("simGetGroundTruthEnvironment", ENVIRONMENT)
    yield _of_vehicle("simGetCollisionInfo", COLLISION)
    yield _of_vehicle("getImuData", IMU, "sensor", "", optional=2)
    yield _of_vehicle("getBarometerData", BAROMETER, "sensor", "", optional=2)
    yield _of_vehicle("getMagnetometerData", MAGNETOMETER, "sensor", "", optional=2)
    yield _of_vehicle("getGpsData", GPS, "sensor", "", optional=2)
    yield _of_vehicle("getDistanceSensorData", DISTANCE, "sensor", "", optional=2)
    yield _of_vehicle("getLidarData", LIDAR, "sensor", "", optional=2)
    yield _of_vehicle("simSetTraceLine", None, "colour number", _RED, 1.0)
    safety = (0, 1.0, 0, 1.0, vector(), 10.0, -10.0, 0.0)
    yield _of_vehicle(
        "setSafety", bool, "whole number whole number vector number number number", *safety
    )
    yield _of_vehicle("setCarControls", None, "controls", _CONTROLS, mode="Car")
    yield _of_vehicle("getCarControls", CONTROLS, mode="Car")
    yield _of_vehicle("getCarState", CAR, mode="Car")
    added = ("Drone9", "SimpleFlight", pose(8), "")
    yield _call("simAddVehicle", "new text pose text", added, bool, optional=1)


def _cameras() -> Iterator[Call]:
    for name, kinds, arguments, result in (
        ("simGetImages", "pictures vehicle flag", ([_PICTURE],), [IMAGE]),
        ("simGetImage", "camera whole vehicle flag_or_text", ("0", 0), bytes),
        ("simGetCameraInfo", "camera vehicle flag", ("0",), CAMERA),
        ("simSetCameraPose", "camera pose vehicle flag", ("0", pose(0.5)), None),
        ("simSetCameraFov", "camera number vehicle flag", ("0", 90.0), None),
        ("simGetDistortionParams", "camera vehicle flag", ("0",), [float]),
        ("simSetDistortionParam", "camera text number vehicle flag", ("0", "K1", 0.0), None),
        (
            "simAddDetectionFilterMeshName",
            "camera whole text vehicle flag",
            ("0", 0, "Cone*"),
            None,
        ),
        ("simSetDetectionFilterRadius", "camera whole number vehicle flag", ("0", 0, 1e4), None),
        ("simGetDetections", "camera whole vehicle flag", ("0", 0), [DETECTION]),
        ("simClearDetectionMeshNames", "camera whole vehicle flag", ("0", 0), None),
    ):
        yield _call(name, kinds, (*arguments, "", False), result, optional=2)


def _moves() -> Iterator[Call]:
    yield _of_vehicle("takeoff", bool, "seconds", 0.2)
    yield _of_vehicle("land", bool, "seconds", 0.2)
    yield _of_vehicle("goHome", bool, "seconds", 0.2)
    yield _of_vehicle("hover", bool)
    yield _of_vehicle("cancelLastTask", None)
    drifting = (1.0, 0.0, -1.0, 0.1, 0, _YAW)
    for name in (
        "moveByVelocity",
        "moveByVelocityBodyFrame",
        "moveByVelocityZ",
        "moveByVelocityZBodyFrame",
    ):
        yield _of_vehicle(name, bool, f"number number number {_MOVE}", *drifting)
    yield _of_vehicle("moveByManual", bool, f"number number number {_MOVE}", *drifting)
    yield _of_vehicle("moveByRC", None, "sticks", _STICKS)
    way = [vector(3.0, 0.0, -3.0), vector(3.0, 3.0, -3.0)]
    yield _of_vehicle("moveOnPath", bool, f"vectors {_PATH}", way, *_PATH_VALUES, optional=3)
    point = (3.0, 0.0, -3.0, *_PATH_VALUES)
    yield _of_vehicle("moveToPosition", bool, f"number number number {_PATH}", *point, optional=3)
    yield _of_vehicle(
        "moveToZ",
        bool,
        "number number seconds yaw number number",
        -3.0,
        1.0,
        0.2,
        _YAW,
        -1,
        1,
        optional=3,
    )
    place = (47.6415, -122.1402, 125.0, *_PATH_VALUES)
    yield _of_vehicle("moveToGPS", bool, f"number number number {_PATH}", *place, optional=3)
    yield _of_vehicle("rotateToYaw", bool, "number seconds number", 90.0, 0.2, 5.0, optional=2)
    yield _of_vehicle("rotateByYawRate", bool, "number seconds", 20.0, 0.1)
    for name in (
        "moveByRollPitchYawZ", "moveByRollPitchYawThrottle", "moveByRollPitchYawrateThrottle",
        "moveByRollPitchYawrateZ", "moveByAngleRatesZ", "moveByAngleRatesThrottle",
        "moveByMotorPWMs",
    ):  # fmt: skip
        yield _of_vehicle(
            name, bool, "number number number number seconds", 0.0, 0.1, 0.0, 0.6, 0.1
        )
    for loop in ("AngleLevel", "AngleRate", "Velocity", "Position"):
        gains = ([1.0] * 3, [0.0] * 3, [0.0] * 3)
        yield _of_vehicle(f"set{loop}ControllerGains", None, "gains gains gains", *gains)


def _scene() -> Iterator[Call]:
    yield _call("simListSceneObjects", "text", (".*",), [str], optional=1)
    yield _call("simGetObjectPose", "text flag", ("Ground", False), POSE, optional=1)
    yield _call(
        "simSetObjectPose", "text pose flag", ("PulsingCone", pose(30, -12), True), bool, optional=1
    )
    yield _call("simGetObjectScale", "text", ("Ground",), VECTOR)
    yield _call("simSetObjectScale", "text vector", ("PulsingCone", vector(1, 1, 1)), bool)
    spawned = ("box", "1M_Cube_Chamfer", pose(8, 0, -2), vector(1.0, 1.0, 1.0), False, False)
    yield _call("simSpawnObject", "text asset pose vector flag flag", spawned, str, optional=2)
    yield _call("simDestroyObject", "text", ("box",), bool)
    yield _call("simListAssets", "", (), [str])
    yield _call(
        "simSetSegmentationObjectID", "text whole flag", ("Ground", 20, False), bool, optional=1
    )
    yield _call("simGetSegmentationObjectID", "text", ("ground",), int)
    yield _of_vehicle("simTestLineOfSightToPoint", bool, "place", _HERE)
    yield _call(
        "simTestLineOfSightBetweenPoints",
        "place place",
        (_HERE, {**_HERE, "altitude": 130.0}),
        bool,
    )
    yield _call("simGetWorldExtents", "", (), [PLACE])
    yield _call("simGetMeshPositionVertexBuffers", "", (), [MESH])
    grid = (vector(30.0, -12.0, -2.0), 4, 4, 4, 1.0, "grid.binvox")
    yield _call("simCreateVoxelGrid", "vector whole whole whole number text", grid, bool)
    yield _call("simFlushPersistentMarkers", "", (), None)
    points = [vector(5, -1, -2), vector(5, 1, -2)]
    line = "vectors colour number seconds flag"
    for name in ("simPlotPoints", "simPlotLineStrip", "simPlotLineList"):
        yield _call(name, line, (points, _RED, 5.0, 1.0, False), None)
    yield _call(
        "simPlotArrows",
        f"vectors vectors colour number {line[15:]}",
        (points, points, _RED, 5.0, 1.0, 1.0, False),
        None,
    )
    yield _call(
        "simPlotStrings",
        "texts vectors number colour seconds",
        (["a", "b"], points, 1.0, _RED, 1.0),
        None,
    )
    yield _call(
        "simPlotTransforms",
        "poses number number seconds flag",
        ([pose(5)], 100.0, 5.0, 1.0, False),
        None,
    )
    named = ([pose(5)], ["a"], 100.0, 5.0, 1.0, _RED, 1.0)
    yield _call(
        "simPlotTransformsWithNames", "poses texts number number number colour seconds", named, None
    )


def _unreal() -> Iterator[Call]:
    yield _call("simSetObjectMaterial", "text text whole", ("Ground", "m", 0), bool, optional=1)
    yield _call(
        "simSetObjectMaterialFromTexture", "text text whole", ("Ground", "t", 0), bool, optional=1
    )
    yield _call("simSwapTextures", "text whole whole whole", ("tag", 0, 0, 0), [str], optional=2)
    yield _call("simRunConsoleCommand", "text", ("stat fps",), None, refused=_UNREAL)
    yield _call("simSetLightIntensity", "text number", ("light", 1.0), None, refused=_UNREAL)
    for name in (
        "simGetPresetLensSettings", "simGetLensSettings", "simGetPresetFilmbackSettings",
        "simGetFilmbackSettings",
        "simGetFocalLength", "simGetFocusDistance", "simGetFocusAperture",
        "simGetCurrentFieldOfView",
    ):  # fmt: skip
        yield _of_vehicle(name, None, "camera", "0", refused=_LENS)
    for name in ("simSetPresetLensSettings", "simSetPresetFilmbackSettings"):
        yield _of_vehicle(name, None, "text camera", "preset", "0", refused=_LENS)
    for name in ("simSetFocalLength", "simSetFocusDistance", "simSetFocusAperture"):
        yield _of_vehicle(name, None, "number camera", 1.0, "0", refused=_LENS)
    yield _of_vehicle(
        "simSetFilmbackSettings", None, "number number camera", 1.0, 1.0, "0", refused=_LENS
    )
    for name in ("simEnableManualFocus", "simEnableFocusPlane"):
        yield _of_vehicle(name, None, "flag camera", True, "0", refused=_LENS)


def _racing_lab() -> Iterator[Call]:
    """Yield the names of the drone racing lab; those that need a race say that there is none."""
    yield _call("simStartRace", "whole", (3,), None, optional=1, absent=_NO_RACE)
    for name in ("simResetRace", "simGetNominalGateInnerDimensions"):
        yield _call(name, "", (), None, absent=_NO_RACE)
    for name in ("simGetDisqualified", "simGetLastGatePassed"):
        yield _of_vehicle(name, None, absent=_NO_RACE)
    yield _call("simDisableRaceLog", "", (), None)
    yield _call("simGetObjectScaleInternal", "text", ("Ground",), VECTOR)
    yield _of_vehicle("simGetLidarSegmentation", [int], "sensor", "", optional=2)
    yield _of_vehicle("waitOnLastTask", bool, "number", 0.1, optional=2)
    yield _of_vehicle("simLogMultirotorState", None, "flag", True)
    yield _call("simSetTextureFromUrl", "text text", ("Ground", "http://127.0.0.1/t.png"), bool)
    yield _of_vehicle("clearTrajectory", None)
    look = (True, True, True, 15.0, 7.5, False, _RED, False, 1.0)
    kinds = "flag flag flag number number flag colour flag number"
    points = [vector(3.0, 0.0, -3.0), vector(6.0, 3.0, -3.0)]
    yield _of_vehicle("moveOnSpline", bool, f"vectors {kinds}", points, *look, optional=10)
    speeds = [vector(1.0, 0.0, 0.0), vector(0.0, 0.0, 0.0)]
    kinds = f"vectors vectors {kinds}"
    yield _of_vehicle("moveOnSplineVelConstraints", bool, kinds, points, speeds, *look, optional=10)
    yield _of_vehicle(
        "setTrajectoryTrackerGains",
        None,
        "tracker",
        [7.5, 0, 5, 0, 0.4, 0, 0.04, 0, 2, 0, 0.4, 0, 3, 0.1],
    )
