"""The values that Flightmare messages hold, named as on the wire.

The structures are unions of the keys of all dialects: unknown keys are skipped, keys that only some
dialects send have defaults. Positions, attitudes, sizes and matrices are in Unity's left-handed
y-up axes, except where a text says otherwise; :mod:`axes` maps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

MAX_VEHICLES: Final = 256
MAX_CAMERAS: Final = 64
"""Of one vehicle."""
MAX_OBJECTS: Final = 4096
MAX_BEAMS: Final = 4096
MAX_SIDE_PX: Final = 8192
MAX_IMAGE_BYTES: Final = 64 << 20
"""Largest picture: 4096 x 4096 pixels of depth."""
MAX_PARTS: Final = 2 + 4 * MAX_VEHICLES * MAX_CAMERAS
NO_OBJECTS: Final = "/dev/null"
"""An ``object_csv`` without a line, which the program of 2022 can open.

It dies of an empty path.
"""
LAYERS: Final = 3
"""After the colours: depth, segmentation, optical flow, always in this order."""

Vec3: TypeAlias = tuple[float, float, float]
Quat: TypeAlias = tuple[float, float, float, float]
Matrix: TypeAlias = Annotated[Sequence[float | None], Meta(min_length=16, max_length=16)]
"""A 4x4 matrix, row by row. None is a number that is not finite: JSON writes ``null``."""
_Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Side: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_SIDE_PX)]
_Fov: TypeAlias = Annotated[float, Meta(ge=0.01, lt=180.0)]
_Name: TypeAlias = Annotated[str, Meta(max_length=256)]
_Path: TypeAlias = Annotated[str, Meta(max_length=4096)]
_Planes: TypeAlias = Annotated[list[float], Meta(min_length=4, max_length=4)]
_Positive: TypeAlias = Annotated[float, Meta(gt=0.0, le=1e6)]
_Angle: TypeAlias = Annotated[float, Meta(ge=-100.0, le=100.0)]
_Floats: TypeAlias = Annotated[list[float], Meta(max_length=3)]


class Dialect(StrEnum):
    """Versions of the protocol that differ on the wire, named after their repositories'
    branches.
    """

    MASTER = "master"
    V2022 = "2022"
    EVENT_CAMERA = "event_camera"
    AGILE_AUTONOMY = "agile_autonomy"
    AVOIDBENCH = "avoidbench"


class _AnyCamera(Struct, kw_only=True):
    """Properties of cameras of both kinds; ``fov`` is vertical, degrees.

    ``T_BC`` places it on the body.
    """

    ID: _Name
    channels: int = 3
    width: _Side
    height: _Side
    fov: _Fov
    T_BC: Matrix
    isDepth: bool = False
    depthScale: float = 0.2
    outputIndex: int = 0


class FlightmareCamera(_AnyCamera, kw_only=True):
    """One camera; clip planes in the order colour, depth, segmentation, flow, metres.

    ``post_processing`` stands for ``enabledLayers`` in agile-autonomy: names, the first one means
    depth.
    """

    nearClipPlane: _Planes | UnsetType = UNSET
    farClipPlane: _Planes | UnsetType = UNSET
    enabledLayers: Annotated[list[bool], Meta(max_length=LAYERS)] | UnsetType = UNSET
    post_processing: Annotated[list[_Name], Meta(max_length=LAYERS)] | UnsetType = UNSET


class EventCameraMessage(_AnyCamera, kw_only=True):
    """An event camera.

    Contrast thresholds (mean and deviation), refractory period, and log(eps + I).
    """

    Cm: float = 0.1
    Cp: float = 0.1
    sigma_Cm: float = 0.0
    sigma_Cp: float = 0.0
    refractory_period_ns: _Int64 = 0
    log_eps: float = 1e-4


class LidarMessage(Struct, kw_only=True):
    """A fan of rays, angles in radians."""

    ID: _Name = ""
    num_beams: Annotated[int, Meta(ge=1, le=MAX_BEAMS)] = 10
    max_distance: _Positive = 10.0
    start_angle: _Angle = -1.5707963267948966
    end_angle: _Angle = 1.5707963267948966
    T_BS: Matrix


class VehicleMessage(Struct, kw_only=True):
    """A vehicle and what it carries; ``size`` scales the model."""

    ID: _Name
    position: Vec3
    rotation: Quat
    size: Vec3 = (1.0, 1.0, 1.0)
    cameras: Annotated[list[FlightmareCamera], Meta(max_length=MAX_CAMERAS)] = []
    eventcameras: Annotated[list[EventCameraMessage], Meta(max_length=MAX_CAMERAS)] | UnsetType = (
        UNSET
    )
    lidars: Annotated[list[LidarMessage], Meta(max_length=MAX_CAMERAS)] = []
    hasCollisionCheck: bool = True


class FlightmareObject(Struct, kw_only=True):
    """A rigid model, moved by its pose; it never disappears."""

    ID: _Name
    prefabID: _Name
    position: Vec3
    rotation: Quat
    size: Vec3 = (1.0, 1.0, 1.0)
    opacity: float | UnsetType = UNSET


class ClutterMessage(Struct, kw_only=True):
    """Random obstacles or trees of AvoidBench."""

    name: _Name = ""
    bounding_area: _Floats = []
    bounding_origin: _Floats = []
    radius: float = 0.0
    seed: int = 0
    scale_min: _Floats = []
    scale_max: _Floats = []
    opacity: float | UnsetType = UNSET


_Objects: TypeAlias = Annotated[list[FlightmareObject], Meta(max_length=MAX_OBJECTS)]


class SceneMessage(Struct, kw_only=True):
    """Settings and pose alike: what stands where, and who looks at it from where.

    One with ``frame_id`` (``ntime`` in agile-autonomy) is a pose, one without is a settings
    message. ``vil`` is our own key: the client knows that it may be answered with keys of ours.
    """

    scene_id: int = 0
    frame_id: _Int64 | UnsetType = UNSET
    ntime: _Int64 | UnsetType = UNSET
    vehicles: Annotated[list[VehicleMessage], Meta(min_length=1, max_length=MAX_VEHICLES)]
    objects: _Objects | UnsetType = UNSET
    static_objects: _Objects | UnsetType = UNSET
    dynamic_objects: _Objects | UnsetType = UNSET
    render_offset: Vec3 | UnsetType = UNSET
    object_csv: _Path | UnsetType = UNSET
    object_message: ClutterMessage | UnsetType = UNSET
    tree_message: ClutterMessage | UnsetType = UNSET
    spawn_new_obj: bool | UnsetType = UNSET
    vil: int | UnsetType = UNSET

    @property
    def stamp(self) -> int | None:
        """Return the number that the answer repeats; None in a settings message."""
        if self.frame_id is not UNSET:
            return self.frame_id
        return None if self.ntime is UNSET else self.ntime


class PointCloudMessage(Struct, kw_only=True):
    """A box to write as a point cloud: lengths, centre and cell in metres, **z up**."""

    range: Vec3 = (20.0, 20.0, 20.0)
    origin: Vec3 = (0.0, 0.0, 0.0)
    resolution: _Positive = 0.15
    path: _Path = "point_clouds_data/"
    file_name: _Name = "default"


class CollisionCheckMessage(Struct, kw_only=True):
    """AvoidBench asks whether a vehicle fits at a point (z up)."""

    checked_point: Vec3
    drone_width: _Positive = 0.8
    if_start_point: bool = False


class ReadyMessage(Struct, kw_only=True):
    """The renderer has made its scene and cameras."""

    ready: bool


class VehicleStateMessage(Struct, kw_only=True):
    """State of one vehicle in a frame."""

    collision: bool
    lidar_ranges: Annotated[list[float], Meta(max_length=MAX_BEAMS)]
    scene_change_feedback: bool | UnsetType = UNSET


class FrameExtension(Struct, kw_only=True):
    """Our key in a frame.

    Who drew it, how long that took, and what of this client was refused so far.
    """

    renderer: _Name
    render_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    refused: _Path = ""


class FlightmareHeader(Struct, kw_only=True):
    """First part of a frame; ``vil`` goes only to clients that sent it."""

    frame_id: _Int64 | UnsetType = UNSET
    ntime: _Int64 | UnsetType = UNSET
    pub_vehicles: Annotated[list[VehicleStateMessage], Meta(max_length=MAX_VEHICLES)]
    scene_change_feedback: bool | UnsetType = UNSET
    vil: FrameExtension | UnsetType = UNSET

    @property
    def stamp(self) -> int | None:
        """Return the frame's number; None when there is none."""
        if self.frame_id is not UNSET:
            return self.frame_id
        return None if self.ntime is UNSET else self.ntime


class PointCloudStateMessage(Struct, kw_only=True):
    """Second part of an AvoidBench frame."""

    get_pc_msg: bool
    save_pc_success: bool


class CollisionStateMessage(Struct, kw_only=True):
    """AvoidBench's answer to :class:`CollisionCheckMessage`."""

    get_msg: bool
    if_collision: bool
    new_point: Vec3


class EventMessage(Struct, kw_only=True):
    """One event: pixel from the top left, polarity +1 or -1, time in nanoseconds."""

    coord_x: int
    coord_y: int
    polarity: int
    time: float


class EventsMessage(Struct, kw_only=True):
    """Second part of an event camera."""

    events: list[EventMessage]


class TimeMessage(Struct, kw_only=True):
    """Third part of an event camera, nanoseconds."""

    current_time: _Int64
    next_timestep: _Int64
    rgb_frame: bool
