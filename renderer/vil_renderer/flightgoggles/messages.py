"""The values that FlightGoggles messages hold, named as on the wire.

The structures are unions of the keys of all versions (v1.4 to v3): unknown keys are skipped, keys
that only some versions send have defaults. Our extension rides under ``vil``. Positions, attitudes
and sizes are in Unity's left-handed y-up frame; :mod:`convert` maps them.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from vil_bridge.core.near_surface import MOST_SURFACES

MAX_CAMERAS: Final = 64
MAX_OBJECTS: Final = 4096
MAX_BONES: Final = 256
MAX_SIDE_PX: Final = 8192
MAX_IMAGE_BYTES: Final = 64 << 20
"""Largest picture: 4096 x 5461 pixels of RGB."""
MAX_ANSWER_BYTES: Final = 512 << 20
"""Largest pictures of one answer together."""
MAX_LAMPS: Final = 256
EXTENSION_VERSION: Final = 2
"""2 added all modalities, lenses, effects, layers, lighting and shared memory.

Both ends must have the same.
"""
NO_RETURN_M: Final = 21.0
"""Reading of the range finder when it hits nothing within its 20 m."""

Vec3: TypeAlias = tuple[float, float, float]
Quat: TypeAlias = tuple[float, float, float, float]
_Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Side: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_SIDE_PX)]
_Fov: TypeAlias = Annotated[float, Meta(ge=0.01, lt=180.0)]
_Name: TypeAlias = Annotated[str, Meta(max_length=256)]
_Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
_FocalPx: TypeAlias = Annotated[float, Meta(ge=1e-3, le=1e5)]
_PlacePx: TypeAlias = Annotated[float, Meta(ge=-1e5, le=1e5)]
_Coefficient: TypeAlias = Annotated[float, Meta(ge=-1e6, le=1e6)]
_Light: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e4)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
_Nonce: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class FlightGogglesCamera(Struct, kw_only=True):
    """One camera: the union of the v2 and v3 keys."""

    ID: _Name
    position: Vec3
    rotation: Quat
    channels: int = 3
    isDepth: bool = False
    outputIndex: int = 0
    hasCollisionCheck: bool = False
    doesLandmarkVisCheck: bool = False
    outputShaderType: int | UnsetType = UNSET
    motionBlurPercent: float = 0.0
    shouldRenderThisFrame: bool = True


class FlightGogglesObject(Struct, kw_only=True):
    """A rigid prefab, moved by its pose; it never disappears."""

    ID: _Name
    prefabID: _Name
    position: Vec3
    rotation: Quat
    size: Vec3 = (1.0, 1.0, 1.0)


class WindowMessage(Struct, kw_only=True):
    """An obstacle of v1.4."""

    ID: _Name
    position: Vec3
    rotation: Quat
    size: Vec3 = (1.0, 1.0, 1.0)


class DistortionMessage(Struct, kw_only=True):
    """A lens: ``plumb_bob`` (k1, k2, p1, p2, k3) or ``equidistant`` (k1, k2, k3, k4)."""

    model: _Name
    coefficients: Annotated[list[_Coefficient], Meta(max_length=8)]


class EffectsMessage(Struct, kw_only=True):
    """Effects of sensor and lens on the image (``vil_bridge.core.camera_model.Effects``)."""

    shutter: _Share = 0.0
    frame_ns: Annotated[int, Meta(ge=0, le=1_000_000_000_000)] = 0
    exposure_ev: Annotated[float, Meta(ge=-20.0, le=20.0)] = 0.0
    auto_exposure: bool = False
    noise: Annotated[float, Meta(ge=0.0, le=255.0)] = 0.0
    vignetting: _Share = 0.0
    dirt: _Share = 0.0


class ExtendedCamera(Struct, kw_only=True):
    """Properties that the original camera message lacks, in the order of ``cameras``.

    ``pinhole`` is fx, fy, cx, cy in pixels, integers being pixel centres and y pointing down;
    without it the principal point is the picture's centre and ``fov`` gives the focal length.
    ``reach`` asks for the surfaces this near to the camera, in metres.
    """

    width: _Side
    height: _Side
    fov: _Fov
    modality: _Name
    hide: Annotated[list[_Name], Meta(max_length=MAX_OBJECTS)] = []
    layer: _Name = ""
    pinhole: tuple[_FocalPx, _FocalPx, _PlacePx, _PlacePx] | UnsetType = UNSET
    distortion: DistortionMessage | UnsetType = UNSET
    effects: EffectsMessage | UnsetType = UNSET
    reach: Annotated[float, Meta(ge=0.0, le=100.0)] | UnsetType = UNSET


class ExtendedActor(Struct, kw_only=True):
    """An actor that is in sight.

    ``size`` in metres along Unity's body axes (right, up, forward).
    """

    name: _Name
    kind: _Name
    prefab: _Name
    position: Vec3
    rotation: Quat
    size: Vec3


class ExtendedSkeleton(Struct, kw_only=True):
    """The bones of the actor of the same name; ``offsets`` in Unity's axes of each bone's parent.

    A bone that is not ``tracked`` has its last known place on its parent; an empty list means that
    all are.
    """

    name: _Name
    prefab: _Name
    bones: Annotated[list[_Name], Meta(max_length=MAX_BONES)]
    parents: list[int]
    offsets: list[Vec3]
    positions: list[Vec3]
    rotations: list[Quat]
    tracked: list[bool] = []
    objects_prefix: _Name = ""


class LampMessage(Struct, kw_only=True):
    """Factors of a lamp's own light: brightness and linear R, G, B."""

    power: _Light = 1.0
    colour: tuple[_Light, _Light, _Light] = (1.0, 1.0, 1.0)


class WeatherMessage(Struct, kw_only=True):
    """Amounts of weather; ``wind`` in our world's axes, m/s."""

    rain: _Amount = 0.0
    snow: _Amount = 0.0
    leaves: _Amount = 0.0
    dust: _Amount = 0.0
    fog: _Amount = 0.0
    ground_wetness: _Amount = 0.0
    ground_snow: _Amount = 0.0
    ground_leaves: _Amount = 0.0
    wind: tuple[float, float, float] = (0.0, 0.0, 0.0)


class LightingMessage(Struct, kw_only=True):
    """Light and weather that differ from the scene's own, which absent ones are.

    ``time``: local solar time, hours.
    """

    time: Annotated[float, Meta(ge=0.0, le=24.0)] | UnsetType = UNSET
    lamps: Annotated[dict[_Name, LampMessage], Meta(max_length=MAX_LAMPS)] = {}
    weather: WeatherMessage | UnsetType = UNSET


class PoseExtension(Struct, kw_only=True):
    """Our key in the pose message.

    ``t_ns`` is the instant that the poses are for; ``ring`` the nonce of the shared memory through
    which the client can take the pictures.
    """

    v: int
    t_ns: _Int64 = 0
    cameras: Annotated[list[ExtendedCamera], Meta(max_length=MAX_CAMERAS)]
    actors: Annotated[list[ExtendedActor], Meta(max_length=MAX_OBJECTS)] = []
    skeletons: Annotated[list[ExtendedSkeleton], Meta(max_length=MAX_OBJECTS)] = []
    lighting: LightingMessage | UnsetType = UNSET
    ring: _Nonce | UnsetType = UNSET


class _Stamped(Struct, kw_only=True):
    """Common part of request and answer.

    ``ntime`` is opaque to the renderer, v1 has ``utime`` instead.
    """

    ntime: _Int64 | UnsetType = UNSET
    utime: _Int64 | UnsetType = UNSET

    @property
    def stamp(self) -> int:
        """Return ``ntime`` (``utime`` in v1), which the answer repeats."""
        stamp = self.ntime if self.ntime is not UNSET else self.utime
        assert stamp is not UNSET
        return stamp


class PoseMessage(_Stamped, kw_only=True):
    """Request of the client."""

    camWidth: _Side
    camHeight: _Side
    camFOV: _Fov
    cameras: Annotated[list[FlightGogglesCamera], Meta(min_length=1, max_length=MAX_CAMERAS)]
    objects: Annotated[list[FlightGogglesObject], Meta(max_length=MAX_OBJECTS)] = []
    camDepthScale: float = 0.2
    sceneIsInternal: bool = True
    sceneFilename: str = ""
    obstaclePerturbationFile: str = ""
    windows: Annotated[list[WindowMessage], Meta(max_length=MAX_OBJECTS)] | UnsetType = UNSET
    vil: PoseExtension | UnsetType = UNSET


class LandmarkMessage(Struct, kw_only=True):
    """An IR beacon: viewport u, v with the origin at the bottom left, and z in metres."""

    ID: _Name
    position: Vec3


class SurfaceMessage(Struct, kw_only=True):
    """The nearest point of something near a camera (its place in ``cameras``).

    The normal points to the camera.
    """

    camera: Annotated[int, Meta(ge=0, lt=MAX_CAMERAS)]
    name: _Name
    position: Vec3
    normal: Vec3


class RingMessage(Struct, kw_only=True):
    """Address of the renderer's shared memory.

    ``vil_bridge.protocols.shared_memory.RingAddress``.
    """

    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    fd: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    nonce: _Nonce


class SlotMessage(Struct, kw_only=True):
    """All pictures of this answer lie in the ring under this number, in order.

    None follow as message parts.
    """

    number: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    bytes: Annotated[int, Meta(ge=0, le=2**40)]


class AnswerExtension(Struct, kw_only=True):
    """Our key in the answer.

    The renderer, its render time, size (w, h) and format (``vil_bridge.optics.pixel_formats``) of
    each image, the ring buffer that is offered, the slot that holds the images, and the surfaces
    near the cameras that asked for them.
    """

    v: int
    renderer: str = ""
    render_ns: _Int64 = 0
    sizes: Annotated[list[tuple[_Side, _Side]], Meta(max_length=MAX_CAMERAS)] = []
    formats: Annotated[list[_Name], Meta(max_length=MAX_CAMERAS)] = []
    ring: RingMessage | UnsetType = UNSET
    slot: SlotMessage | UnsetType = UNSET
    near: (
        Annotated[list[SurfaceMessage], Meta(max_length=MAX_CAMERAS * MOST_SURFACES)] | UnsetType
    ) = UNSET
    info: dict[str, str | int | float | bool | None] = {}


class ImageHeader(_Stamped, kw_only=True):
    """Metadata of an answer: the union of what the clients of v1 to v3 require."""

    camWidth: _Side
    camHeight: _Side
    cameraIDs: Annotated[list[_Name], Meta(max_length=MAX_CAMERAS)]
    channels: Annotated[list[int], Meta(max_length=MAX_CAMERAS)]
    camDepthScale: float = 0.2
    cameraIndexes: Annotated[list[int], Meta(max_length=MAX_CAMERAS)] | UnsetType = UNSET
    hasCameraCollision: bool = False
    landmarksInView: Annotated[list[LandmarkMessage], Meta(max_length=MAX_OBJECTS)] = []
    lidarReturn: float | None = None
    isCompressed: bool = False
    apiVersion: str = ""
    vil: AnswerExtension | UnsetType = UNSET
