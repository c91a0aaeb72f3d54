"""The renderer's side of the edge: settings and poses to views and actors, drawings to frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec import UNSET

from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.geometry import Transform
from vil_bridge.core.types import (
    DEPTH_NO_HIT,
    DEPTH_UNITS_PER_M,
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    Modality,
    RenderedImage,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_renderer.flightmare.axes import (
    T_CAMERA_OPTICAL,
    matrix_from_unity,
    pose_from_unity,
    swapped,
)
from vil_renderer.flightmare.codec import Part, colours_to_wire, depth_to_wire
from vil_renderer.flightmare.colours import colours_of_ids, flow_colours
from vil_renderer.flightmare.layout import Layer, Slot, slots_of
from vil_renderer.flightmare.messages import (
    EventCameraMessage,
    FlightmareCamera,
    FlightmareObject,
    LidarMessage,
    SceneMessage,
    Vec3,
)

_MODALITY_OF: Final = {
    Layer.COLOUR: Modality.RGB,
    Layer.EVENTS: Modality.RGB,
    Layer.DEPTH: Modality.DEPTH32,
    Layer.SEGMENTATION: Modality.INSTANCE,
    Layer.FLOW: Modality.FLOW,
}
_VEHICLE_SIZE_M: Final = (0.35, 0.35, 0.12)
_SMALLEST: Final = 0.01
"""Vehicles scaled to less are not drawn."""
_NO_HIT_M: Final = DEPTH_NO_HIT / DEPTH_UNITS_PER_M
_UNMOVED: Final[Vec3] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """One picture to make: its place in the frame and its view.

    ``events``: the event camera's parameters.
    """

    slot: Slot
    view: View
    events: EventCameraMessage | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Fan:
    """A lidar's rays: in the x-y plane of its axes, angles counter-clockwise from x.

    Attributes:
        vehicle: name of the one that carries it, which its rays pass.
        limit_m: reach; nothing within it is reported as 1 m more.
    """

    vehicle: str
    T_world_sensor: Transform
    start_rad: float
    end_rad: float
    beams: int
    limit_m: float


@dataclass(frozen=True, slots=True)
class Task:
    """A pose message as the renderer needs it.

    Attributes:
        vehicles: names in the order of the wire; those in ``checked`` want to know of collisions.
        fans: of each vehicle, None = it has no lidar.
        unset: IDs of the cameras whose ``T_BC`` is not a pose; they look from the body's origin
            along its y.
    """

    requests: tuple[ImageRequest, ...]
    snapshot: WorldSnapshot
    vehicles: tuple[str, ...]
    checked: frozenset[str]
    fans: tuple[Fan | None, ...]
    unset: frozenset[str] = frozenset()

    @property
    def views(self) -> tuple[View, ...]:
        """Return all pictures to draw."""
        return tuple(request.view for request in self.requests)


def read_scene(
    message: SceneMessage, settings: SceneMessage, stamp: int, fixtures: Sequence[ActorState] = ()
) -> Task:
    """Return what to draw for a pose message.

    A settings message can be checked by reading it as well.

    Args:
        message: it describes vehicles and cameras completely.
        settings: of them come the offset and, in the dialect of 2022, the objects that never move.
        stamp: number of the frame, taken for the scene's time.
        fixtures: further things that stand still.

    Raises:
        ProtocolError: a value makes no sense.
    """
    offset = np.array(
        swapped(_UNMOVED if settings.render_offset is UNSET else settings.render_offset)
    )
    slots = slots_of(message.vehicles)
    poses = [_moved(pose_from_unity(v.position, v.rotation), offset) for v in message.vehicles]
    actors = [
        _actor(v.ID, ActorKind.VEHICLE, pose, "", v.size, _VEHICLE_SIZE_M)
        for v, pose in zip(message.vehicles, poses, strict=True)
        if min(map(abs, v.size)) > _SMALLEST
    ]
    actors += fixtures
    actors += [_read_object(thing, offset) for thing in _objects(message, settings)]
    read = [_read_request(slot, message, poses[slot.vehicle], stamp) for slot in slots]
    requests = tuple(request for request, _ in read)
    if len({request.view.key for request in requests}) != len(requests):
        raise ProtocolError("two cameras have the same name and layer")
    return Task(
        requests=requests,
        snapshot=WorldSnapshot(stamp, tuple(actors)),
        vehicles=tuple(v.ID for v in message.vehicles),
        checked=frozenset(v.ID for v in message.vehicles if v.hasCollisionCheck),
        fans=tuple(
            _read_fan(v.ID, v.lidars[0], pose) if v.lidars else None
            for v, pose in zip(message.vehicles, poses, strict=True)
        ),
        unset=frozenset(request.view.camera.name for request, was_set in read if not was_set),
    )


def _objects(message: SceneMessage, settings: SceneMessage) -> list[FlightmareObject]:
    found: list[FlightmareObject] = []
    for some in (message.objects, settings.static_objects, message.dynamic_objects):
        if some is not UNSET:
            found += some
    return found


def _read_object(thing: FlightmareObject, offset_m: FloatArray) -> ActorState:
    pose = _moved(pose_from_unity(thing.position, thing.rotation), offset_m)
    return _actor(thing.ID, ActorKind.PROP, pose, thing.prefabID, thing.size, (1.0, 1.0, 1.0))


def _actor(
    name: str,
    kind: ActorKind,
    pose: Transform,
    prefab: str,
    scale: Vec3,
    size_m: tuple[float, float, float],
) -> ActorState:
    x, y, z = (abs(s) * m for s, m in zip(swapped(scale), size_m, strict=True))
    return ActorState(name, kind, TrackingState.TRACKED, 0, pose, None, prefab, (x, y, z))


def _moved(pose: Transform, offset_m: FloatArray) -> Transform:
    return Transform(pose.p_m + offset_m, pose.q_xyzw)


def _read_request(
    slot: Slot, message: SceneMessage, T_world_body: Transform, stamp: int
) -> tuple[ImageRequest, bool]:
    """Return the picture of a slot, and False when its camera's pose was never set.

    Flightlib leaves it as it was.
    """
    vehicle = message.vehicles[slot.vehicle]
    camera: FlightmareCamera | EventCameraMessage
    events: EventCameraMessage | None = None
    if slot.layer is Layer.EVENTS and vehicle.eventcameras is not UNSET:
        camera = events = vehicle.eventcameras[slot.camera]
    else:
        camera = vehicle.cameras[slot.camera]
    try:
        T_body_camera = matrix_from_unity(camera.T_BC)
        was_set = True
    except ProtocolError:
        T_body_camera = Transform.identity()
        was_set = False
    view = View(
        camera=CameraModel(camera.ID, slot.width_px, slot.height_px, math.radians(camera.fov)),
        modality=_MODALITY_OF[slot.layer],
        T_world_camera=T_world_body @ T_body_camera @ T_CAMERA_OPTICAL,
        t_pose_ns=stamp,
        collision=vehicle.hasCollisionCheck,
        hide=(vehicle.ID,),
    )
    return ImageRequest(slot, view, events), was_set


def _read_fan(vehicle: str, lidar: LidarMessage, T_world_body: Transform) -> Fan:
    T_world_sensor = T_world_body @ matrix_from_unity(lidar.T_BS)
    return Fan(
        vehicle,
        T_world_sensor,
        lidar.start_angle,
        lidar.end_angle,
        lidar.num_beams,
        lidar.max_distance,
    )


def write_picture(request: ImageRequest, images: Mapping[str, RenderedImage]) -> Part:
    """Return the image of a request in the form of the wire.

    Raises:
        RendererError: it was not drawn, or not in the size asked for.
    """
    image = images.get(request.view.key)
    if image is None:
        raise RendererError(f"{request.view.key!r} was not drawn")
    if image.pixels.shape[:2] != (request.slot.height_px, request.slot.width_px):
        raise RendererError(f"{request.view.key!r} was drawn in another size: {image.pixels.shape}")
    match request.slot.layer:
        case Layer.DEPTH:
            return depth_to_wire(image.pixels, request.slot.far_m, _NO_HIT_M)
        case Layer.SEGMENTATION:
            return colours_to_wire(colours_of_ids(image.pixels))
        case Layer.FLOW:
            return colours_to_wire(flow_colours(image.pixels, image.valid))
        case _:
            return colours_to_wire(image.pixels)
