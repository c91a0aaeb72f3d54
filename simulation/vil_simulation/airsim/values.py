"""Structs of AirSim's RPC.

Map keys, units and defaults of AirSim 1.8.1 (AirLib, RpcLibAdaptorsBase.hpp).

World NED, body FRD, SI units unless a name says otherwise; quaternions rotate body to world. A
field that a client leaves out has the client's own default; keys that a struct does not have are
ignored.
"""

from __future__ import annotations

import math
from typing import Annotated, Final

import msgspec

from vil_bridge.core.types import FloatArray
from vil_simulation.airsim.methods import ArrayOf
from vil_simulation.airsim.msgpack_rpc import Packed
from vil_simulation.airsim.quantities import (
    Altitude,
    DegreesOrRate,
    Gain,
    Latitude,
    Longitude,
    Metres,
    MetresPerSecond,
    MetresPerSecond2,
    Newtons,
    ObjectScale,
    QuaternionPart,
    RadiansPerSecond,
    RadiansPerSecond2,
    Share,
    Stick,
    TimeStamp,
    WindSpeed,
)
from vil_simulation.vehicles.physical_ranges import POSITION, QUATERNION

NAN: Final = math.nan
AxisGains = tuple[Gain, Gain, Gain]
"""Gains of a loop along its three axes."""


TrackerGainList = Annotated[list[Gain], msgspec.Meta(min_length=14, max_length=14)]
"""Gains of the racing lab's tracker."""


class Vector2r(msgspec.Struct):
    """Two numbers."""

    x_val: float = 0.0
    y_val: float = 0.0


class Vector3r(msgspec.Struct):
    """Three numbers, in metres where nothing else is said."""

    x_val: float = 0.0
    y_val: float = 0.0
    z_val: float = 0.0


class PointNed(Vector3r):
    """A place that a program gives, metres."""

    x_val: Metres = 0.0
    y_val: Metres = 0.0
    z_val: Metres = 0.0


class VelocityNed(Vector3r):
    """A velocity that a program gives, m/s."""

    x_val: MetresPerSecond = 0.0
    y_val: MetresPerSecond = 0.0
    z_val: MetresPerSecond = 0.0


class AccelerationNed(Vector3r):
    """An acceleration that a program gives, m/s^2."""

    x_val: MetresPerSecond2 = 0.0
    y_val: MetresPerSecond2 = 0.0
    z_val: MetresPerSecond2 = 0.0


class BodyRates(Vector3r):
    """Angular rates that a program gives, rad/s."""

    x_val: RadiansPerSecond = 0.0
    y_val: RadiansPerSecond = 0.0
    z_val: RadiansPerSecond = 0.0


class BodyAccelerations(Vector3r):
    """Angular accelerations that a program gives, rad/s^2."""

    x_val: RadiansPerSecond2 = 0.0
    y_val: RadiansPerSecond2 = 0.0
    z_val: RadiansPerSecond2 = 0.0


class WindNed(Vector3r):
    """A wind that a program sets, m/s."""

    x_val: WindSpeed = 0.0
    y_val: WindSpeed = 0.0
    z_val: WindSpeed = 0.0


class ForceNed(Vector3r):
    """A force that a program sets, N."""

    x_val: Newtons = 0.0
    y_val: Newtons = 0.0
    z_val: Newtons = 0.0


class GivenScale(Vector3r):
    """A scale of an object that a program sets."""

    x_val: ObjectScale = 1.0
    y_val: ObjectScale = 1.0
    z_val: ObjectScale = 1.0


Points = Annotated[FloatArray, ArrayOf(list[PointNed], lambda v: (v.x_val, v.y_val, v.z_val), 3)]
"""Points as an array (n, 3) for the method that takes them."""
Velocities = Annotated[
    FloatArray, ArrayOf(list[VelocityNed], lambda v: (v.x_val, v.y_val, v.z_val), 3)
]
"""Velocities as an array (n, 3) for the method that takes them."""


class Quaternionr(msgspec.Struct):
    """An attitude, body to world; programs send quaternions of any length."""

    w_val: float = 1.0
    x_val: float = 0.0
    y_val: float = 0.0
    z_val: float = 0.0


class GivenQuaternion(Quaternionr):
    """An attitude that a program gives, all of it."""

    w_val: QuaternionPart = 1.0
    x_val: QuaternionPart = 0.0
    y_val: QuaternionPart = 0.0
    z_val: QuaternionPart = 0.0


class Pose(msgspec.Struct):
    """Position and attitude; NaN = unknown, or left as it was."""

    position: Vector3r = msgspec.field(default_factory=Vector3r)
    orientation: Quaternionr = msgspec.field(default_factory=Quaternionr)

    @classmethod
    def unknown(cls) -> Pose:
        """Return the pose of an object that does not exist."""
        return cls(Vector3r(NAN, NAN, NAN), Quaternionr(NAN, NAN, NAN, NAN))


class DrawnPose(Pose):
    """A pose that a program gives, all of it."""

    position: PointNed = msgspec.field(default_factory=PointNed)
    orientation: GivenQuaternion = msgspec.field(default_factory=GivenQuaternion)


class GivenPose(Pose):
    """A pose that a program gives; a component that is NaN stays unchanged."""

    def __post_init__(self) -> None:
        _check_pose(self.position, self.orientation)


def _check_pose(position: Vector3r, orientation: Quaternionr) -> None:
    """Raise ValueError where a component is neither NaN nor in its range."""
    for name, part, permitted in (
        ("position", position, POSITION),
        ("orientation", orientation, QUATERNION),
    ):
        for key in part.__struct_fields__:
            value = getattr(part, key)
            if not (math.isnan(value) or value in permitted):
                raise ValueError(
                    f"{name}.{key} must be {permitted}, or NaN for unchanged, not {value:g}"
                )


class AirsimGeoPoint(msgspec.Struct):
    """Place on the Earth: degrees and metres."""

    latitude: Latitude = 0.0
    longitude: Longitude = 0.0
    altitude: Altitude = 0.0


class KinematicsState(msgspec.Struct):
    """Motion of a body: linear values in the world, angular ones in the body's axes."""

    position: Vector3r = msgspec.field(default_factory=Vector3r)
    orientation: Quaternionr = msgspec.field(default_factory=Quaternionr)
    linear_velocity: Vector3r = msgspec.field(default_factory=Vector3r)
    angular_velocity: Vector3r = msgspec.field(default_factory=Vector3r)
    linear_acceleration: Vector3r = msgspec.field(default_factory=Vector3r)
    angular_acceleration: Vector3r = msgspec.field(default_factory=Vector3r)


class GivenKinematics(KinematicsState):
    """A motion that a program gives; a component of its pose that is NaN stays unchanged."""

    linear_velocity: VelocityNed = msgspec.field(default_factory=VelocityNed)
    angular_velocity: BodyRates = msgspec.field(default_factory=BodyRates)
    linear_acceleration: AccelerationNed = msgspec.field(default_factory=AccelerationNed)
    angular_acceleration: BodyAccelerations = msgspec.field(default_factory=BodyAccelerations)

    def __post_init__(self) -> None:
        _check_pose(self.position, self.orientation)


class EnvironmentState(msgspec.Struct):
    """Surroundings of a vehicle: m/s^2, Pa, K, kg/m^3."""

    position: Vector3r
    geo_point: AirsimGeoPoint
    gravity: Vector3r
    air_pressure: float
    temperature: float
    air_density: float


class CollisionInfo(msgspec.Struct):
    """The latched collision of a vehicle."""

    has_collided: bool = False
    penetration_depth: float = 0.0
    time_stamp: int = 0
    normal: Vector3r = msgspec.field(default_factory=Vector3r)
    impact_point: Vector3r = msgspec.field(default_factory=Vector3r)
    position: Vector3r = msgspec.field(default_factory=Vector3r)
    object_name: str = ""
    object_id: int = -1


class RCData(msgspec.Struct):
    """A remote control's sticks and switches; the Python client writes the switches one by one."""

    timestamp: TimeStamp = 0
    pitch: Stick = 0.0
    roll: Stick = 0.0
    throttle: Stick = 0.0
    yaw: Stick = 0.0
    left_z: Stick = 0.0
    right_z: Stick = 0.0
    switches: int = 0
    vendor_id: str = ""
    is_initialized: bool = False
    is_valid: bool = False


class MultirotorState(msgspec.Struct):
    """State of a multirotor; landed_state 0 = landed, 1 = flying."""

    collision: CollisionInfo
    kinematics_estimated: KinematicsState
    gps_location: AirsimGeoPoint
    timestamp: int
    landed_state: int
    rc_data: RCData = msgspec.field(default_factory=RCData)


class RotorState(msgspec.Struct):
    """One rotor: N, N m with its sign, rad/s."""

    thrust: float
    torque_scaler: float
    speed: float


class RotorStates(msgspec.Struct):
    """All rotors in AirSim's order."""

    rotors: list[RotorState]
    timestamp: int


class YawMode(msgspec.Struct):
    """Heading during a move: degrees, or degrees per second."""

    is_rate: bool = True
    yaw_or_rate: DegreesOrRate = 0.0


class ImuData(msgspec.Struct):
    """An inertial sample: rad/s and m/s^2 in the body's axes."""

    time_stamp: int
    orientation: Quaternionr
    angular_velocity: Vector3r
    linear_acceleration: Vector3r


class BarometerData(msgspec.Struct):
    """A barometer's sample: metres, Pa, hPa."""

    time_stamp: int
    altitude: float
    pressure: float
    qnh: float


class MagnetometerData(msgspec.Struct):
    """A magnetometer's sample: Gauss in the body's axes."""

    time_stamp: int
    magnetic_field_body: Vector3r
    magnetic_field_covariance: list[float] = []


class GnssReport(msgspec.Struct):
    """A GNSS receiver's report; time_utc in microseconds, fix_type 0 none, 1 time, 2 2D, 3 3D."""

    geo_point: AirsimGeoPoint
    eph: float
    epv: float
    velocity: Vector3r
    fix_type: int
    time_utc: int


class GpsData(msgspec.Struct):
    """A report and the instant it came out."""

    time_stamp: int
    gnss: GnssReport
    is_valid: bool


class DistanceSensorData(msgspec.Struct):
    """A range: metres; the pose of the sensor in the vehicle."""

    time_stamp: int
    distance: float
    min_distance: float
    max_distance: float
    relative_pose: Pose


class LidarData(msgspec.Struct):
    """A scan: x0 y0 z0 x1..., metres, and the object of each point."""

    time_stamp: int
    point_cloud: Packed
    pose: Pose
    segmentation: Packed


class ProjectionMatrix(msgspec.Struct):
    """A 4 x 4 matrix, row by row."""

    matrix: list[list[float]]


class AirsimCameraInfo(msgspec.Struct):
    """A camera: pose in the world, horizontal field of view in degrees, projection."""

    pose: Pose
    fov: float
    proj_mat: ProjectionMatrix


class AirsimImageRequest(msgspec.Struct):
    """A picture that a program asks for."""

    camera_name: str
    image_type: int
    pixels_as_float: bool = False
    compress: bool = True


class ImageResponse(msgspec.Struct):
    """A picture: bytes or floats, row by row from the top, with the camera's pose and instant."""

    image_data_uint8: bytes | memoryview
    image_data_float: Packed
    camera_name: str
    camera_position: Vector3r
    camera_orientation: Quaternionr
    time_stamp: int
    message: str
    pixels_as_float: bool
    compress: bool
    width: int
    height: int
    image_type: int


class Box2D(msgspec.Struct):
    """Corners of a box in the picture, pixels."""

    min: Vector2r
    max: Vector2r


class Box3D(msgspec.Struct):
    """Corners of a box in the world."""

    min: Vector3r
    max: Vector3r


class DetectionInfo(msgspec.Struct):
    """An object that a camera sees."""

    name: str
    geo_point: AirsimGeoPoint
    box2D: Box2D
    box3D: Box3D
    relative_pose: Pose


class MeshPositionVertexBuffersResponse(msgspec.Struct):
    """A mesh: vertices as xyz triples, indices as triples of triangles."""

    position: Vector3r
    orientation: Quaternionr
    vertices: Packed
    indices: Packed
    name: str


class CarControls(msgspec.Struct):
    """Commands to a car: throttle, steering (positive = right) and brake, -1 to 1."""

    throttle: Share = 0.0
    steering: Share = 0.0
    brake: Share = 0.0
    handbrake: bool = False
    is_manual_gear: bool = False
    manual_gear: int = 0
    gear_immediate: bool = True


class CarState(msgspec.Struct):
    """State of a car: m/s, gear, revolutions per minute."""

    speed: float
    gear: int
    rpm: float
    maxrpm: float
    handbrake: bool
    kinematics_estimated: KinematicsState
    timestamp: int
