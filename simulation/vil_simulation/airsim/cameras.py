"""Cameras of vehicles as programs change them: pose, field of view, distortion.

And the views of their pictures.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from vil_bridge.core.camera_model import CameraModel, Distortion, LensModel
from vil_bridge.core.geometry import Transform, q_from_matrix
from vil_bridge.core.types import Modality, View, WorldSnapshot
from vil_simulation.airsim.default_cameras import CAMERA_NUMBERS
from vil_simulation.airsim.frames import mount_of, pose_of
from vil_simulation.airsim.methods import NoSuchVehicle, shown
from vil_simulation.airsim.settings import CameraSettings, CaptureSettings
from vil_simulation.airsim.values import AirsimCameraInfo, Pose, ProjectionMatrix
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles, pose_in

DISTORTION_KEYS: Final = ("K1", "K2", "K3", "P1", "P2")
_T_camera_optical: Final = Transform(
    np.zeros(3), q_from_matrix(np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]))
)
_T_world_ned: Final = Transform.of((0.0, 0.0, 0.0), (0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)))
"""A body (FLU) that looks north: its FRD is the world's NED."""
_NEAR_M: Final = 0.1
_MOUNTS: Final = 64
"""Mounts that a camera had before, which are retained."""


@dataclass(slots=True)
class _Camera:
    """A camera in its present state.

    Attributes:
        was: where it was mounted before, each with the bridge time until which, oldest first.
    """

    settings: CameraSettings
    T_body_camera: Transform
    distortion: dict[str, float]
    fov_deg: float | None = None
    was: deque[tuple[int, Transform]] = field(default_factory=lambda: deque(maxlen=_MOUNTS))

    def mount_at(self, t_ns: int) -> Transform:
        """Return where the camera was mounted at an instant.

        At one of a change, where it was before.
        """
        for until_ns, T_body_camera in self.was:
            if t_ns <= until_ns:
                return T_body_camera
        return self.T_body_camera

    def capture(self, image_type: int) -> CaptureSettings:
        found = self.settings.capture(image_type)
        return found if self.fov_deg is None else replace(found, fov_deg=self.fov_deg)


class ServedCameras:
    """Cameras of all vehicles, and external ones, which stand in the world.

    Args:
        external: by name; mounted on a body at the world's origin that looks north.
    """

    def __init__(self, external: Mapping[str, CameraSettings]) -> None:
        self._cameras: MutableMapping[tuple[str, str], _Camera] = {}
        self._world = ServedVehicle(
            name="",
            actor="",
            subject=None,
            kind="world",
            T_world_room=Transform.identity(),
            origin_m=np.zeros(3),
            cameras=external,
            sensors={},
        )

    def owner(
        self, vehicles: ServedVehicles, vehicle_name: str, *, external: bool
    ) -> ServedVehicle:
        """Return what a camera is mounted on: a vehicle, or the world.

        Raises NoSuchVehicle: there is none.
        """
        return self._world if external else vehicles.find(vehicle_name)

    def pose_of_owner(self, owner: ServedVehicle, snapshot: WorldSnapshot) -> Transform:
        """Return the pose of what cameras are mounted on. Raises ValueError: it was never seen."""
        return _T_world_ned if owner is self._world else pose_in(snapshot, owner)

    def key(self, vehicle: ServedVehicle, name: str) -> tuple[str, str]:
        """Return actor and name of a camera by its name or by its number of older versions.

        Raises:
            NoSuchVehicle: the vehicle has none of that name.
        """
        known = name if name in vehicle.cameras else CAMERA_NUMBERS.get(name, name)
        if known not in vehicle.cameras:
            if name in CAMERA_NUMBERS and vehicle.cameras:
                known = list(vehicle.cameras)[min(int(name or 0), len(vehicle.cameras) - 1)]
            else:
                raise NoSuchVehicle(
                    f"Camera '{shown(name)}' does not exist on '{vehicle.name or 'the world'}'; "
                    "known: "
                    f"{', '.join(vehicle.cameras) or 'none, add ExternalCameras to the settings'}"
                )
        return vehicle.actor, known

    def find(self, vehicle: ServedVehicle, name: str) -> _Camera:
        """Return a camera as programs have left it.

        Raises NoSuchVehicle: the vehicle has none of that name.
        """
        key = self.key(vehicle, name)
        if key not in self._cameras:
            settings = vehicle.cameras[key[1]]
            self._cameras[key] = _Camera(
                settings, settings.T_body_camera, dict.fromkeys(DISTORTION_KEYS, 0.0)
            )
        return self._cameras[key]

    def set_pose(self, vehicle: ServedVehicle, name: str, pose: Pose, t_ns: int) -> None:
        """Mount a camera elsewhere on the body from an instant on; NaN leaves a part unchanged."""
        camera = self.find(vehicle, name)
        mount = mount_of(pose, camera.T_body_camera)
        camera.was.append((t_ns, camera.T_body_camera))
        camera.T_body_camera = mount

    def set_fov(self, vehicle: ServedVehicle, name: str, fov_deg: float) -> None:
        """Change the horizontal field of view of all pictures of a camera."""
        self.find(vehicle, name).fov_deg = fov_deg

    def set_distortion(self, vehicle: ServedVehicle, name: str, key: str, value: float) -> None:
        """Change one parameter of a camera's lens. Raises ValueError: there is no such one."""
        if key not in DISTORTION_KEYS:
            raise ValueError(f"distortion has {', '.join(DISTORTION_KEYS)}, not {shown(key)}")
        self.find(vehicle, name).distortion[key] = value

    def distortion(self, vehicle: ServedVehicle, name: str) -> list[float]:
        """Return K1, K2, K3, P1, P2 of a camera."""
        return list(self.find(vehicle, name).distortion.values())

    def info(self, vehicle: ServedVehicle, name: str, T_world_body: Transform) -> AirsimCameraInfo:
        """Return pose, field of view and projection matrix of a camera."""
        camera = self.find(vehicle, name)
        capture = camera.capture(0)
        pose = pose_of(T_world_body @ camera.T_body_camera, vehicle.origin_m)
        return AirsimCameraInfo(pose, capture.fov_deg, ProjectionMatrix(_projection(capture)))

    def view(
        self,
        vehicle: ServedVehicle,
        name: str,
        image_type: int,
        modality: Modality,
        T_world_body: Transform,
        t_ns: int,
    ) -> View:
        """Return the view of a picture."""
        camera = self.find(vehicle, name)
        return View(
            camera=_model(
                f"{vehicle.name}/{name}/{image_type}", camera.capture(image_type), camera.distortion
            ),
            modality=modality,
            T_world_camera=self.optical_at(vehicle, name, T_world_body),
            t_pose_ns=t_ns,
            hide=(vehicle.actor,) if vehicle.actor else (),
        )

    def optical_at(
        self, vehicle: ServedVehicle, name: str, T_world_body: Transform, t_ns: int | None = None
    ) -> Transform:
        """Return the optical axes of a camera in the world, as it was mounted at an instant.

        None = now.
        """
        camera = self.find(vehicle, name)
        mount = camera.T_body_camera if t_ns is None else camera.mount_at(t_ns)
        return T_world_body @ mount @ _T_camera_optical

    def pose(self, vehicle: ServedVehicle, name: str, T_world_body: Transform) -> Pose:
        """Return a camera's pose relative to the vehicle's start."""
        return pose_of(self.transform(vehicle, name, T_world_body), vehicle.origin_m)

    def transform(self, vehicle: ServedVehicle, name: str, T_world_body: Transform) -> Transform:
        """Return a camera's pose in the world, x ahead and z up."""
        return T_world_body @ self.find(vehicle, name).T_body_camera


def _model(name: str, capture: CaptureSettings, distortion: Mapping[str, float]) -> CameraModel:
    """Return the camera of a picture; AirSim's field of view is horizontal."""
    f_px = 0.5 * capture.width_px / math.tan(0.5 * math.radians(capture.fov_deg))
    fov_y_rad = 2.0 * math.atan(0.5 * capture.height_px / f_px)
    lens = None
    if any(distortion.values()):
        k1, k2, k3, p1, p2 = distortion.values()
        lens = Distortion(LensModel.PLUMB_BOB, (k1, k2, p1, p2, k3))
    return CameraModel(name, capture.width_px, capture.height_px, fov_y_rad, distortion=lens)


def _projection(capture: CaptureSettings) -> list[list[float]]:
    """Return the projection of Unreal: reversed depth without a far plane, row by row."""
    x = 1.0 / math.tan(0.5 * math.radians(capture.fov_deg))
    y = x * capture.width_px / capture.height_px
    return [[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, 0.0, _NEAR_M], [0.0, 0.0, 1.0, 0.0]]
