"""Values that travel between the rooms of the bridge.

Conventions (docs/concepts/conventions.md): world ENU, body FLU, camera optical EDN, metres,
radians, integer nanoseconds of the bridge's monotonic clock, quaternions Hamilton with the scalar
last. Arrays are float64 unless a field says otherwise; values are never modified after they are
emitted. (Most are frozen. The two that are made a thousand times a second are not: freezing triples
what that costs.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from vil_bridge.core.camera_model import CameraModel
from vil_bridge.core.geometry import Transform, q_mul
from vil_bridge.core.near_surface import NearSurface
from vil_bridge.core.sensor_readings import SensorReadings
from vil_bridge.core.tracking import ActorKind, TrackingState
from vil_bridge.core.weather import Weather

__all__ = [
    "DEPTH_NO_HIT",
    "DEPTH_UNITS_PER_M",
    "ActorKind",
    "ActorState",
    "BoolArray",
    "CameraModel",
    "ClockExchange",
    "FloatArray",
    "ImageArray",
    "ImuSample",
    "LampState",
    "Landmark",
    "Lighting",
    "Markers",
    "Modality",
    "MotionFrame",
    "RenderRequest",
    "RenderedFrame",
    "RenderedImage",
    "SkeletonFrame",
    "SkeletonModel",
    "SourceEvent",
    "SourceFrame",
    "SourceReset",
    "Stamps",
    "TrackingState",
    "View",
    "WorldSnapshot",
]

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
ImageArray = npt.NDArray[Any]


class Modality(StrEnum):
    """Content of an image; top row first, shapes (h, w) or (h, w, channels).

    RGB, GRAY, RGBA: uint8, display values; RGBA is premultiplied, alpha 0 where the view's layer
    has nothing. DEPTH: uint16 z-depth, metres x 655.35, 65535 = 100 m or no hit. DEPTH32: float32
    z-depth, metres, 100 = no hit. NORMALS: float16 (h, w, 3), optical axes of the camera, 0 = no
    surface. SEMANTIC, INSTANCE: uint16 ids, 0 = none. FLOW: float32 (h, w, 2), pixels, x right, y
    down: motion of the surface point from the camera's previous picture to this one, at the pixel
    where it is now; 0 where :attr:`RenderedImage.valid` is False.
    """

    RGB = "rgb"
    GRAY = "gray"
    DEPTH = "depth"
    DEPTH32 = "depth32"
    NORMALS = "normals"
    SEMANTIC = "semantic"
    INSTANCE = "instance"
    FLOW = "flow"
    RGBA = "rgba"


DEPTH_UNITS_PER_M: Final = 655.35
DEPTH_NO_HIT: Final = 65535


# --- what sources emit -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SkeletonModel:
    """Names and hierarchy of a skeleton; ``parents[i] == -1`` marks the root.

    Attributes:
        bones: bone names, length m, a parent always before its children.
        parents: index of each bone's parent, length m.
        offsets_m: shape (m, 3), each bone's origin in its parent's axes at rest, the subject's
            scale applied.
        scale: the subject's size relative to the system's template, 1 where unknown.
    """

    name: str
    bones: tuple[str, ...]
    parents: tuple[int, ...]
    offsets_m: FloatArray
    scale: float = 1.0


@dataclass(slots=True)
class SkeletonFrame:
    """One skeleton in one frame.

    Attributes:
        p_m: shape (m, 3), bone origins, *global* (not relative to the parent), frame of the holder.
        q_xyzw: shape (m, 4), bone attitudes, global.
        tracked: shape (m,).
    """

    model: SkeletonModel
    p_m: FloatArray
    q_xyzw: FloatArray
    tracked: BoolArray

    def moved(self, T_a_b: Transform) -> SkeletonFrame:
        """Return the same in frame a, when this one is in frame b."""
        return SkeletonFrame(
            self.model, T_a_b.apply(self.p_m), q_mul(T_a_b.q_xyzw, self.q_xyzw), self.tracked
        )


@dataclass(frozen=True, slots=True)
class Markers:
    """Single markers of one frame, room frame.

    Attributes:
        labels: ``subject/marker`` of each, empty for an unlabeled one, length k.
        p_m: shape (k, 3). tracked: shape (k,), False while occluded.
    """

    labels: tuple[str, ...]
    p_m: FloatArray
    tracked: BoolArray


@dataclass(slots=True)
class SourceFrame:
    """All subjects of one mocap frame, in the room frame (z up, metres).

    Attributes:
        t_foreign_ns: capture time (mid-exposure where known) in the source's own clock; None =
            unknown.
        latency_ns: what the source knows of the time from capture to transmission; only one-way
            stamps need it, to take the known part of the delay out of (arrival - stamp).
        t_arrival_ns: bridge clock, taken before parsing.
        subjects: rigid body names, length n.
        p_m: shape (n, 3). q_xyzw: shape (n, 4). tracked: shape (n,).
    """

    source: str
    frame_number: int
    t_foreign_ns: int | None
    t_arrival_ns: int
    subjects: tuple[str, ...]
    p_m: FloatArray
    q_xyzw: FloatArray
    tracked: BoolArray
    skeletons: tuple[SkeletonFrame, ...] = ()
    markers: Markers | None = None
    latency_ns: int = 0


@dataclass(frozen=True, slots=True)
class ClockExchange:
    """One two-way clock exchange: sent and received in bridge time, answered in foreign time."""

    source: str
    t_sent_ns: int
    t_foreign_ns: int
    t_received_ns: int


@dataclass(frozen=True, slots=True)
class ImuSample:
    """One inertial sample in the IMU's FLU axes.

    Attributes:
        source: its source, or ``SOURCE/SUBJECT`` where that has several.
        t_foreign_ns: the sensor's own stamp, None = unknown.
        w_radps: shape (3,), angular rate. f_mps2: shape (3,), specific force (+g on z at rest).
    """

    source: str
    t_foreign_ns: int | None
    t_arrival_ns: int
    w_radps: FloatArray
    f_mps2: FloatArray


@dataclass(frozen=True, slots=True)
class SourceReset:
    """The source restarted, looped or changed its clock: histories start over.

    Attributes:
        clock: the clock fit starts over too; False when the source's clock went on.
        subjects: bodies that were put elsewhere, whose histories alone start over; empty = all.
    """

    source: str
    reason: str
    clock: bool = True
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MotionFrame:
    """True motion of a room's subjects at one instant, room frame (z up): drives the emulators.

    Attributes:
        p_m: shape (n, 3). q_xyzw: shape (n, 4). tracked: shape (n,), False while occluded.
    """

    subjects: tuple[str, ...]
    p_m: FloatArray
    q_xyzw: FloatArray
    tracked: BoolArray
    skeletons: tuple[SkeletonFrame, ...] = ()
    markers: Markers | None = None


SourceEvent = SourceFrame | ClockExchange | ImuSample | SensorReadings | SourceReset


# --- what the world answers --------------------------------------------------------------------


@dataclass(slots=True)
class ActorState:
    """An actor at one instant, in the world frame: a value, which code does not change.

    Attributes:
        age_ns: instant asked for minus capture time of the newest *tracked* pose; None = never
            seen.
        skeleton: world poses of a human's bones, None for rigid actors.
        prefab: name of the renderer's model; for humans the model used for every segment.
        size_m: bounding box (x, y, z) in body axes.
    """

    name: str
    kind: ActorKind
    state: TrackingState
    age_ns: int | None
    T_world_body: Transform
    skeleton: SkeletonFrame | None = None
    prefab: str = ""
    size_m: tuple[float, float, float] = (0.3, 0.3, 0.1)


@dataclass(frozen=True, slots=True)
class LampState:
    """A lamp changed at run time.

    Its light is the scene's times ``power`` times ``colour`` (linear RGB).
    """

    power: float = 1.0
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Lighting:
    """Light and weather that differ from the scene's own.

    Attributes:
        time_of_day_h: local solar time, hours 0..24, moves the sun; None = the scene's sun.
        lamps: by the name that the scene gives them; those not named stay as they are.
        weather: None = the scene's.
    """

    time_of_day_h: float | None = None
    lamps: Mapping[str, LampState] = field(default_factory=dict)
    weather: Weather | None = None


@dataclass(frozen=True, slots=True)
class WorldSnapshot:
    """All actors at ``t_ns``, and the light if it was changed."""

    t_ns: int
    actors: tuple[ActorState, ...]
    lighting: Lighting | None = None


@dataclass(frozen=True, slots=True)
class View:
    """One image asked of a renderer.

    A camera, a modality, a pose and the time that the pose is for.

    Attributes:
        T_world_camera: optical axes (x right, y down, z forward) in the world.
        t_pose_ns: instant the pose is (predicted) for.
        due: False keeps the camera in the request's list without asking for its picture now.
        pose_method: how the pose was found (``inertial``, ``constant-twist``, ``measured``...).
        hide: names of actors not drawn in this view: a vehicle must not hide its own camera.
        layer: draw only what the scene assigns to this layer (``actors`` = all that moves); empty =
            all.
        reach_m: report the surfaces this near to the camera; 0 = none.
    """

    camera: CameraModel
    modality: Modality
    T_world_camera: Transform
    t_pose_ns: int
    due: bool = True
    collision: bool = False
    hide: tuple[str, ...] = ()
    pose_method: str = ""
    layer: str = ""
    reach_m: float = 0.0

    @property
    def key(self) -> str:
        """Name on the wire, unique for camera and modality."""
        if self.modality is Modality.RGB:
            return self.camera.name
        return f"{self.camera.name}/{self.modality}"


@dataclass(frozen=True, slots=True)
class RenderRequest:
    """One message to a renderer: all its cameras (constant order and length) and all actors.

    Attributes:
        frame_id: unique, increasing, positive; travels as ``ntime``.
        t_capture_ns, t_arrival_ns: of the newest pose behind the first due view; None = no pose
            yet.
    """

    frame_id: int
    t_request_ns: int
    views: tuple[View, ...]
    snapshot: WorldSnapshot
    t_capture_ns: int | None = None
    t_arrival_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Landmark:
    """An IR beacon seen by a camera: pixel coordinates (OpenCV) and z-depth in metres."""

    name: str
    u_px: float
    v_px: float
    depth_m: float


@dataclass(frozen=True, slots=True)
class RenderedImage:
    """Pixels of one view, top row first (possibly a strided view of the wire's buffer, uncopied).

    Attributes:
        pixels: as :class:`Modality` says.
        valid: of flow, shape (h, w): where it is known; None = the modality has no such mask.
    """

    view: View
    pixels: ImageArray
    valid: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class RenderedFrame:
    """A renderer's answer to one request.

    Attributes:
        range_m: downward range finder, None when unknown or nothing was hit.
        render_ns: render time, None when unknown. near: likewise, within their reach.
        tone_curve: pictures have that of :mod:`~.tone_curve`.
    """

    request: RenderRequest
    t_image_ns: int
    images: tuple[RenderedImage, ...]
    collision: bool = False
    landmarks: tuple[Landmark, ...] = ()
    range_m: float | None = None
    render_ns: int | None = None
    near: tuple[NearSurface, ...] | None = None
    tone_curve: bool = False


@dataclass(slots=True)
class Stamps:
    """The frame ledger's stamps of one image, bridge clock; None = not reached or unknown.

    Attributes:
        output: the picture was complete and went to every output; an onboard reader's is encoded
            after that.
    """

    capture: int | None = None
    arrival: int | None = None
    request: int | None = None
    image: int | None = None
    warp: int | None = None
    encode: int | None = None
    send: int | None = None
    received: int | None = None
    output: int | None = None
