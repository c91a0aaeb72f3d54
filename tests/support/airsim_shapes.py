"""Shapes of the results of AirSim's RPC.

A type, a map of fields, or a list with the shape of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

VECTOR: Final = {"x_val": float, "y_val": float, "z_val": float}
QUATERNION: Final = {"w_val": float, **VECTOR}
POSE: Final = {"position": VECTOR, "orientation": QUATERNION}
PLACE: Final = {"latitude": float, "longitude": float, "altitude": float}
KINEMATICS: Final = {
    "position": VECTOR,
    "orientation": QUATERNION,
    "linear_velocity": VECTOR,
    "angular_velocity": VECTOR,
    "linear_acceleration": VECTOR,
    "angular_acceleration": VECTOR,
}
COLLISION: Final = {
    "has_collided": bool,
    "penetration_depth": float,
    "time_stamp": int,
    "normal": VECTOR,
    "impact_point": VECTOR,
    "position": VECTOR,
    "object_name": str,
    "object_id": int,
}
ENVIRONMENT: Final = {
    "position": VECTOR,
    "geo_point": PLACE,
    "gravity": VECTOR,
    "air_pressure": float,
    "temperature": float,
    "air_density": float,
}
RC: Final = {
    "timestamp": int,
    **dict.fromkeys(("pitch", "roll", "throttle", "yaw", "left_z", "right_z"), float),
    "switches": int,
    "vendor_id": str,
    "is_initialized": bool,
    "is_valid": bool,
}
STATE: Final = {
    "collision": COLLISION,
    "kinematics_estimated": KINEMATICS,
    "gps_location": PLACE,
    "timestamp": int,
    "landed_state": int,
    "rc_data": RC,
}
ROTORS: Final = {
    "rotors": [{"thrust": float, "torque_scaler": float, "speed": float}],
    "timestamp": int,
}
IMAGE: Final = {
    "image_data_uint8": bytes,
    "image_data_float": [float],
    "camera_name": str,
    "camera_position": VECTOR,
    "camera_orientation": QUATERNION,
    "time_stamp": int,
    "message": str,
    "pixels_as_float": bool,
    "compress": bool,
    "width": int,
    "height": int,
    "image_type": int,
}
CAMERA: Final = {"pose": POSE, "fov": float, "proj_mat": {"matrix": [[float]]}}
IMU: Final = {
    "time_stamp": int,
    "orientation": QUATERNION,
    "angular_velocity": VECTOR,
    "linear_acceleration": VECTOR,
}
BAROMETER: Final = {"time_stamp": int, "altitude": float, "pressure": float, "qnh": float}
MAGNETOMETER: Final = {
    "time_stamp": int,
    "magnetic_field_body": VECTOR,
    "magnetic_field_covariance": [float],
}
GNSS: Final = {
    "geo_point": PLACE,
    "eph": float,
    "epv": float,
    "velocity": VECTOR,
    "fix_type": int,
    "time_utc": int,
}
GPS: Final = {"time_stamp": int, "gnss": GNSS, "is_valid": bool}
DISTANCE: Final = {
    "time_stamp": int,
    "distance": float,
    "min_distance": float,
    "max_distance": float,
    "relative_pose": POSE,
}
LIDAR: Final = {"time_stamp": int, "point_cloud": [float], "pose": POSE, "segmentation": [int]}
PIXEL: Final = {"x_val": float, "y_val": float}
DETECTION: Final = {
    "name": str,
    "geo_point": PLACE,
    "box2D": {"min": PIXEL, "max": PIXEL},
    "box3D": {"min": VECTOR, "max": VECTOR},
    "relative_pose": POSE,
}
MESH: Final = {
    "position": VECTOR,
    "orientation": QUATERNION,
    "vertices": [float],
    "indices": [int],
    "name": str,
}
CONTROLS: Final = {
    **dict.fromkeys(("throttle", "steering", "brake"), float),
    "handbrake": bool,
    "is_manual_gear": bool,
    "manual_gear": int,
    "gear_immediate": bool,
}
CAR: Final = {
    "speed": float,
    "gear": int,
    "rpm": float,
    "maxrpm": float,
    "handbrake": bool,
    "kinematics_estimated": KINEMATICS,
    "timestamp": int,
}

STRUCTS: Final[Mapping[str, Any]] = {
    "Vector2r": PIXEL,
    "Vector3r": VECTOR,
    "Quaternionr": QUATERNION,
    "Pose": POSE,
    "GeoPoint": PLACE,
    "KinematicsState": KINEMATICS,
    "CollisionInfo": COLLISION,
    "EnvironmentState": ENVIRONMENT,
    "RCData": RC,
    "Box2D": {"min": PIXEL, "max": PIXEL},
    "Box3D": {"min": VECTOR, "max": VECTOR},
    "ProjectionMatrix": {"matrix": [[float]]},
    "MultirotorState": STATE,
    "RotorStates": ROTORS,
    "ImageResponse": IMAGE,
    "CameraInfo": CAMERA,
    "ImuData": IMU,
    "BarometerData": BAROMETER,
    "MagnetometerData": MAGNETOMETER,
    "GnssReport": GNSS,
    "GpsData": GPS,
    "DistanceSensorData": DISTANCE,
    "LidarData": LIDAR,
    "DetectionInfo": DETECTION,
    "MeshPositionVertexBuffersResponse": MESH,
    "CarControls": CONTROLS,
    "CarState": CAR,
}
"""Shapes of results by the class with which AirSim's client reads them."""


def problem_of(value: Any, shape: Any, place: str = "result") -> str:
    """Return where a value differs from a shape; empty = nowhere.

    Whole numbers count as floats, as on the wire.
    """
    if shape is None:
        return "" if value is None else f"{place} is {value!r:.60}, not nil"
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping) or value.keys() != shape.keys():
            return f"{place} is {value!r:.200}, not a map of {', '.join(shape)}"
        parts = [problem_of(value[key], part, f"{place}.{key}") for key, part in shape.items()]
        return next(filter(None, parts), "")
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{place} is {value!r:.60}, not a list"
        parts = [
            problem_of(part, shape[0], f"{place}[{index}]") for index, part in enumerate(value)
        ]
        return next(filter(None, parts), "")
    fits = type(value) is shape or (shape is float and type(value) is int)
    return "" if fits else f"{place} is {value!r:.60}, not {shape.__name__}"
