"""Configured camera: its mount, its rate, and the pose that is asked of the renderer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from vil_bridge.core.geometry import T_FLU_OPTICAL, Transform
from vil_bridge.core.types import CameraModel, Modality, TrackingState
from vil_bridge.interfaces.ports import CameraInfo, offered_variants
from vil_bridge.optics.camera_sensor import ImageSensor, StereoDepth
from vil_bridge.optics.lens import rendered_model
from vil_bridge.pipeline.warp.compensator import Method, PlaneDepth
from vil_bridge.pipeline.warp.moving_actors import MovingActor
from vil_bridge.pipeline.warp.plane_fit import FittedPlane
from vil_bridge.pipeline.warp.rolling_shutter import knot_offsets_ns
from vil_bridge.pipeline.warp.view_geometry import ViewGeometry
from vil_bridge.world.prediction import PredictedPose
from vil_bridge.world.world import World

WORLD: Final = "world"
"""Actor name of cameras that stand still."""

_AGREED_FRAMES: Final = 8
_TICKS: Final = 64

IN_FLIGHT: Final = (
    "T_body_camera",
    "predict",
    "rolling_shutter_ns",
    "extra_delay_ns",
    "extra_jitter_ns",
    "max_age_ns",
    "repeat_ns",
)
"""Part of a camera that may change while it runs."""


@dataclass(frozen=True, slots=True, eq=False)
class DisplayTarget:
    """Instant and poses that the pictures of one frame are shown for.

    Common to both cameras of a stereo pair.

    Attributes:
        t_ns: the instant.
        carriers: poses of the carrier over the readout, that of ``t_ns`` in the middle.
        plane: the homography's, and that of readers who warp on; in the axes of the carrier at the
            pose rendered for; None = none was looked for.
        mode: what to do, which is less than configured where ``fallback`` says why.
        fallback: why the frame is not warped, or not as configured; empty = it is.
        actors: those that moved by themselves since the frame was rendered, as far as the camera
            heeds them.
    """

    t_ns: int
    carriers: tuple[PredictedPose, ...]
    mode: Method
    plane: FittedPlane | None
    fallback: str
    actors: tuple[MovingActor, ...] = ()


class DisplayTimes:
    """Agreements on the newest frames.

    The two relays of a stereo pair share one, and who comes first decides.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[int, DisplayTarget] = {}

    def of(self, frame_id: int, decide: Callable[[], DisplayTarget]) -> DisplayTarget:
        """Return the agreement on a frame."""
        with self._lock:
            made = self._made.get(frame_id)
            if made is None:
                made = self._made[frame_id] = decide()
                if len(self._made) > _AGREED_FRAMES:
                    del self._made[next(iter(self._made))]
            return made


class RunningDelay:
    """Running median of a delay; one thread adds, any thread reads.

    A hiccup delays a few pictures at once and does not change the estimate; a delay that stays is
    followed after eight samples. The first guess counts as one sample; of two in the middle the
    shorter one counts, so that a slow first picture is not believed.
    """

    _SAMPLES: Final = 15

    def __init__(self, first_guess_ns: int) -> None:
        self._lock = threading.Lock()
        self._newest_ns = deque([first_guess_ns], maxlen=self._SAMPLES)
        self._value_ns = first_guess_ns

    def add(self, delay_ns: int) -> None:
        """Account one measured delay."""
        with self._lock:
            self._newest_ns.append(delay_ns)
            self._value_ns = sorted(self._newest_ns)[(len(self._newest_ns) - 1) // 2]

    @property
    def value_ns(self) -> int:
        """The estimate."""
        return self._value_ns


@dataclass(frozen=True, slots=True)
class CameraPose:
    """Pose of a camera at ``t_ns``, how that was found, and how old the IMU data behind it were."""

    T_world_camera: Transform
    t_ns: int
    method: str
    imu_age_ns: int | None


@dataclass(slots=True, eq=False)
class BridgeCamera:
    """A camera of the bridge.

    What :data:`IN_FLIGHT` names may change while it looks, all else stays.

    Attributes:
        actor: carrier's name, ``world`` for a fixed camera.
        T_body_optical: place and attitude of its optical axes in its carrier.
        T_body_camera: place and attitude of the camera's body-like axes (x forward) in its carrier.
        predict: ask for the pose at the estimated time of use instead of the newest measured one.
        compensate: ``none``, ``rotation``, ``homography`` or ``reproject``.
        plane_depth_m: the homography's plane, metres; None = median of the depth image, ``fit`` =
            fitted to it.
        moving_actors: warp actors by their own motion, by instance ids that are rendered for that;
            ``reproject`` only.
        margin_rad: the picture is rendered wider by this angle at each border.
        rolling_shutter_ns: from reading the first row to reading the last; 0 = all at once.
        extra_delay_ns: artificial delay of the rendered image, for demonstrations.
        extra_jitter_ns: it differs from that by up to this much.
        max_age_ns: older images are not sent (capture, or request where unknown, to use).
        repeat_ns: while the renderer is late, its last image is warped again for every tick until
            the instant shown is this much later than the one rendered for; 0 = never.
        layer: draw only this layer of the scene; empty = all.
        reach_m: surfaces this near are asked of the renderer, for a simulated carrier's contacts; 0
            = none.
        image_sensor: makes its RGB and gray pictures from the rendered ones; None = they are
            delivered as rendered.
        depth_sensor: makes its depths from the rendered ones; None = they are delivered as
            rendered.
        on_loss: what happens while the carrier is stale or lost: ``hold``, ``blank`` or ``stop``.
        delay: from a request to the use of its image; the relay measures it. The two cameras of a
            stereo pair share theirs, so that they are asked for the same instant.
        display_times: what the frames are shown for; shared in the same way.
        ticks: instants at which pictures were due and not shown yet; the scheduler appends, the
            relay removes.
        geometry: what is rendered for it, and how that is warped.
    """

    model: CameraModel
    actor: str
    T_body_camera: Transform
    rate_hz: float
    modalities: tuple[Modality, ...] = (Modality.RGB,)
    predict: bool = True
    compensate: Method = "homography"
    plane_depth_m: PlaneDepth = None
    moving_actors: bool = False
    margin_rad: float = 0.0
    rolling_shutter_ns: int = 0
    extra_delay_ns: int = 0
    extra_jitter_ns: int = 0
    max_age_ns: int = 500_000_000
    repeat_ns: int = 250_000_000
    on_loss: str = "stop"
    collision: bool = False
    layer: str = ""
    reach_m: float = 0.0
    image_sensor: ImageSensor | None = None
    depth_sensor: StereoDepth | None = None
    T_body_optical: Transform = field(init=False)
    delay: RunningDelay = field(default_factory=lambda: RunningDelay(30_000_000))
    display_times: DisplayTimes = field(default_factory=DisplayTimes)
    ticks: deque[int] = field(default_factory=lambda: deque(maxlen=_TICKS))
    geometry: ViewGeometry = field(init=False)

    def __post_init__(self) -> None:
        self.T_body_optical = self.T_body_camera @ T_FLU_OPTICAL
        rendered = rendered_model(self.model, self.margin_rad, bends=self.compensate != "none")
        self.geometry = ViewGeometry(self.model, rendered)

    def retune(self, other: BridgeCamera) -> None:
        """Take over what may change in flight; any thread.

        A picture under way is warped to the new mount.
        """
        for name in (*IN_FLIGHT, "T_body_optical"):
            setattr(self, name, getattr(other, name))

    @property
    def name(self) -> str:
        """The camera's name."""
        return self.model.name

    @property
    def fixed(self) -> bool:
        """True when no actor carries it."""
        return self.actor == WORLD

    @property
    def variants(self) -> tuple[str, ...]:
        """Kinds of pictures that it delivers of each modality."""
        return offered_variants(self.compensate)

    def info(self) -> CameraInfo:
        """Return its description for outputs, as of now."""
        return CameraInfo(
            self.model,
            self.actor,
            self.T_body_camera,
            self.T_body_optical,
            self.rate_hz,
            {str(modality): self.variants for modality in self.modalities},
        )

    @property
    def drawn(self) -> tuple[Modality, ...]:
        """Modalities that the renderer draws.

        The offered ones, and the instance ids that the warp needs.
        """
        wants_ids = self.moving_actors and Modality.INSTANCE not in self.modalities
        return (*self.modalities, Modality.INSTANCE) if wants_ids else self.modalities

    @property
    def row_offsets_ns(self) -> tuple[int, ...]:
        """Instants during the readout, relative to the picture's, which is in the middle."""
        return knot_offsets_ns(self.rolling_shutter_ns)

    @property
    def hides(self) -> tuple[str, ...]:
        """Actors that it must not see: its own carrier."""
        return () if self.fixed else (self.actor,)

    def pose_at(self, world: World, t_ns: int) -> CameraPose:
        """Return the best pose known for an instant."""
        carrier = self.carrier_at(world, t_ns)
        return CameraPose(
            self.mounted(carrier.T_world_body), t_ns, carrier.method, carrier.imu_age_ns
        )

    def carrier_at(self, world: World, t_ns: int) -> PredictedPose:
        """Return the pose of its carrier, which is the world itself for a fixed camera."""
        if self.fixed:
            return PredictedPose(Transform.identity(), "fixed", None)
        return world.pose_at(self.actor, t_ns)

    def pose_to_render(self, world: World, t_request_ns: int, delay_ns: int) -> CameraPose:
        """Return the pose to ask the renderer for.

        Predicted to the time of use, or the newest measured one.
        """
        if self.predict or self.fixed:
            return self.pose_at(world, t_request_ns + delay_ns)
        newest = world.newest(self.actor)
        if newest is None:
            return self.pose_at(world, t_request_ns)
        return CameraPose(self.mounted(newest[0]), newest[1], "measured", None)

    def usable(self, world: World) -> bool:
        """Return False while the carrier's pose must not be shown.

        By its policy, or because its poses are frozen.

        ``hold`` shows the last pose of a body that mocap says it lost; what is frozen claims to be
        new.
        """
        if self.fixed:
            return True
        state = world.state_of(self.actor)
        held = self.on_loss == "hold"
        return state is not TrackingState.FROZEN and (
            held or state not in (TrackingState.STALE, TrackingState.LOST)
        )

    def mounted(self, T_world_body: Transform) -> Transform:
        """Return the world pose of the optical axes when the carrier is at ``T_world_body``."""
        return T_world_body @ self.T_body_optical
