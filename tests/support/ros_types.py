"""ROS 2 messages as pycdr2 types, written from the message definitions of common_interfaces.

No postponed annotations: pycdr2 reads them when a class is made. mypy reads its ``array[float64,
9]`` as a mistake.
"""
# mypy: disable-error-code="type-arg,valid-type"

from dataclasses import dataclass

from pycdr2 import IdlStruct
from pycdr2.types import array, float32, float64, int8, int32, sequence, uint8, uint16, uint32


@dataclass
class Time(IdlStruct):
    sec: int32
    nanosec: uint32


@dataclass
class Header(IdlStruct):
    stamp: Time
    frame_id: str

    @property
    def t_ns(self) -> int:
        return int(self.stamp.sec) * 1_000_000_000 + int(self.stamp.nanosec)


@dataclass
class Vector3(IdlStruct):
    x: float64
    y: float64
    z: float64

    @property
    def xyz(self) -> list[float]:
        return [self.x, self.y, self.z]


@dataclass
class Quaternion(IdlStruct):
    x: float64
    y: float64
    z: float64
    w: float64

    @property
    def xyzw(self) -> list[float]:
        return [self.x, self.y, self.z, self.w]


@dataclass
class Pose(IdlStruct):
    position: Vector3
    orientation: Quaternion


@dataclass
class PoseWithCovariance(IdlStruct):
    pose: Pose
    covariance: array[float64, 36]


@dataclass
class Twist(IdlStruct):
    linear: Vector3
    angular: Vector3


@dataclass
class TwistWithCovariance(IdlStruct):
    twist: Twist
    covariance: array[float64, 36]


@dataclass
class Odometry(IdlStruct):
    header: Header
    child_frame_id: str
    pose: PoseWithCovariance
    twist: TwistWithCovariance


@dataclass
class Imu(IdlStruct):
    header: Header
    orientation: Quaternion
    orientation_covariance: array[float64, 9]
    angular_velocity: Vector3
    angular_velocity_covariance: array[float64, 9]
    linear_acceleration: Vector3
    linear_acceleration_covariance: array[float64, 9]


@dataclass
class Image(IdlStruct):
    header: Header
    height: uint32
    width: uint32
    encoding: str
    is_bigendian: uint8
    step: uint32
    data: sequence[uint8]


@dataclass
class CompressedImage(IdlStruct):
    header: Header
    format: str
    data: sequence[uint8]


@dataclass
class RegionOfInterest(IdlStruct):
    x_offset: uint32
    y_offset: uint32
    height: uint32
    width: uint32
    do_rectify: bool


@dataclass
class CameraInfo(IdlStruct):
    header: Header
    height: uint32
    width: uint32
    distortion_model: str
    d: sequence[float64]
    k: array[float64, 9]
    r: array[float64, 9]
    p: array[float64, 12]
    binning_x: uint32
    binning_y: uint32
    roi: RegionOfInterest


@dataclass
class TransformOf(IdlStruct):
    translation: Vector3
    rotation: Quaternion


@dataclass
class TransformStamped(IdlStruct):
    header: Header
    child_frame_id: str
    transform: TransformOf


@dataclass
class TFMessage(IdlStruct):
    transforms: sequence[TransformStamped]


@dataclass
class FluidPressure(IdlStruct):
    header: Header
    fluid_pressure: float64
    variance: float64


@dataclass
class MagneticField(IdlStruct):
    header: Header
    magnetic_field: Vector3
    magnetic_field_covariance: array[float64, 9]


@dataclass
class NavSatStatus(IdlStruct):
    status: int8
    service: uint16


@dataclass
class NavSatFix(IdlStruct):
    header: Header
    status: NavSatStatus
    latitude: float64
    longitude: float64
    altitude: float64
    position_covariance: array[float64, 9]
    position_covariance_type: uint8


@dataclass
class JointState(IdlStruct):
    header: Header
    name: sequence[str]
    position: sequence[float64]
    velocity: sequence[float64]
    effort: sequence[float64]


@dataclass
class Clock(IdlStruct):
    clock: Time

    @property
    def t_ns(self) -> int:
        return int(self.clock.sec) * 1_000_000_000 + int(self.clock.nanosec)


@dataclass
class PoseArray(IdlStruct):
    header: Header
    poses: sequence[Pose]


@dataclass
class TwistStamped(IdlStruct):
    header: Header
    twist: Twist


@dataclass
class PoseStamped(IdlStruct):
    header: Header
    pose: Pose


@dataclass
class RateThrust(IdlStruct):
    header: Header
    angular_rates: Vector3
    thrust: Vector3


@dataclass
class Range(IdlStruct):
    header: Header
    radiation_type: uint8
    field_of_view: float32
    min_range: float32
    max_range: float32
    range: float32
    variance: float32


@dataclass
class PointField(IdlStruct):
    name: str
    offset: uint32
    datatype: uint8
    count: uint32


@dataclass
class PointCloud2(IdlStruct):
    header: Header
    height: uint32
    width: uint32
    fields: sequence[PointField]
    is_bigendian: bool
    point_step: uint32
    row_step: uint32
    data: sequence[uint8]
    is_dense: bool


@dataclass
class Octomap(IdlStruct):
    header: Header
    binary: bool
    id: str
    resolution: float64
    data: sequence[int8]


@dataclass
class Path(IdlStruct):
    header: Header
    poses: sequence[PoseStamped]
