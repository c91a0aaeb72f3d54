"""The interfaces that adapters, renderers and outputs implement.

The core knows them only by these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from vil_bridge.core.block_snapshot import BlockSnapshot
from vil_bridge.core.bridge_time import BridgeTime, bridge_clock
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform
from vil_bridge.core.motion import BodyMotion, ImuWindow
from vil_bridge.core.sensor_readings import ActorReading, SensorDescription
from vil_bridge.core.types import (
    CameraModel,
    FloatArray,
    ImageArray,
    MotionFrame,
    RenderedFrame,
    RenderedImage,
    RenderRequest,
    SkeletonFrame,
    SkeletonModel,
    SourceEvent,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_bridge.interfaces.onboard_imu import OnboardImuRouter
from vil_bridge.interfaces.planned_path import PlannedPaths
from vil_bridge.interfaces.ray_casting import RayCaster
from vil_bridge.interfaces.setpoints import FlyActor
from vil_bridge.interfaces.vehicle_commands import VehicleCommandBus
from vil_bridge.interfaces.voxels import VoxelMap
from vil_bridge.runtime.datagrams import Tap
from vil_bridge.runtime.latch import Latch
from vil_bridge.runtime.supervisor import Status

Emit = Callable[[SourceEvent], None]


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A pose source that answered on the network, for ``vil-bridge discover``.

    Attributes:
        type: the adapter's ``type``. config: further keys of its section that reach this server.
        title: what it says it is (product and version).
        bodies, skeletons: subjects with the rate at which they came, hertz; None = not measured.
    """

    type: str
    config: Mapping[str, Any]
    title: str
    bodies: tuple[tuple[str, float | None], ...] = ()
    skeletons: tuple[tuple[str, float | None], ...] = ()


class Discover(Protocol):
    """An adapter's search: a module-level coroutine function named in the registry."""

    async def __call__(self, targets: Sequence[str], timeout_s: float) -> list[FoundSource]:
        """Ask the network.

        Args:
            targets: ``host`` or ``host:port`` to ask directly; empty = broadcast, multicast and
                loopback on the default ports.
            timeout_s: how long to listen for answers and to measure rates.
        """
        ...


class MocapMotion(Protocol):
    """Ground truth that an emulated mocap system films.

    ``t_ns`` counts from the start of the motion.
    """

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of the bodies."""
        ...

    @property
    def skeleton_models(self) -> tuple[SkeletonModel, ...]:
        """Models of the skeletons."""
        ...

    def at(self, t_ns: int) -> MotionFrame:
        """Return the subjects at one instant, always the same ones in the same order."""
        ...


class InertialMotion(Protocol):
    """Inertial measurements for an emulated IMU."""

    def imu_between(self, after_ns: int, until_ns: int) -> list[tuple[int, FloatArray, FloatArray]]:
        """Return the samples with after < t <= until.

        (t_ns, w_radps (3,), f_mps2 (3,)) in the IMU's FLU axes.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourceContext:
    """Parts of the running bridge that a source may use; each bridge of a process has its own.

    Attributes:
        onboard_imu: inertial samples that readers of the stream send; loop thread.
        vehicles: commands to simulated vehicles, and what renderers report of them; any thread.
        clock: bridge time; :func:`~vil_bridge.core.clock.now_ns` reads the same one.
        rays: casts the rays of simulated sensors; None = nothing casts rays here.
        first_picture: released when the first picture of any renderer has come, with or without a
            reader.
    """

    onboard_imu: OnboardImuRouter = field(default_factory=OnboardImuRouter)
    vehicles: VehicleCommandBus = field(default_factory=VehicleCommandBus)
    clock: BridgeTime = field(default_factory=bridge_clock)
    rays: RayCaster | None = None
    first_picture: Latch = field(default_factory=Latch)


@runtime_checkable
class PoseSource(Protocol):
    """Mocap system, IMU, recording or simulation: wire to values, in the source's own clock."""

    name: str

    async def run(self, emit: Emit, status: Status, context: SourceContext, /) -> None:
        """Receive and emit until cancelled.

        Calls ``status.running()`` while data flow and ``status.waiting(reason)`` while the peer is
        silent (and goes on probing). Never retries a failed set-up and never sleeps to pace.

        Args:
            emit: takes each event.
            status: of the source.
            context: what the bridge offers to its sources.

        Raises:
            SourceUnavailable: it cannot go on; the supervisor starts it again.
        """
        ...


@runtime_checkable
class DatagramSource(Protocol):
    """A source over UDP, whose datagrams may be captured.

    Attributes:
        tap: takes each one that is received or sent, None = no tap. Set it before the source runs.
    """

    tap: Tap | None


@runtime_checkable
class RendererClient(Protocol):
    """One renderer connection.

    ``request`` belongs to the loop's thread, ``receive`` to one relay thread.
    """

    name: str
    status: Status

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered yet."""
        ...

    def ready(self) -> bool:
        """Return True while fewer requests are unanswered than may be in flight."""
        ...

    def request(self, request: RenderRequest) -> None:
        """Send a request now; never blocks.

        Without a due view it asks only whether the renderer works.
        """
        ...

    def keep_alive(self) -> None:
        """Repeat the last request when the renderer would otherwise reset.

        Called a few times a second.
        """
        ...

    def fileno(self) -> int:
        """Descriptor that becomes readable (edge-triggered) when images may be waiting."""
        ...

    def receive(self) -> RenderedFrame | None:
        """Return the next answer, None when none is waiting.

        Malformed and duplicate ones are counted and skipped.
        """
        ...

    def close(self) -> None:
        """Release the sockets at once."""
        ...


class OfflineRenderer(Protocol):
    """A renderer in this process, for work without a clock."""

    def render(self, views: Sequence[View], snapshot: WorldSnapshot) -> tuple[RenderedImage, ...]:
        """Return pictures of the views, in their order, all of the snapshot's instant.

        Raises:
            RendererError: it cannot draw that.
        """
        ...

    def close(self) -> None:
        """Release what it draws with."""
        ...


@runtime_checkable
class FrameSink(Protocol):
    """An output for one camera's images; called by that camera's relay thread only."""

    def wanted(self, modality: str, variant: str) -> bool:
        """Return True when a reader wants this kind of picture, so that none is made in vain."""
        ...

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Take the newest image (top row first); drops and counts what its reader cannot follow."""
        ...

    def flush(self) -> int | None:
        """Send what became possible since the last call (a reader gave credit).

        By default nothing waits.

        Returns:
            Bridge time at which it wants to be called again; None = when there is something to do.
        """
        return None

    def close(self) -> None:
        """Release what it holds, by default nothing; nothing is offered after this."""
        return


@runtime_checkable
class GraySink(Protocol):
    """A :class:`FrameSink` that turns RGB to gray in any case.

    Where all who want a picture do, the relay does it once.

    Such a sink gets RGB pictures as (h, w, 3) or as (h, w).
    """

    def wants_gray(self, variant: str) -> bool:
        """Return True when gray suffices for every reader of RGB of this variant."""
        ...


RAW: Final = "raw"
COMPENSATED: Final = "compensated"
"""Variants of a picture: as rendered, and warped to the newest pose."""


def offered_variants(compensation: str) -> tuple[str, ...]:
    """Return the variants of a camera's pictures, by its method of latency compensation."""
    return (RAW,) if compensation == "none" else (COMPENSATED, RAW)


@dataclass(frozen=True, slots=True)
class CameraInfo:
    """Description of a camera for outputs.

    Attributes:
        actor: that carries it, ``world`` for a fixed one.
        T_body_camera: its body-like axes (x forward, y left, z up) in its carrier.
        T_body_optical: its optical axes (x right, y down, z forward) in its carrier.
        offers: the kinds of pictures that it has, each with its variants.
    """

    model: CameraModel
    actor: str
    T_body_camera: Transform
    T_body_optical: Transform
    rate_hz: float
    offers: Mapping[str, tuple[str, ...]]

    # Named as the attribute.
    def T_body_optical_at(self, T_body_camera: Transform) -> Transform:  # noqa: N802
        """Return its optical axes in its carrier once it has been moved there."""
        return T_body_camera @ self.T_body_camera.inverse() @ self.T_body_optical


class SensorsView(Protocol):
    """Readings of the actors' sensors as outputs read them; any thread."""

    @property
    def newest(self) -> int:
        """Number of the newest event, 0 = there was none."""
        ...

    def descriptions(self, actor: str) -> Mapping[str, SensorDescription]:
        """Sensors of an actor by name, as configured."""
        ...

    def room_of(self, actor: str) -> Transform:
        """T_world_room of the source that an actor comes from.

        The room's axes are east, north and up of its GPS.
        """
        ...

    def since(self, number: int, actors: Collection[str]) -> tuple[int, list[ActorReading]]:
        """Return the number of the newest event, and the readings of some actors since an event,
        oldest first.
        """
        ...


class WorldView(Protocol):
    """The world as outputs read it; any thread."""

    @property
    def sensors(self) -> SensorsView:
        """Readings of the actors' sensors."""
        ...

    def watch(self, announce: Callable[[int], None]) -> Callable[[], None]:
        """Call a function with the capture of each frame of poses, behind it.

        Return the function that ends this.

        Both in the event loop's thread. The function is short and raises nothing: sources wait for
        it.
        """
        ...

    def snapshot(self, t_ns: int) -> BlockSnapshot:
        """All actors at an instant."""
        ...

    def scene(self, t_ns: int) -> WorldSnapshot:
        """All actors at an instant, obstacles and a race's gates: what can be seen."""
        ...

    def twists(self) -> tuple[FloatArray, FloatArray]:
        """Velocities (n, 3), world, and angular rates (n, 3), body, of all actors at their
        newest poses, by mocap.
        """
        ...

    def motion_at(self, actor: str, t_ns: int) -> BodyMotion:
        """One rigid actor's pose and twist at an instant. Raises KeyError: no such actor."""
        ...

    def newest(self, actor: str) -> tuple[Transform, int, int] | None:
        """Newest tracked pose of a rigid actor, its capture and its arrival time.

        None = never seen.
        """
        ...

    def newest_skeleton(self, actor: str) -> tuple[SkeletonFrame, int] | None:
        """Newest frame of a human whose hips were tracked, and its capture time.

        None = never seen.
        """
        ...

    def state_of(self, actor: str) -> TrackingState:
        """Tracking state now."""
        ...

    def imu_place(self, actor: str) -> Transform | None:
        """T_body_imu of an actor, None where it has no IMU."""
        ...

    def imu_since(self, actor: str, t_ns: int) -> ImuWindow | None:
        """Inertial samples of an actor newer than ``t_ns``, its IMU's axes.

        None = none, or no IMU.
        """
        ...


@runtime_checkable
class Output(Protocol):
    """Output of the bridge in addition to the registered readers: video, ROS, LCM, an autopilot.

    Constructed as ``Implementation(name, config)``; what its configuration lists as ``cameras`` and
    ``actors`` exists.
    """

    name: str
    status: Status

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        """Return the sink for a camera's pictures, None = none.

        Called once for each camera, before :meth:`run`.

        Raises:
            SinkError: it cannot take this camera's pictures.
        """
        ...

    async def run(self, world: WorldView) -> None:
        """Work in the loop until cancelled; supervised and started again like a source.

        Started again after a bug too, here or in a sink or callback of this output.

        Raises:
            SinkError: it cannot go on.
        """
        ...

    def close(self) -> None:
        """Release sockets and threads at once; called last."""
        ...


@runtime_checkable
class CommandedOutput(Protocol):
    """An output through which others command simulated vehicles."""

    def accept_commands(self, fly: FlyActor) -> None:
        """Take the function that commands go to. Called once, before :meth:`Output.run`."""
        ...


@runtime_checkable
class PathOutput(Protocol):
    """An output that publishes planned flights."""

    def accept_paths(self, paths: PlannedPaths) -> None:
        """Take what returns the flights now. Called once, before :meth:`Output.run`."""
        ...


@runtime_checkable
class MappedOutput(Protocol):
    """An output that sends occupancy maps."""

    def accept_maps(self, maps: Mapping[str, VoxelMap]) -> None:
        """Take the bridge's maps by name. Called once, before :meth:`Output.run`."""
        ...
