"""The client's side of the edge: requests to settings and poses, frames to pictures.

The renderer's side is :mod:`convert_renderer`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    DEPTH_NO_HIT,
    DEPTH_UNITS_PER_M,
    ActorKind,
    ActorState,
    CameraModel,
    ImageArray,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    TrackingState,
    View,
)
from vil_bridge.protocols import opencv as cv2
from vil_renderer.flightmare.axes import T_CAMERA_OPTICAL, matrix_to_unity, pose_to_unity
from vil_renderer.flightmare.codec import Part, colours_from_wire, depth_from_wire
from vil_renderer.flightmare.colours import ids_of_colours
from vil_renderer.flightmare.layout import Layer, Slot, slots_of
from vil_renderer.flightmare.messages import (
    NO_OBJECTS,
    Dialect,
    FlightmareCamera,
    FlightmareHeader,
    FlightmareObject,
    SceneMessage,
    Vec3,
    VehicleMessage,
)

VIEWPOINT: Final = "vil_viewpoint"
"""Vehicle of the cameras that no vehicle carries, too small to be seen."""

_UNSEEN: Final[Vec3] = (1e-3, 1e-3, 1e-3)
_WHOLE: Final[Vec3] = (1.0, 1.0, 1.0)
_OUT_OF_SIGHT_M: Final[Vec3] = (0.0, -1000.0, 0.0)
_NEAR_M: Final = 0.01
_FAR_M: Final = (1000.0, 100.0, 1000.0, 1000.0)
_AGILE_LAYERS: Final = ("depth", "object_segment")
_T_OPTICAL_CAMERA: Final = T_CAMERA_OPTICAL.inverse()
_LAYER_OF: Final = {
    Modality.RGB: Layer.COLOUR,
    Modality.GRAY: Layer.COLOUR,
    Modality.DEPTH: Layer.DEPTH,
    Modality.DEPTH32: Layer.DEPTH,
    Modality.INSTANCE: Layer.SEGMENTATION,
}


@dataclass(frozen=True, slots=True)
class SceneSetup:
    """Part of the scene that the settings fix.

    A renderer needs new settings before any of it changes.

    Attributes:
        carriers: of each vehicle its name and cameras, every camera with its layers.
    """

    carriers: tuple[tuple[str, tuple[tuple[CameraModel, frozenset[Layer]], ...]], ...]


class SceneWriter:
    """Writer of the messages of one connection.

    A renderer never removes an object, so every ID is sent in all later messages: while its actor
    is lost or hidden it is 1000 m below the floor. Lost vehicles shrink to nothing.

    Attributes:
        without_prefab: names of actors that are not sent, since no model is named.
    """

    def __init__(
        self,
        dialect: Dialect,
        scene_id: int,
        prefabs: Mapping[ActorKind, str],
        object_csv: str = NO_OBJECTS,
    ) -> None:
        self._dialect = dialect
        self._object_csv = object_csv
        self._scene_id = scene_id
        self._prefabs = prefabs
        self._known: dict[str, str] = {}
        self.without_prefab: set[str] = set()

    def setup_of(self, request: RenderRequest) -> SceneSetup:
        """Return the part of a request that the settings fix.

        Raises:
            RendererError: there is no camera.
        """
        if not request.views:
            raise RendererError("a request without cameras")
        vehicles = [a.name for a in request.snapshot.actors if a.kind is ActorKind.VEHICLE]
        cameras: dict[str, tuple[CameraModel, set[Layer]]] = {}
        on: dict[str, list[str]] = {}
        for view in request.views:
            camera = view.camera
            if camera.name not in cameras:
                cameras[camera.name] = (camera, set())
                on.setdefault(_carrier(view, vehicles), []).append(camera.name)
            if view.modality in _LAYER_OF:
                cameras[camera.name][1].add(_LAYER_OF[view.modality])
        bare = [name for name in vehicles if name not in on]
        # The vehicle in the middle gives the layers their size, so that it must have a camera.
        middle = (len(bare) + len(on)) // 2
        order = [*bare[:middle], *on, *bare[middle:]]
        carriers = []
        for name in order:
            carried = [cameras[camera] for camera in on.get(name, ())]
            fixed = tuple((model, frozenset(layers)) for model, layers in carried)
            carriers.append((name, fixed))
        return SceneSetup(tuple(carriers))

    def message(
        self, setup: SceneSetup, request: RenderRequest, stamp: int | None = None
    ) -> SceneMessage:
        """Return the settings message, or with a stamp the pose message of that number.

        A pose repeats all of the settings: a renderer that has started over takes it for settings.
        """
        agile = self._dialect is Dialect.AGILE_AUTONOMY
        modern = self._dialect is Dialect.V2022
        # The program of 2022 stops at an object that was not in its settings.
        objects = self._objects(request, grow=stamp is None or not modern)
        message = SceneMessage(
            scene_id=self._scene_id, vehicles=self._vehicles(setup, request), vil=1
        )
        if stamp is not None:
            if agile:
                message.ntime = stamp
            else:
                message.frame_id = stamp
        if modern:
            message.static_objects = []
            message.dynamic_objects = objects
            message.render_offset = (0.0, 0.0, 0.0)
            message.object_csv = self._object_csv
        else:
            message.objects = objects
        return message

    def _vehicles(self, setup: SceneSetup, request: RenderRequest) -> list[VehicleMessage]:
        actors = {a.name: a for a in request.snapshot.actors}
        views = {view.camera.name: view for view in reversed(request.views)}
        checked = {view.camera.name for view in request.views if view.collision}
        written = []
        for name, cameras in setup.carriers:
            actor = actors.get(name)
            if actor is not None:
                pose = actor.T_world_body
                shown = actor.state is not TrackingState.LOST
            else:
                pose = views[cameras[0][0].name].T_world_camera @ _T_OPTICAL_CAMERA
                shown = False
            position, rotation = pose_to_unity(pose)
            written.append(
                VehicleMessage(
                    ID=name,
                    position=position,
                    rotation=rotation,
                    size=_WHOLE if shown else _UNSEEN,
                    cameras=[
                        self._camera(
                            i, model, layers, pose.inverse() @ views[model.name].T_world_camera
                        )
                        for i, (model, layers) in enumerate(cameras)
                    ],
                    hasCollisionCheck=actor is not None
                    or any(model.name in checked for model, _ in cameras),
                )
            )
        return written

    def _camera(
        self, index: int, model: CameraModel, layers: frozenset[Layer], T_body_optical: Transform
    ) -> FlightmareCamera:
        enabled = [layer in layers for layer in (Layer.DEPTH, Layer.SEGMENTATION, Layer.FLOW)]
        camera = FlightmareCamera(
            ID=model.name,
            width=model.width_px,
            height=model.height_px,
            fov=math.degrees(model.fov_y_rad),
            T_BC=matrix_to_unity(T_body_optical @ _T_OPTICAL_CAMERA),
            outputIndex=index,
        )
        if self._dialect is Dialect.AGILE_AUTONOMY:
            # Depth is the first layer of agile-autonomy, whatever its name.
            count = 0
            if enabled[1]:
                count = 2
            elif enabled[0]:
                count = 1
            camera.post_processing = [*_AGILE_LAYERS[:count]]
        else:
            camera.nearClipPlane = [_NEAR_M] * 4
            camera.farClipPlane = list(_FAR_M)
            camera.enabledLayers = enabled
        return camera

    def _objects(self, request: RenderRequest, grow: bool) -> list[FlightmareObject]:
        hidden = set[str]().union(*(view.hide for view in request.views if view.due))
        posed: dict[str, FlightmareObject] = {}
        for actor in request.snapshot.actors:
            prefab = actor.prefab or self._prefabs.get(actor.kind, "")
            if actor.kind is ActorKind.VEHICLE:
                continue
            if not prefab:
                self.without_prefab.add(actor.name)
                continue
            seen = actor.state is not TrackingState.LOST and actor.name not in hidden
            for name, pose in _bodies(actor):
                if grow:
                    self._known.setdefault(name, prefab)
                if seen and name in self._known:
                    position, rotation = pose_to_unity(pose)
                    posed[name] = FlightmareObject(
                        ID=name, prefabID=prefab, position=position, rotation=rotation
                    )
        return [
            posed.get(name)
            or FlightmareObject(
                ID=name, prefabID=prefab, position=_OUT_OF_SIGHT_M, rotation=(0.0, 0.0, 0.0, 1.0)
            )
            for name, prefab in self._known.items()
        ]


def _carrier(view: View, vehicles: Sequence[str]) -> str:
    """Return the vehicle that carries a camera: the one that it must not see."""
    return next((name for name in view.hide if name in vehicles), VIEWPOINT)


def _bodies(actor: ActorState) -> list[tuple[str, Transform]]:
    skeleton = actor.skeleton
    if skeleton is None:
        return [(actor.name, actor.T_world_body)]
    return [
        (f"{actor.name}/{bone}", Transform(skeleton.p_m[i], skeleton.q_xyzw[i]))
        for i, bone in enumerate(skeleton.model.bones)
    ]


# --- frames ---------------------------------------------------------------------------------------


def read_frame(
    header: FlightmareHeader,
    parts: Sequence[Part],
    vehicles: Sequence[VehicleMessage],
    request: RenderRequest,
    t_image_ns: int,
) -> tuple[RenderedFrame, list[str]]:
    """Return a frame as the answer to ``request``, and what is wrong with the pictures that had to
    be left out.

    Args:
        header: first part of the frame.
        parts: the others.
        vehicles: those of the settings, or of the pose that is answered.
        request: what it answers.
        t_image_ns: when it came.

    Raises:
        ProtocolError: number or size of the parts is not what the settings say.
    """
    slots = slots_of(vehicles)
    if len(parts) != sum(slot.parts for slot in slots) or len(header.pub_vehicles) != len(vehicles):
        raise ProtocolError(
            f"{len(parts)} pictures of {len(header.pub_vehicles)} vehicles came for "
            f"{len(slots)} of {len(vehicles)}"
        )
    found = {
        (vehicles[s.vehicle].cameras[s.camera].ID, s.layer): (s, p)
        for s, p in zip(slots, parts, strict=True)
    }
    images: list[RenderedImage] = []
    problems: list[str] = []
    for view in request.views:
        if not view.due:
            continue  # Flightmare draws every camera every time
        picture = _read_picture(view, found, ours=header.vil is not UNSET)
        if isinstance(picture, str):
            problems.append(f"{view.key!r}: {picture}")
        else:
            images.append(RenderedImage(view, picture))
    checked = {view.camera.name for view in request.views if view.collision and view.due}
    hit = any(
        state.collision and _carries_any(vehicle, checked)
        for state, vehicle in zip(header.pub_vehicles, vehicles, strict=True)
    )
    render_ns = None if header.vil is UNSET else header.vil.render_ns
    return RenderedFrame(
        request, t_image_ns, tuple(images), collision=hit, render_ns=render_ns
    ), problems


def _carries_any(vehicle: VehicleMessage, names: Collection[str]) -> bool:
    """Return whether a vehicle has a camera of one of these names."""
    return any(camera.ID in names for camera in vehicle.cameras)


def _read_picture(
    view: View, found: Mapping[tuple[str, Layer], tuple[Slot, Part]], ours: bool
) -> ImageArray | str:
    """Return the picture of a view, or why there is none."""
    camera = view.camera
    layer = _LAYER_OF.get(view.modality)
    if layer is None:
        return "Flightmare has no such modality"
    if camera.pinhole_px is not None or camera.distortion is not None:
        return "Flightmare draws ideal pinholes only"
    if layer is Layer.SEGMENTATION and not ours:
        return "the colours of Flightmare's segmentation are no instance ids"
    slot, data = found[camera.name, layer]
    if (slot.width_px, slot.height_px) != (camera.width_px, camera.height_px):
        return (
            f"layers come in {slot.width_px}x{slot.height_px}: give all cameras of this "
            "connection one size"
        )
    if layer is Layer.DEPTH:
        if len(data) == 3 * slot.width_px * slot.height_px:
            return "its depth has 8 bits: this program is older than November 2020"
        return _depth_of(
            view.modality,
            depth_from_wire(data, slot.width_px, slot.height_px) * np.float32(slot.far_m),
        )
    colours = colours_from_wire(data, slot.width_px, slot.height_px)
    if layer is Layer.SEGMENTATION:
        return ids_of_colours(colours)
    if view.modality is Modality.GRAY:
        return np.asarray(cv2.cvtColor(np.ascontiguousarray(colours), cv2.COLOR_RGB2GRAY))
    return colours


def _depth_of(modality: Modality, depth_m: npt.NDArray[np.float32]) -> ImageArray:
    if modality is Modality.DEPTH32:
        return np.asarray(np.minimum(depth_m, np.float32(DEPTH_NO_HIT / DEPTH_UNITS_PER_M)))
    units = depth_m * np.float32(DEPTH_UNITS_PER_M) + np.float32(0.5)
    return np.asarray(np.minimum(units, np.float32(DEPTH_NO_HIT)).astype(np.uint16))
