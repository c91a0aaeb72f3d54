"""The renderer's side of the edge: pose messages to views and actors, drawings to answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from vil_bridge.core.camera_model import NO_EFFECTS, Distortion, Effects, LensModel
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.geometry import (
    Transform,
    enu_flu_to_unity,
    q_normalize,
    unity_to_enu_flu,
    unity_to_flu,
    unity_to_optical,
)
from vil_bridge.core.near_surface import NearSurface
from vil_bridge.core.types import (
    DEPTH_NO_HIT,
    DEPTH_UNITS_PER_M,
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    ImageArray,
    LampState,
    Landmark,
    Lighting,
    Modality,
    RenderedImage,
    SkeletonFrame,
    SkeletonModel,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_bridge.core.weather import Weather
from vil_bridge.optics.pixel_formats import FORMAT_OF, GRAY8, RGB8, PixelFormat
from vil_renderer.colour_views import (
    depth_to_grey,
    flow_to_colour,
    ids_to_colour,
    normals_to_colour,
)
from vil_renderer.flightgoggles.convert import SHADER_OF
from vil_renderer.flightgoggles.messages import (
    EXTENSION_VERSION,
    MAX_ANSWER_BYTES,
    MAX_IMAGE_BYTES,
    NO_RETURN_M,
    AnswerExtension,
    DistortionMessage,
    EffectsMessage,
    ExtendedCamera,
    ExtendedSkeleton,
    FlightGogglesCamera,
    FlightGogglesObject,
    ImageHeader,
    LandmarkMessage,
    LightingMessage,
    PoseExtension,
    PoseMessage,
    Quat,
    SurfaceMessage,
    Vec3,
    WeatherMessage,
)
from vil_renderer.flightgoggles.pictures import PixelImage

_COMPRESSED_DEPTH: Final = 2
_MODALITY_OF: Final[Mapping[int, str]] = {
    shader: modality for modality, shader in SHADER_OF.items()
} | {_COMPRESSED_DEPTH: Modality.DEPTH}
_MODALITIES: Final = {modality.value: modality for modality in Modality}
_KINDS: Final = {kind.value: kind for kind in ActorKind}
_LENSES: Final = {lens.value: lens for lens in LensModel}
_COEFFICIENTS: Final = {LensModel.PLUMB_BOB: 5, LensModel.EQUIDISTANT: 4}
_CHANNELS_OF: Final = {Modality.GRAY: 1, Modality.DEPTH: 2, Modality.RGBA: 4}
_COLOURS: Final = 3
_UNKNOWN: Final = "unknown"
_NO_TURN: Final = np.array((0.0, 0.0, 0.0, 1.0))
_V1_FAR_M: Final = 1000.0
_V1_LEAST_SCALE: Final = 1e-3
_LARGEST: Final = 1e7
"""Bound of received coordinates (m) and quaternion components, so that products stay finite."""


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """Result of one request to a renderer.

    Attributes:
        images: of the due views, each with the :class:`View` that was handed in.
        range_m: downward range, None = nothing within 20 m. near: surfaces, None = not available.
        info: of the renderer, for the status; ``renderer`` is its name.
    """

    images: tuple[RenderedImage, ...]
    collision: bool = False
    landmarks: tuple[Landmark, ...] = ()
    range_m: float | None = None
    info: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)
    near: Sequence[NearSurface] | None = None


def read_pose(message: PoseMessage) -> tuple[tuple[View, ...], WorldSnapshot]:
    """Return the views and actors of a pose message, with or without our extension.

    Without it all cameras have one size and field of view, objects become props, and a camera whose
    shader we do not have is not due, so that the answer leaves it out.

    Raises:
        ProtocolError: a value makes no sense.
    """
    cameras = message.cameras
    vil = message.vil
    t_ns = message.stamp if vil is UNSET else vil.t_ns
    p_m, q_xyzw = unity_to_optical(
        _array([c.position for c in cameras], 3), _attitudes([c.rotation for c in cameras])
    )
    views = []
    for i, camera in enumerate(cameras):
        if vil is UNSET:
            extended = _plain_camera(message, camera)
            modality = _MODALITIES.get(extended.modality)
            name = camera.ID
        else:
            extended = vil.cameras[i]
            modality = _MODALITIES.get(extended.modality)
            name = _camera_name(camera.ID, modality)
        views.append(
            View(
                camera=_camera_model(name, extended),
                modality=modality or Modality.RGB,
                T_world_camera=Transform(p_m[i], q_xyzw[i]),
                t_pose_ns=t_ns,
                due=camera.shouldRenderThisFrame and modality is not None,
                collision=camera.hasCollisionCheck,
                hide=tuple(extended.hide),
                layer=extended.layer,
                reach_m=0.0 if extended.reach is UNSET else extended.reach,
            )
        )
    if len({view.key for view in views}) != len(views):
        raise ProtocolError("two cameras have the same name and modality")
    _check_sizes(views)
    if vil is UNSET:
        return tuple(views), WorldSnapshot(t_ns, _read_objects(message))
    return tuple(views), WorldSnapshot(t_ns, _read_actors(vil), _read_lighting(vil.lighting))


def _check_sizes(views: Sequence[View]) -> None:
    sizes = [
        FORMAT_OF[v.modality].nbytes(v.camera.width_px, v.camera.height_px) for v in views if v.due
    ]
    if max(sizes, default=0) > MAX_IMAGE_BYTES or sum(sizes) > MAX_ANSWER_BYTES:
        raise ProtocolError(
            f"pictures of {sum(sizes) >> 20} MiB are asked for, where "
            f"{MAX_IMAGE_BYTES >> 20} for one and "
            f"{MAX_ANSWER_BYTES >> 20} for all are drawn"
        )


def _plain_camera(message: PoseMessage, camera: FlightGogglesCamera) -> ExtendedCamera:
    if camera.outputShaderType is not UNSET:
        modality = _MODALITY_OF.get(camera.outputShaderType, _UNKNOWN)
    # The renderer of v2 draws such a camera in colour.
    elif camera.isDepth and message.ntime is UNSET:
        modality = Modality.DEPTH
    else:
        modality = Modality.GRAY if camera.channels == 1 else Modality.RGB
    shutter = min(max(camera.motionBlurPercent, 0.0), 1.0)
    return ExtendedCamera(
        width=message.camWidth,
        height=message.camHeight,
        fov=message.camFOV,
        modality=modality,
        effects=EffectsMessage(shutter=shutter),
    )


def _camera_model(name: str, extended: ExtendedCamera) -> CameraModel:
    pinhole_px: tuple[float, float, float, float] | None = None
    if extended.pinhole is not UNSET:
        pinhole_px = extended.pinhole
    distortion: Distortion | None = None
    if extended.distortion is not UNSET:
        distortion = _read_distortion(extended.distortion)
    effects = NO_EFFECTS
    if extended.effects is not UNSET:
        effects = Effects(**msgspec.structs.asdict(extended.effects))
    return CameraModel(
        name,
        extended.width,
        extended.height,
        math.radians(extended.fov),
        pinhole_px,
        distortion,
        effects,
    )


def _read_distortion(message: DistortionMessage) -> Distortion:
    model = _LENSES.get(message.model)
    if model is None:
        raise ProtocolError(f"unknown lens {message.model!r}. Known: {', '.join(sorted(_LENSES))}")
    if len(message.coefficients) != _COEFFICIENTS[model]:
        raise ProtocolError(
            f"{model} has {_COEFFICIENTS[model]} coefficients, not {len(message.coefficients)}"
        )
    return Distortion(model, tuple(message.coefficients))


def _read_lighting(message: LightingMessage | UnsetType) -> Lighting | None:
    if message is UNSET:
        return None
    lamps = {name: LampState(lamp.power, lamp.colour) for name, lamp in message.lamps.items()}
    time_of_day_h: float | None = None
    if message.time is not UNSET:
        time_of_day_h = message.time
    return Lighting(time_of_day_h, lamps, _read_weather(message.weather))


def _read_weather(message: WeatherMessage | UnsetType) -> Weather | None:
    if message is UNSET:
        return None
    values = msgspec.structs.asdict(message)
    return Weather(wind_mps=values.pop("wind"), **values)


def _camera_name(camera_id: str, modality: Modality | None) -> str:
    if modality in (None, Modality.RGB):
        return camera_id
    return camera_id.removesuffix(f"/{modality}")


def _read_objects(message: PoseMessage) -> tuple[ActorState, ...]:
    windows = [] if message.windows is UNSET else message.windows
    things = [
        *message.objects,
        *(
            FlightGogglesObject(
                ID=w.ID, prefabID="window", position=w.position, rotation=w.rotation, size=w.size
            )
            for w in windows
        ),
    ]
    poses = _read_poses([t.position for t in things], [t.rotation for t in things])
    return tuple(
        _actor(thing.ID, ActorKind.PROP, pose, thing.prefabID, thing.size)
        for thing, pose in zip(things, poses, strict=True)
    )


def _read_actors(vil: PoseExtension) -> tuple[ActorState, ...]:
    skeletons = {s.name: _read_skeleton(s) for s in vil.skeletons}
    poses = _read_poses([a.position for a in vil.actors], [a.rotation for a in vil.actors])
    return tuple(
        _actor(a.name, a.kind, pose, a.prefab, a.size, skeletons.get(a.name))
        for a, pose in zip(vil.actors, poses, strict=True)
    )


def _actor(
    name: str,
    kind: str,
    pose: Transform,
    prefab: str,
    size: Vec3,
    skeleton: SkeletonFrame | None = None,
) -> ActorState:
    right_m, up_m, forward_m = _array([size], 3)[0]
    return ActorState(
        name=name,
        kind=_KINDS.get(kind, ActorKind.PROP),
        state=TrackingState.TRACKED,
        age_ns=0,
        T_world_body=pose,
        skeleton=skeleton,
        prefab=prefab,
        size_m=(abs(forward_m), abs(right_m), abs(up_m)),
    )


def _read_skeleton(skeleton: ExtendedSkeleton) -> SkeletonFrame:
    p_m, q_xyzw = unity_to_enu_flu(_array(skeleton.positions, 3), _attitudes(skeleton.rotations))
    offsets_m = unity_to_flu(_array(skeleton.offsets, 3))
    model = SkeletonModel(skeleton.name, tuple(skeleton.bones), tuple(skeleton.parents), offsets_m)
    tracked = np.array(skeleton.tracked or [True] * len(skeleton.bones), dtype=np.bool_)
    return SkeletonFrame(model, p_m, q_xyzw, tracked)


def _read_poses(positions: Sequence[Vec3], rotations: Sequence[Quat]) -> list[Transform]:
    p_m, q_xyzw = unity_to_enu_flu(_array(positions, 3), _attitudes(rotations))
    return [Transform(p, q) for p, q in zip(p_m, q_xyzw, strict=True)]


def _array(rows: Sequence[Sequence[float]], columns: int) -> FloatArray:
    values = np.array(rows, dtype=np.float64).reshape(len(rows), columns)
    if rows and np.abs(values).max() > _LARGEST:
        raise ProtocolError(f"a coordinate exceeds {_LARGEST:g}")
    return values


def _attitudes(rotations: Sequence[Quat]) -> FloatArray:
    return q_normalize(_array(rotations, 4))


def write_answer(
    message: PoseMessage, views: Sequence[View], drawn: RenderedRequest, render_ns: int
) -> tuple[ImageHeader, list[PixelImage]]:
    """Return the metadata for clients of v1 to v3, and the images in the form that they parse.

    Our own client gets every image unchanged. Others get grey with one byte per pixel (v1) or three
    (v2, v3), depth as 16 bits (to v1 as grey), and everything else as colours.

    Raises:
        RendererError: a picture is not what its modality says.
    """
    index_of = {view.key: i for i, view in enumerate(views)}
    images = sorted(drawn.images, key=lambda image: index_of[image.view.key])
    indexes = [index_of[image.view.key] for image in images]
    for image in images:
        if not FORMAT_OF[image.view.modality].fits(image.pixels, image.valid):
            raise RendererError(
                f"{image.view.key!r}: {image.pixels.dtype} {image.pixels.shape} was drawn"
            )
    outgoing = [
        _outgoing(message, message.cameras[i], image)
        for i, image in zip(indexes, images, strict=True)
    ]
    first = views[0].camera
    stamp = message.stamp
    info = dict(drawn.info)
    header = ImageHeader(
        ntime=stamp,
        utime=stamp if message.utime is UNSET else message.utime,
        camWidth=message.camWidth,
        camHeight=message.camHeight,
        camDepthScale=message.camDepthScale,
        cameraIDs=[message.cameras[i].ID for i in indexes],
        cameraIndexes=indexes,
        channels=[_CHANNELS_OF.get(out.shown, _COLOURS) for out in outgoing],
        hasCameraCollision=drawn.collision,
        landmarksInView=[_write_landmark(mark, first) for mark in drawn.landmarks],
        lidarReturn=NO_RETURN_M if drawn.range_m is None else drawn.range_m,
        apiVersion=f"vil/{EXTENSION_VERSION}",
        vil=AnswerExtension(
            v=EXTENSION_VERSION,
            renderer=str(info.get("renderer", "")),
            render_ns=render_ns,
            sizes=[(image.view.camera.width_px, image.view.camera.height_px) for image in images],
            formats=[out.form.name for out in outgoing],
            near=UNSET if drawn.near is None else _write_surfaces(drawn.near, views),
            info=info,
        ),
    )
    return header, [out.picture for out in outgoing]


def _write_surfaces(near: Sequence[NearSurface], views: Sequence[View]) -> list[SurfaceMessage]:
    index_of = {view.camera.name: i for i, view in reversed(list(enumerate(views)))}
    points = np.array([surface.p_world_m for surface in near]).reshape(-1, 3)
    normals = np.array([surface.normal_world for surface in near]).reshape(-1, 3)
    rows = zip(
        enu_flu_to_unity(points, _NO_TURN)[0].tolist(),
        enu_flu_to_unity(normals, _NO_TURN)[0].tolist(),
        strict=True,
    )
    return [
        SurfaceMessage(
            camera=index_of[surface.camera],
            name=surface.other,
            position=(px, py, pz),
            normal=(nx, ny, nz),
        )
        for surface, ((px, py, pz), (nx, ny, nz)) in zip(near, rows, strict=True)
    ]


class _Outgoing(NamedTuple):
    """A picture, its pixels' format, and the modality as which the metadata's ``channels``
    announce it.
    """

    picture: PixelImage
    form: PixelFormat
    shown: Modality


def _outgoing(message: PoseMessage, camera: FlightGogglesCamera, image: RenderedImage) -> _Outgoing:
    """Return an image unchanged for our own client, else as the clients of v1 to v3 parse it."""
    modality = image.view.modality
    pixels = image.pixels
    narrow = message.ntime is UNSET
    if message.vil is not UNSET:
        return _Outgoing(PixelImage(pixels, image.valid), FORMAT_OF[modality], modality)
    if modality is Modality.DEPTH and camera.outputShaderType == _COMPRESSED_DEPTH:
        return _Outgoing(PixelImage(depth_to_grey(pixels)), RGB8, Modality.RGB)
    if modality is Modality.DEPTH and not narrow:
        return _Outgoing(PixelImage(pixels), FORMAT_OF[modality], modality)
    if modality in (Modality.DEPTH, Modality.GRAY):
        grey = pixels if modality is Modality.GRAY else _v1_depth(pixels, message.camDepthScale)
        if narrow:
            return _Outgoing(PixelImage(grey), GRAY8, Modality.GRAY)
        return _Outgoing(PixelImage(np.repeat(grey[:, :, None], 3, axis=2)), RGB8, Modality.GRAY)
    return _Outgoing(PixelImage(_coloured(image)), RGB8, Modality.RGB)


def _coloured(image: RenderedImage) -> ImageArray:
    match image.view.modality:
        case Modality.INSTANCE | Modality.SEMANTIC:
            return ids_to_colour(image.pixels)
        case Modality.NORMALS:
            return normals_to_colour(image.pixels)
        case Modality.FLOW:
            return flow_to_colour(image.pixels, image.valid)
        case _:
            return image.pixels


def _v1_depth(depth: ImageArray, scale: float) -> ImageArray:
    """Convert depth as the debug view of v1 does.

    Linear in z, white at the far plane times ``scale`` and beyond.
    """
    white = DEPTH_UNITS_PER_M * _V1_FAR_M * max(scale, _V1_LEAST_SCALE)
    grey = np.minimum(depth * (255.0 / white), 255.0)
    grey[depth == DEPTH_NO_HIT] = 255.0
    return np.rint(grey).astype(np.uint8)


def _write_landmark(mark: Landmark, camera: CameraModel) -> LandmarkMessage:
    u = (mark.u_px + 0.5) / camera.width_px
    v = 1.0 - (mark.v_px + 0.5) / camera.height_px
    return LandmarkMessage(ID=mark.name, position=(u, v, mark.depth_m))
