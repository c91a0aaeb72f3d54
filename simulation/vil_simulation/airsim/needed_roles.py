"""Role that each method of AirSim's RPC needs.

Reading needs ``view``, everything else ``control``.
"""

from __future__ import annotations

from typing import Final

from vil_bridge.runtime.access_tokens import Role

READINGS: Final = frozenset(
    {
        "getBarometerData",
        "getCarControls",
        "getCarState",
        "getDistanceSensorData",
        "getGpsData",
        "getHomeGeoPoint",
        "getImuData",
        "getLidarData",
        "getMagnetometerData",
        "getMinRequiredClientVersion",
        "getMultirotorState",
        "getRotorStates",
        "getServerVersion",
        "getSettingsString",
        "isApiControlEnabled",
        "isRecording",
        "listVehicles",
        "ping",
        "simGetCameraInfo",
        "simGetCollisionInfo",
        "simGetDetections",
        "simGetDisqualified",
        "simGetDistortionParams",
        "simGetGroundTruthEnvironment",
        "simGetGroundTruthKinematics",
        "simGetImage",
        "simGetImages",
        "simGetLastGatePassed",
        "simGetLidarSegmentation",
        "simGetMeshPositionVertexBuffers",
        "simGetNominalGateInnerDimensions",
        "simGetObjectPose",
        "simGetObjectScale",
        "simGetObjectScaleInternal",
        "simGetSegmentationObjectID",
        "simGetVehiclePose",
        "simGetWorldExtents",
        "simIsPaused",
        "simListAssets",
        "simListSceneObjects",
        "simLoadLevel",
        "simTestLineOfSightBetweenPoints",
        "simTestLineOfSightToPoint",
        "waitOnLastTask",
    }
)
"""Methods that change nothing. With the role ``view``, reading a collision does not reset it."""


def needed_role(method: str) -> Role:
    """Return the role that a method needs; one that is not listed needs ``control``."""
    return Role.VIEW if method in READINGS else Role.CONTROL
