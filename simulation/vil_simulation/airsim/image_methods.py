"""Methods of cameras and pictures.

All pictures of a call show the instant at which it was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import Modality, RenderedImage, View
from vil_bridge.interfaces.scene_queries import PictureBefore
from vil_simulation.airsim.cameras import ServedCameras
from vil_simulation.airsim.methods import method
from vil_simulation.airsim.msgpack_rpc import Packed
from vil_simulation.airsim.pictures import NO_FLOATS, bgr_of, floats_of, modality_of, png_of
from vil_simulation.airsim.quantities import FieldOfView, LensParameter
from vil_simulation.airsim.scene import ServedScene
from vil_simulation.airsim.values import (
    AirsimCameraInfo,
    AirsimImageRequest,
    GivenPose,
    ImageResponse,
)
from vil_simulation.airsim.vehicles import ServedVehicle, ServedVehicles

_MOST_PICTURES: Final = 64
_AT_ONCE: Final = 4
"""Views that are prepared without other clients' turns between."""
_MOST_PX: Final = 1 << 25
_INLINE_PX: Final = 1 << 13
"""Pictures up to this size are converted in the loop, within half a millisecond."""


class ImageMethods:
    """Pictures, and the cameras that they are of.

    Args:
        frame_s: returns the simulated time from one frame of the world to the next; flow looks back
            so far.
    """

    def __init__(
        self,
        vehicles: ServedVehicles,
        cameras: ServedCameras,
        scene: ServedScene,
        frame_s: Callable[[], float],
    ) -> None:
        self._vehicles = vehicles
        self._frame_s = frame_s
        self._cameras = cameras
        self._scene = scene

    @method("simGetImages")
    async def get_images(
        self, requests: list[AirsimImageRequest], vehicle_name: str = "", external: bool = False
    ) -> list[ImageResponse]:
        """Return pictures in the order of the requests, all of one instant."""
        answers = await self.images(requests, vehicle_name, external)
        return [
            msgspec.structs.replace(answer, image_data_uint8=Packed.bin(answer.image_data_uint8))
            for answer in answers
        ]

    async def images(
        self, requests: list[AirsimImageRequest], vehicle_name: str = "", external: bool = False
    ) -> list[ImageResponse]:
        """Return pictures in the order of the requests, all of one instant."""
        if len(requests) > _MOST_PICTURES:
            raise ValueError(f"at most {_MOST_PICTURES} pictures a call, not {len(requests)}")
        if not requests:
            return []
        vehicle = self._owner(vehicle_name, external=external)
        snapshot = self._vehicles.snapshot()
        T_world_body = self._cameras.pose_of_owner(vehicle, snapshot)
        views = []
        answers = []
        for request in requests:
            views.append(self._view(vehicle, request, T_world_body, snapshot.t_ns))
            answers.append(self._answer(vehicle, request, T_world_body, snapshot.t_ns))
            if len(views) % _AT_ONCE == 0:
                await asyncio.sleep(0)
        total_px = sum(view.camera.width_px * view.camera.height_px for view in views)
        if total_px > _MOST_PX:
            raise ValueError(f"at most {_MOST_PX} pixels a call, not {total_px}")
        shows_flow = any(view.modality is Modality.FLOW for view in views)
        before = self._before(vehicle, requests, snapshot.t_ns) if shows_flow else None
        try:
            images = await self._scene.images(views, snapshot, before)
        except RendererError as exc:
            return [msgspec.structs.replace(answer, message=str(exc)) for answer in answers]
        ids = (
            await self._scene.id_table()
            if any(r.image_type in (5, 7) for r in requests)
            else np.zeros(1, np.int16)
        )
        if total_px <= _INLINE_PX:
            return [_filled(a, i, ids) for a, i in zip(answers, images, strict=True)]
        return await asyncio.to_thread(
            lambda: [_filled(a, i, ids) for a, i in zip(answers, images, strict=True)]
        )

    @method("simGetImage")
    async def image(
        self,
        camera_name: str,
        image_type: int,
        vehicle_name: str = "",
        external: bool | str = False,
    ) -> Packed:
        """Return a picture as PNG; one zero byte = none.

        Cosys-AirSim sends the name of an annotation last.
        """
        request = AirsimImageRequest(camera_name, image_type)
        answers = await self.images([request], vehicle_name, external is True)
        return Packed.bin(answers[0].image_data_uint8 or b"\0")

    @method("simGetCameraInfo")
    def camera_info(
        self, camera_name: str, vehicle_name: str = "", external: bool = False
    ) -> AirsimCameraInfo:
        """Return pose and field of view of a camera."""
        owner = self._owner(vehicle_name, external=external)
        return self._cameras.info(
            owner, camera_name, self._cameras.pose_of_owner(owner, self._vehicles.snapshot())
        )

    @method("simSetCameraPose")
    def set_camera_pose(
        self, camera_name: str, pose: GivenPose, vehicle_name: str = "", external: bool = False
    ) -> None:
        """Mount a camera elsewhere: on its vehicle, or an external one in the world."""
        owner = self._owner(vehicle_name, external=external)
        self._cameras.set_pose(owner, camera_name, pose, self._vehicles.snapshot().t_ns)

    @method("simSetCameraFov")
    def set_camera_fov(
        self,
        camera_name: str,
        fov_degrees: FieldOfView,
        vehicle_name: str = "",
        external: bool = False,
    ) -> None:
        """Change a camera's field of view."""
        self._cameras.set_fov(
            self._owner(vehicle_name, external=external), camera_name, fov_degrees
        )

    @method("simGetDistortionParams")
    def distortion(
        self, camera_name: str, vehicle_name: str = "", external: bool = False
    ) -> list[float]:
        """Return K1, K2, K3, P1, P2."""
        return self._cameras.distortion(self._owner(vehicle_name, external=external), camera_name)

    @method("simSetDistortionParam")
    def set_distortion(
        self,
        camera_name: str,
        name: str,
        value: LensParameter,
        vehicle_name: str = "",
        external: bool = False,
    ) -> None:
        """Change one parameter of a camera's lens."""
        self._cameras.set_distortion(
            self._owner(vehicle_name, external=external), camera_name, name, value
        )

    def _owner(self, vehicle_name: str, *, external: bool) -> ServedVehicle:
        return self._cameras.owner(self._vehicles, vehicle_name, external=external)

    def _view(
        self,
        vehicle: ServedVehicle,
        request: AirsimImageRequest,
        T_world_body: Transform,
        t_ns: int,
    ) -> View:
        modality = modality_of(request.image_type)
        return self._cameras.view(
            vehicle, request.camera_name, request.image_type, modality, T_world_body, t_ns
        )

    def _before(
        self, vehicle: ServedVehicle, requests: Sequence[AirsimImageRequest], t_ns: int
    ) -> PictureBefore:
        """Return the frame before the one at an instant, drawn or not.

        The world then, and each camera.

        What was put elsewhere since then, or up to half a frame earlier, is in its old place: a
        program that places a vehicle and steps by a frame sees the way, though states are further
        apart than a frame is long.
        """
        frame_ns = round(NS_PER_S * self._frame_s())
        before_ns = t_ns - frame_ns
        slack_ns = frame_ns // 2
        snapshot = self._vehicles.snapshot_at(before_ns, slack_ns)
        T_world_body = self._cameras.pose_of_owner(vehicle, snapshot)
        mounted_ns = before_ns - slack_ns
        cameras = (
            self._cameras.optical_at(vehicle, r.camera_name, T_world_body, mounted_ns)
            for r in requests
        )
        return PictureBefore(snapshot, tuple(cameras))

    def _answer(
        self,
        vehicle: ServedVehicle,
        request: AirsimImageRequest,
        T_world_body: Transform,
        t_ns: int,
    ) -> ImageResponse:
        pose = self._cameras.pose(vehicle, request.camera_name, T_world_body)
        return ImageResponse(
            image_data_uint8=b"",
            image_data_float=NO_FLOATS,
            camera_name=request.camera_name,
            camera_position=pose.position,
            camera_orientation=pose.orientation,
            time_stamp=self._vehicles.utc_ns(t_ns),
            message="",
            pixels_as_float=request.pixels_as_float,
            compress=request.compress,
            width=0,
            height=0,
            image_type=request.image_type,
        )


def _filled(
    answer: ImageResponse, image: RenderedImage, ids: npt.NDArray[np.int16]
) -> ImageResponse:
    """Return an answer with its picture."""
    kind = answer.image_type
    pixels = image.pixels
    camera = image.view.camera
    answer.height, answer.width = pixels.shape[:2]
    if answer.pixels_as_float:
        answer.image_data_float = floats_of(kind, pixels, camera, ids)
    elif answer.compress:
        answer.image_data_uint8 = png_of(kind, pixels, camera, ids)
    else:
        answer.image_data_uint8 = bgr_of(kind, pixels, camera, ids)
    return answer
