"""Keys of AirSim's settings.json by section: those with an effect here, and those that others read.

The others are AirSim 1.8.1, versions of the file before 1.2, and Cosys-AirSim 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class SectionKeys:
    """Keys of a section.

    Attributes:
        used: have an effect. unused: of AirSim, without an effect here. cosys: of Cosys-AirSim
            only.
        older: of versions before 1.2, each with what takes its place.
    """

    used: frozenset[str]
    unused: frozenset[str] = frozenset()
    cosys: frozenset[str] = frozenset()
    older: Mapping[str, str] = field(default_factory=dict)

    def remark(self, key: str) -> str | None:
        """Return why a key has no effect, and what to write instead; None = it has one."""
        if key in self.used:
            return None
        if key in self.unused:
            return "has no meaning here"
        if key in self.cosys:
            return "is a key of Cosys-AirSim and has no meaning here"
        if key in self.older:
            return f"is a key of settings of version 1.0. {self.older[key]}"
        for known in (*self.used, *self.unused, *self.cosys, *self.older):
            if known.lower() == key.lower():
                return f"has the wrong case, and AirSim ignores it too. Write {known}"
        return "AirSim does not know it either"


def _keys(used: str, unused: str = "", cosys: str = "") -> SectionKeys:
    return SectionKeys(frozenset(used.split()), frozenset(unused.split()), frozenset(cosys.split()))


_POSE: Final = "X Y Z Yaw Pitch Roll"
_EXPOSURE: Final = (
    "AutoExposureSpeed AutoExposureBias AutoExposureMaxBrightness "
    "AutoExposureMinBrightness AutoExposureMethod "
    "AutoExposureLowPercent AutoExposureHighPercent AutoExposureHistogramLogMin "
    "AutoExposureHistogramLogMax"
)
_TIMES: Final = "UpdateFrequency UpdateLatency StartupDelay"
_DRAWN: Final = "DrawDebugPoints ExternalController"
_OUTSIDE: Final = "External ExternalLocal DrawSensor"
"""Keys of Cosys-AirSim for what is mounted on no vehicle."""

_CAPTURES: Final = "Write CameraDefaults.CaptureSettings, with an entry for each ImageType"
_CAMERAS: Final = "Write Cameras in the vehicle's section"
_VEHICLE_TYPE: Final = "Write a section in Vehicles, with its VehicleType"
_OLDER: Final[Mapping[str, str]] = {
    "DefaultVehicleConfig": _VEHICLE_TYPE,
    "SimpleFlight": _VEHICLE_TYPE,
    "PX4": _VEHICLE_TYPE,
    "UsageScenario": "Write SimMode",
    "FpvVehicleName": "Write IsFpvVehicle in the vehicle's section",
    "AdditionalCameras": _CAMERAS,
    "CaptureSettings": _CAPTURES,
    "SceneCaptureSettings": _CAPTURES,
    "DepthCaptureSettings": _CAPTURES,
    "SegCaptureSettings": _CAPTURES,
    "NoiseSettings": "Write CameraDefaults.NoiseSettings",
}

ROOT: Final = replace(
    _keys(
        "SettingsVersion SettingdVersion SimMode Vehicles CameraDefaults DefaultSensors "
        "ClockSpeed OriginGeopoint "
        "ExternalCameras ApiServerPort Wind Recording",
        "PhysicsEngineName SubWindows SegmentationSettings TimeOfDay ViewMode PawnPaths "
        "CameraDirector UnrealEngine "
        "EngineSound RecordUIVisible LogMessagesVisible SpeedUnitFactor SpeedUnitLabel "
        "RC RpcEnabled EnableRpc "
        "InitMessageVisible ShowLosDebugLines Speed AllowAPIAlways ClockType LocalHostIp "
        "SeeDocsAt see_docs_at "
        "FastPhysicsEngine",
        "Annotation Beacons ExternalForce InitialInstanceSegmentation MoveWorldOrigin "
        "PassiveEchoBeacons WorldLights",
    ),
    older=_OLDER,
)
VEHICLE: Final = _keys(
    f"VehicleType {_POSE} Cameras Sensors DefaultVehicleState IsFpvVehicle AutoCreate",
    "EnableCollisions EnableCollisionPassthrogh EnableTrace AllowAPIAlways RC PawnPath "
    "UseSerial SerialPort SerialBaudRate LockStep UseTcp TcpPort UdpIp UdpPort "
    "ControlPort ControlIp ControlPortLocal "
    "ControlPortRemote QgcHostIp QgcPort LogViewerHostIp LogViewerPort LogViewerSendPort "
    "SimSysID SimCompID "
    "OffboardSysID OffboardCompID VehicleSysID VehicleCompID Model Logs Parameters "
    "LocalHostIp SitlIp SitlPort",
    "EnableCollisionPassthrough Lights",
)
ORIGIN: Final = _keys("Latitude Longitude Altitude")
WIND: Final = _keys("X Y Z")
RECORDING: Final = _keys("Enabled RecordOnMove RecordInterval Folder Cameras")
RECORDED_CAMERA: Final = _keys(
    "CameraName CameraID VehicleName ImageType PixelsAsFloat Compress", cosys="Annotation"
)
CAMERA: Final = _keys(f"CaptureSettings {_POSE}", "NoiseSettings Gimbal UnrealEngine", _OUTSIDE)
CAMERA_DEFAULTS: Final = _keys(
    "CaptureSettings", f"NoiseSettings Gimbal UnrealEngine {_POSE}", _OUTSIDE
)
CAPTURE: Final = _keys(
    "ImageType Width Height FOV_Degrees",
    f"{_EXPOSURE} MotionBlurAmount TargetGamma ProjectionMode OrthoWidth",
    "AutoExposureApplyPhysicalCameraExposure AutoExposureCompensation "
    "AutoExposureSpeedDown AutoExposureSpeedUp "
    "BloomIntensity BloomThreshold CameraAperture CameraISO CameraMaxAperture "
    "CameraNumBlades CameraShutterSpeed "
    "ChromaticAberrationIntensity ChromaticAberrationStartOffset DepthOfFieldDepthBlurAmount "
    "DepthOfFieldDepthBlurRadius DepthOfFieldFocalDistance DepthOfFieldSensorWidth "
    "DepthOfFieldSqueezeFactor "
    "DepthOfFieldUseHairDepth ForceUpdate IgnoreMarked LensFlareBokehSize "
    "LensFlareIntensity LensFlareThreshold "
    "LumenFinalQuality LumenGIEnable LumenReflectionEnable LumenSceneDetail "
    "LumenSceneLightningDetail MotionBlurMax "
    "MotionBlurTargetFPS",
)
SENSORS: Final[Mapping[str, SectionKeys]] = {
    kind: _keys(f"SensorType Enabled {used}", unused, cosys)
    for kind, used, unused, cosys in (
        (
            "barometer",
            f"PressureFactorSigma PressureFactorTau UncorrelatedNoiseSigma {_TIMES}",
            "",
            "",
        ),
        (
            "imu",
            "AngularRandomWalk GyroBiasStability GyroBiasStabilityTau VelocityRandomWalk "
            "AccelBiasStability "
            "AccelBiasStabilityTau",
            "",
            "GenerateNoise",
        ),
        (
            "gps",
            f"EphInitial EphFinal EPH_TimeConstant EphMin2d EphMin3d {_TIMES}",
            "EpvInitial EpvFinal EPV_TimeConstant",
            "",
        ),
        ("magnetometer", f"NoiseSigma NoiseBias ScaleFactor {_TIMES}", "", ""),
        ("distance", f"MinDistance MaxDistance {_POSE}", _DRAWN, _OUTSIDE),
        (
            "lidar",
            "NumberOfChannels Range PointsPerSecond RotationsPerSecond "
            "HorizontalFOVStart HorizontalFOVEnd "
            f"VerticalFOVUpper VerticalFOVLower DataFrame {_POSE}",
            _DRAWN,
            f"{_OUTSIDE} GenerateNoise LimitPoints MeasurementsPerCycle "
            "MinNoiseStandardDeviation NoiseDistanceScale "
            "UpdateFrequency",
        ),
    )
}
"""By the kind of a sensor."""
