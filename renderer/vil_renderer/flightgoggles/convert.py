"""The client's side of the edge: requests to pose messages, answers to frames.

The renderer's side is :mod:`convert_renderer`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType

from vil_bridge.core.camera_model import NO_EFFECTS
from vil_bridge.core.errors import RendererError
from vil_bridge.core.geometry import (
    enu_flu_to_unity,
    flu_to_unity,
    optical_to_unity,
    unity_to_enu_flu,
)
from vil_bridge.core.near_surface import NearSurface
from vil_bridge.core.types import (
    ActorKind,
    ActorState,
    CameraModel,
    FloatArray,
    ImageArray,
    Landmark,
    Lighting,
    Modality,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    TrackingState,
    View,
)
from vil_bridge.core.weather import Weather
from vil_bridge.optics.pixel_formats import FORMAT_OF, RGB8
from vil_bridge.optics.tone_curve import TONE_CURVE
from vil_bridge.protocols import opencv as cv2
from vil_renderer.flightgoggles.codec import WireView, WrittenPose
from vil_renderer.flightgoggles.messages import (
    EXTENSION_VERSION,
    NO_RETURN_M,
    DistortionMessage,
    EffectsMessage,
    ExtendedActor,
    ExtendedCamera,
    ExtendedSkeleton,
    FlightGogglesCamera,
    FlightGogglesObject,
    ImageHeader,
    LampMessage,
    LandmarkMessage,
    LightingMessage,
    PoseExtension,
    PoseMessage,
    Quat,
    SurfaceMessage,
    Vec3,
    WeatherMessage,
)

_FARTHEST_M: Final = 1e6
_UNIT_TOLERANCE: Final = 1e-3
_NO_TURN: Final = np.array((0.0, 0.0, 0.0, 1.0))
SHADER_OF: Final = {
    Modality.RGB: -1,
    Modality.INSTANCE: 0,
    Modality.SEMANTIC: 1,
    Modality.DEPTH: 3,
    Modality.NORMALS: 4,
    Modality.GRAY: 5,
    Modality.FLOW: 6,
}
"""Shaders of v3.

Its pictures of ids, normals and flow are colour codes, which only a v3 client can use.
"""
_PLAIN_SHADER: Final = SHADER_OF[Modality.RGB]
_NARROW: Final = (Modality.GRAY, Modality.DEPTH)
_OUT_OF_SIGHT_M: Final[Vec3] = (0.0, -1000.0, 0.0)
_UPRIGHT: Final[Quat] = (0.0, 0.0, 0.0, 1.0)


class PoseWriter:
    """Writer of the pose messages of one connection.

    A renderer never removes an object, so every ID is sent in all later messages: while its actor
    is lost, absent or hidden it is 1000 m below the floor. All cameras of a message see the same
    objects; only ``vil`` lists what each of them does not show.

    Attributes:
        without_prefab: names of actors that are sent under ``vil`` only, since they have no model.
        disputed: names of actors that one due view of a message hid and another one did not: as
            objects they were hidden, since a camera inside its own vehicle would see nothing else.
    """

    def __init__(self, scene: str, prefabs: Mapping[ActorKind, str]) -> None:
        self._scene = scene
        self._prefabs = prefabs
        self._known: dict[str, str] = {}
        self.without_prefab: set[str] = set()
        self.disputed: set[str] = set()

    def message(self, request: RenderRequest) -> PoseMessage | WrittenPose:
        """Return the pose message of a request.

        Raises:
            RendererError: there is no camera.
        """
        if not request.views:
            raise RendererError("a request without cameras")
        return self._structured(request)

    def _structured(self, request: RenderRequest) -> PoseMessage:
        """Return the message as structures."""
        actors = [a for a in request.snapshot.actors if a.state is not TrackingState.LOST]
        hidden = self._hidden(actors, request.views)
        p_unity_m, q_unity_xyzw = _unity_poses(actors)
        positions = _vectors(p_unity_m)
        rotations = _quaternions(q_unity_xyzw)
        objects = self._objects(actors, hidden, positions, rotations)
        extended = list(map(self._extended_actor, actors, positions, rotations))
        return self._assembled(
            request, objects, extended, list(self._skeletons(actors, positions, rotations))
        )

    def _assembled(
        self,
        request: RenderRequest,
        objects: list[FlightGogglesObject],
        actors: list[ExtendedActor],
        skeletons: list[ExtendedSkeleton],
    ) -> PoseMessage:
        first = request.views[0].camera
        return PoseMessage(
            ntime=request.frame_id,
            camWidth=first.width_px,
            camHeight=first.height_px,
            camFOV=math.degrees(first.fov_y_rad),
            sceneFilename=self._scene,
            cameras=_write_cameras(request.views),
            objects=objects,
            windows=[],
            vil=PoseExtension(
                v=EXTENSION_VERSION,
                t_ns=request.snapshot.t_ns,
                cameras=[_extended_camera(view) for view in request.views],
                actors=actors,
                skeletons=skeletons,
                lighting=_write_lighting(request.snapshot.lighting),
            ),
        )

    def _prefab(self, actor: ActorState) -> str:
        return actor.prefab or self._prefabs[actor.kind]

    def _hidden(self, actors: Sequence[ActorState], views: Sequence[View]) -> set[str]:
        """Return the actors that are not objects of this message.

        One of the requested images must not show them.
        """
        due = [set(view.hide) for view in views if view.due]
        hidden = set[str]().union(*due)
        disputed = hidden - hidden.intersection(*due)
        self.disputed.update(a.name for a in actors if a.name in disputed and self._prefab(a))
        return hidden

    def _objects(
        self,
        actors: Sequence[ActorState],
        hidden: set[str],
        positions: list[Vec3],
        rotations: list[Quat],
    ) -> list[FlightGogglesObject]:
        posed: dict[str, FlightGogglesObject] = {}
        for actor, rows in _rows(actors):
            prefab = self._prefab(actor)
            if not prefab:
                self.without_prefab.add(actor.name)
            elif actor.name not in hidden:
                for name, row in zip(_object_ids(actor), rows, strict=True):
                    posed[name] = FlightGogglesObject(
                        ID=name, prefabID=prefab, position=positions[row], rotation=rotations[row]
                    )
        known = self._known
        if posed.keys() != known.keys():
            for name, thing in posed.items():
                known.setdefault(name, thing.prefabID)
        return [
            posed.get(name)
            or FlightGogglesObject(
                ID=name, prefabID=prefab, position=_OUT_OF_SIGHT_M, rotation=_UPRIGHT
            )
            for name, prefab in known.items()
        ]

    def _extended_actor(self, actor: ActorState, position: Vec3, rotation: Quat) -> ExtendedActor:
        forward_m, left_m, up_m = actor.size_m
        return ExtendedActor(
            name=actor.name,
            kind=actor.kind,
            prefab=self._prefab(actor),
            position=position,
            rotation=rotation,
            size=(left_m, up_m, forward_m),
        )

    def _skeletons(
        self, actors: Sequence[ActorState], positions: list[Vec3], rotations: list[Quat]
    ) -> Iterator[ExtendedSkeleton]:
        for actor, rows in _rows(actors):
            if actor.skeleton is not None:
                model = actor.skeleton.model
                yield ExtendedSkeleton(
                    name=actor.name,
                    prefab=self._prefab(actor),
                    bones=list(model.bones),
                    parents=list(model.parents),
                    offsets=_vectors(flu_to_unity(model.offsets_m)),
                    positions=positions[rows.start : rows.stop],
                    rotations=rotations[rows.start : rows.stop],
                    tracked=actor.skeleton.tracked.tolist(),
                    objects_prefix=f"{actor.name}/",
                )


def _unity_poses(actors: Sequence[ActorState]) -> tuple[FloatArray, FloatArray]:
    """Return positions and attitudes in Unity.

    A row per actor, then the bones of each skeleton (:func:`_rows`).
    """
    if not actors:
        return np.empty((0, 3)), np.empty((0, 4))
    p_m = np.array([a.T_world_body.p_m for a in actors])
    q_xyzw = np.array([a.T_world_body.q_xyzw for a in actors])
    skeletons = [a.skeleton for a in actors if a.skeleton is not None]
    if skeletons:
        p_m = np.concatenate([p_m, *(s.p_m for s in skeletons)])
        q_xyzw = np.concatenate([q_xyzw, *(s.q_xyzw for s in skeletons)])
    with np.errstate(invalid="ignore"):  # the encoder refuses what is not finite
        return enu_flu_to_unity(p_m, q_xyzw)


def _rows(actors: Sequence[ActorState]) -> Iterator[tuple[ActorState, range]]:
    """Yield each actor with the rows of its objects: its own, or those of its bones."""
    row = len(actors)
    for i, actor in enumerate(actors):
        if actor.skeleton is None:
            yield actor, range(i, i + 1)
        else:
            count = len(actor.skeleton.model.bones)
            yield actor, range(row, row + count)
            row += count


def _object_ids(actor: ActorState) -> Sequence[str]:
    if actor.skeleton is None:
        return (actor.name,)
    return [f"{actor.name}/{bone}" for bone in actor.skeleton.model.bones]


def _write_cameras(views: Sequence[View]) -> list[FlightGogglesCamera]:
    p_unity_m, q_unity_xyzw = optical_to_unity(
        np.array([view.T_world_camera.p_m for view in views]),
        np.array([view.T_world_camera.q_xyzw for view in views]),
    )
    poses = zip(_vectors(p_unity_m), _quaternions(q_unity_xyzw), strict=True)
    return [
        FlightGogglesCamera(
            ID=view.key,
            position=position,
            rotation=rotation,
            channels=1 if view.modality in _NARROW else 3,
            isDepth=view.modality is Modality.DEPTH,
            outputIndex=i,
            hasCollisionCheck=view.collision,
            doesLandmarkVisCheck=i == 0,
            outputShaderType=SHADER_OF.get(view.modality, _PLAIN_SHADER),
            motionBlurPercent=view.camera.effects.shutter,
            shouldRenderThisFrame=view.due,
        )
        for i, (view, (position, rotation)) in enumerate(zip(views, poses, strict=True))
    ]


def _extended_camera(view: View) -> ExtendedCamera:
    camera = view.camera
    extended = ExtendedCamera(
        width=camera.width_px,
        height=camera.height_px,
        fov=math.degrees(camera.fov_y_rad),
        modality=view.modality,
        hide=list(view.hide),
        layer=view.layer,
        reach=view.reach_m or UNSET,
    )
    if camera.pinhole_px is not None:
        extended.pinhole = camera.pinhole_px
    if camera.distortion is not None:
        extended.distortion = DistortionMessage(
            model=camera.distortion.model, coefficients=list(camera.distortion.coefficients)
        )
    if camera.effects != NO_EFFECTS:
        extended.effects = EffectsMessage(**asdict(camera.effects))
    return extended


def _write_lighting(lighting: Lighting | None) -> LightingMessage | UnsetType:
    if lighting is None:
        return UNSET
    lamps = {
        name: LampMessage(power=lamp.power, colour=lamp.colour)
        for name, lamp in lighting.lamps.items()
    }
    message = LightingMessage(lamps=lamps)
    if lighting.time_of_day_h is not None:
        message.time = lighting.time_of_day_h
    if lighting.weather is not None:
        message.weather = _write_weather(lighting.weather)
    return message


def _write_weather(weather: Weather) -> WeatherMessage:
    values = asdict(weather)
    return WeatherMessage(wind=values.pop("wind_mps"), **values)


def read_answer(
    header: ImageHeader, pictures: Sequence[WireView], request: RenderRequest, t_image_ns: int
) -> tuple[RenderedFrame, list[str]]:
    """Return an answer to ``request`` as a frame, and what is wrong with the pictures that had to
    be left out.

    Pictures of cameras that were not due are left out without a word: v2 always draws all.
    """
    index_of: dict[str, int] | None = None
    first = request.views[0].camera
    images: list[RenderedImage] = []
    problems: list[str] = []
    for picture in pictures:
        index = picture.index
        if index is None:
            index_of = index_of or {view.key: i for i, view in enumerate(request.views)}
            index = index_of.get(picture.camera_id, -1)
        if not 0 <= index < len(request.views):
            problems.append(f"camera {picture.camera_id!r} was not asked for")
            continue
        view = request.views[index]
        pixels = _pixels_of(view, picture)
        if pixels is None or (header.vil is UNSET and not _is_plain(view, first)):
            problems.append(
                f"{view.key!r}: the renderer cannot draw this modality, size, lens or field of view"
            )
        elif view.due:
            images.append(RenderedImage(view, pixels, picture.valid))
    range_m = header.lidarReturn
    if range_m is not None and range_m >= NO_RETURN_M:
        range_m = None
    render_ns: int | None = None
    near: tuple[NearSurface, ...] | None = None
    if header.vil is not UNSET:
        render_ns = header.vil.render_ns
        near = _read_surfaces(header.vil.near, request)
    frame = RenderedFrame(
        request=request,
        t_image_ns=t_image_ns,
        images=tuple(images),
        collision=header.hasCameraCollision,
        landmarks=tuple([_read_landmark(mark, first) for mark in header.landmarksInView]),
        range_m=range_m,
        render_ns=render_ns,
        near=near,
        tone_curve=header.vil is not UNSET and bool(header.vil.info.get(TONE_CURVE)),
    )
    return frame, problems


def _read_surfaces(
    surfaces: Sequence[SurfaceMessage] | UnsetType, request: RenderRequest
) -> tuple[NearSurface, ...] | None:
    """Return the surfaces near the cameras, None when the renderer sends none.

    Impossible ones are left out.
    """
    if surfaces is UNSET:
        return None
    known = [s for s in surfaces if s.camera < len(request.views) and _is_surface(s)]
    p_m, _ = unity_to_enu_flu(np.array([s.position for s in known]).reshape(-1, 3), _NO_TURN)
    normals, _ = unity_to_enu_flu(np.array([s.normal for s in known]).reshape(-1, 3), _NO_TURN)
    return tuple(
        NearSurface(request.views[s.camera].camera.name, s.name, p, n)
        for s, p, n in zip(known, p_m, normals, strict=True)
    )


def _is_surface(surface: SurfaceMessage) -> bool:
    return (
        max(map(abs, surface.position)) < _FARTHEST_M
        and abs(math.hypot(*surface.normal) - 1.0) < _UNIT_TOLERANCE
    )


def _is_plain(view: View, first: CameraModel) -> bool:
    """Return True when an original renderer, which has one ideal lens for all cameras, draws
    what the view means.
    """
    camera = view.camera
    return (
        camera.fov_y_rad == first.fov_y_rad
        and camera.pinhole_px is None
        and camera.distortion is None
    )


def _pixels_of(view: View, picture: WireView) -> ImageArray | None:
    """Return the picture in the form of the view's modality, None when it cannot be that."""
    pixels = picture.pixels
    if pixels.shape[:2] != (view.camera.height_px, view.camera.width_px):
        return None
    if view.modality is Modality.GRAY and RGB8.fits(pixels):
        return np.asarray(cv2.cvtColor(pixels[::-1], cv2.COLOR_RGB2GRAY))[::-1]
    return pixels if FORMAT_OF[view.modality].fits(pixels, picture.valid) else None


def _read_landmark(mark: LandmarkMessage, camera: CameraModel) -> Landmark:
    u, v, depth_m = mark.position
    return Landmark(mark.ID, u * camera.width_px - 0.5, (1.0 - v) * camera.height_px - 0.5, depth_m)


def _vectors(values: FloatArray) -> list[Vec3]:
    return [(x, y, z) for x, y, z in values.tolist()]


def _quaternions(values: FloatArray) -> list[Quat]:
    return [(x, y, z, w) for x, y, z, w in values.tolist()]
