"""Keys of AirSim's settings.json by section: those with an effect here, and those that only AirSim reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SectionKeys:
    """Keys of a section that have an effect, and keys of AirSim that have none here."""

    used: frozenset[str]
    unused: frozenset[str] = frozenset()


def _keys(used: str, unused: str = "") -> SectionKeys:
    return SectionKeys(frozenset(used.split()), frozenset(unused.split()))


_POSE: Final = "X Y Z Yaw Pitch Roll"
_EXPOSURE: Final = (
    "AutoExposureSpeed AutoExposureBias AutoExposureMaxBrightness AutoExposureMinBrightness AutoExposureMethod "
    "AutoExposureLowPercent AutoExposureHighPercent AutoExposureHistogramLogMin AutoExposureHistogramLogMax"
)
_TIMES: Final = "UpdateFrequency UpdateLatency StartupDelay"
_DRAWN: Final = "DrawDebugPoints ExternalController"

ROOT: Final = _keys(
    "SettingsVersion SettingdVersion SimMode Vehicles CameraDefaults DefaultSensors ClockSpeed OriginGeopoint "
    "ExternalCameras ApiServerPort Wind Recording",
    "PhysicsEngineName SubWindows SegmentationSettings TimeOfDay ViewMode PawnPaths CameraDirector UnrealEngine "
    "EngineSound RecordUIVisible LogMessagesVisible SpeedUnitFactor SpeedUnitLabel RC RpcEnabled EnableRpc "
    "InitMessageVisible ShowLosDebugLines Speed AllowAPIAlways ClockType LocalHostIp SeeDocsAt",
)
VEHICLE: Final = _keys(
    f"VehicleType {_POSE} Cameras Sensors DefaultVehicleState IsFpvVehicle",
    "AutoCreate EnableCollisions EnableCollisionPassthrogh EnableTrace AllowAPIAlways RC PawnPath "
    "UseSerial SerialPort SerialBaudRate LockStep UseTcp TcpPort UdpIp UdpPort ControlPort ControlIp ControlPortLocal "
    "ControlPortRemote QgcHostIp QgcPort LogViewerHostIp LogViewerPort LogViewerSendPort SimSysID SimCompID "
    "OffboardSysID OffboardCompID VehicleSysID VehicleCompID Model Logs Parameters LocalHostIp",
)
ORIGIN: Final = _keys("Latitude Longitude Altitude")
WIND: Final = _keys("X Y Z")
RECORDING: Final = _keys("Enabled RecordOnMove RecordInterval Folder Cameras")
RECORDED_CAMERA: Final = _keys("CameraName CameraID VehicleName ImageType PixelsAsFloat Compress")
CAMERA: Final = _keys(f"CaptureSettings {_POSE}", "NoiseSettings Gimbal UnrealEngine")
CAMERA_DEFAULTS: Final = _keys("CaptureSettings", f"NoiseSettings Gimbal UnrealEngine {_POSE}")
CAPTURE: Final = _keys(
    "ImageType Width Height FOV_Degrees",
    f"{_EXPOSURE} MotionBlurAmount TargetGamma ProjectionMode OrthoWidth",
)
SENSORS: Final[Mapping[str, SectionKeys]] = {
    kind: _keys(f"SensorType Enabled {used}", unused)
    for kind, used, unused in (
        ("barometer", f"PressureFactorSigma PressureFactorTau UncorrelatedNoiseSigma {_TIMES}", ""),
        (
            "imu",
            "AngularRandomWalk GyroBiasStability GyroBiasStabilityTau VelocityRandomWalk AccelBiasStability "
            "AccelBiasStabilityTau",
            "",
        ),
        (
            "gps",
            f"EphInitial EphFinal EPH_TimeConstant EphMin2d EphMin3d {_TIMES}",
            "EpvInitial EpvFinal EPV_TimeConstant",
        ),
        ("magnetometer", f"NoiseSigma NoiseBias ScaleFactor {_TIMES}", ""),
        ("distance", f"MinDistance MaxDistance {_POSE}", _DRAWN),
        (
            "lidar",
            "NumberOfChannels Range PointsPerSecond RotationsPerSecond HorizontalFOVStart HorizontalFOVEnd "
            f"VerticalFOVUpper VerticalFOVLower DataFrame {_POSE}",
            _DRAWN,
        ),
    )
}
"""By the kind of a sensor."""
