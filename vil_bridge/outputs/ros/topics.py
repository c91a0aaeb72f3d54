"""World and cameras as ROS messages on topics; the outputs decide where these go.

Topics: ``/NAMESPACE/ACTOR/odom``, ``.../imu/data_raw``, ``.../sensors/NAME``,
``/NAMESPACE/CAMERA/image_raw`` with ``/compressed`` and ``camera_info`` with it,
``.../depth/image_raw`` with its ``camera_info``, ``/tf``, ``/tf_static``, ``/clock``; of a human
``/NAMESPACE/ACTOR/skeleton``. Frames: the world, ``ACTOR/base_link`` (REP-105), ``ACTOR/imu_link``
(REP-145), ``ACTOR/NAME_link``, ``ACTOR/BONE``, ``CAMERA_optical`` (REP-103).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from vil_bridge.bodies.skeleton import global_to_local
from vil_bridge.config.base import TransformConfig
from vil_bridge.core.clock import WallClock, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import DistanceReading, SensorDescription, beam_pose
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.ports import CameraInfo, WorldView
from vil_bridge.outputs.base import depth_m, kinds_of, upright
from vil_bridge.outputs.new_samples import PosePacing, WorldNews
from vil_bridge.outputs.ros.config import RosConfigBase
from vil_bridge.protocols.image_codecs import encode_jpeg
from vil_bridge.protocols.ros_commands import COMMANDS, CommandReader
from vil_bridge.protocols.ros_messages import Distro, TransformLink
from vil_bridge.protocols.ros_names import ros_name, same_in_ros
from vil_bridge.protocols.ros_sensor_messages import TOPIC_TYPES, SensorMessages
from vil_bridge.protocols.ros_topics import Topic
from vil_bridge.runtime.supervisor import Status

_WORLD: Final = "world"
_BODY: Final = "base"
"""Names the frame of a body (REP-105), with ``_link`` as frames of sensors."""
_RIGHT: Final = "_right"
"""Ends the name of a pair's right camera, which comes after the left one."""


Emit = Callable[[Topic, memoryview], None]
"""Takes a serialised message, from any thread; each topic is served by one thread."""

_TF: Final = Topic("/tf", "tf2_msgs/msg/TFMessage", depth=100)
_CLOCK: Final = Topic("/clock", "rosgraph_msgs/msg/Clock", depth=1)
_TF_STATIC: Final = Topic("/tf_static", "tf2_msgs/msg/TFMessage", latched=True, depth=1)


class RosFeed:
    """All that one output sends.

    Args:
        emit: gets every message.
        status: counts ``poses``, ``skeletons``, ``inertial``, ``readings`` and ``not_newer``
            (pictures of no later instant than the one before).
    """

    def __init__(self, config: RosConfigBase, distro: Distro, emit: Emit, status: Status) -> None:
        self.config = config
        self.messages = SensorMessages(distro)
        self.emit = emit
        self.status = status
        self.wall_clock = WallClock.of_run()
        self.pacing: Final = PosePacing(config.rate_hz)
        self._cameras: list[CameraFeed] = []
        self._sensors: dict[tuple[str, str], _SensorFeed] = {}
        self._static: dict[str, TransformLink] = {}
        self._rigid: Sequence[str] = ()
        self._humans: Sequence[str] = ()
        self._clock_ns = 0

    def add_camera(self, camera: CameraInfo) -> CameraFeed:
        """Serve a camera, too.

        Raises:
            SinkError: it has no pictures of the kind that is configured.
        """
        left = next(
            (f for f in self._cameras if camera.model.name == f.camera.model.name + _RIGHT), None
        )
        feed = CameraFeed(camera, self, left)
        self._cameras.append(feed)
        return feed

    def topics(self) -> list[Topic]:
        """All topics there are, once a world is watched."""
        actors = [t for a in self._rigid for t in (self._odometry(a), self._inertial(a))]
        actors += [self._skeleton(a) for a in self._humans]
        actors += [sensor.topic for sensor in self._sensors.values()]
        common = [*([_TF] if actors else []), _TF_STATIC, *([_CLOCK] if self.config.clock else [])]
        return [
            *actors,
            *common,
            *(t for feed in self._cameras for topics in feed.topics.values() for t in topics),
        ]

    def emit_static(self, t_ns: int, world: WorldView) -> None:
        """Emit the mounts of cameras, IMUs and sensors."""
        links = [feed.link for feed in self._cameras]
        for actor in self._rigid:
            T_body_imu = world.imu_place(actor)
            if T_body_imu is not None:
                links.append(
                    TransformLink(self.body_frame(actor), self.imu_frame(actor), T_body_imu)
                )
        for (actor, _), sensor in self._sensors.items():
            if sensor.description.kind != "distance":
                links.append(
                    TransformLink(
                        self.body_frame(actor), sensor.frame, sensor.description.T_body_sensor
                    )
                )
        self._static = {link.child: link for link in links}
        self.emit(_TF_STATIC, self.messages.transforms(self.wall_clock.utc_ns(t_ns), links))

    def watch(self, world: WorldView) -> Callable[[], None]:
        """Return the function to be called at each look of ``pacing``, which emits the actors' new
        measurements.

        Raises:
            SinkError: two sensors of an actor have one topic, or a sensor has the frame of its
                body.
        """
        news = WorldNews(world, self.config.actors)
        self._rigid = news.rigid
        self._humans = news.humans
        for actor in news.rigid:
            _check_names(actor, world.sensors.descriptions(actor))
        self._sensors = {
            (actor, sensor): self._sensor_feed(actor, sensor, description)
            for actor in news.rigid
            for sensor, description in world.sensors.descriptions(actor).items()
            if description.kind in TOPIC_TYPES
        }

        def step() -> None:
            self._emit_moved_cameras()
            if self.pacing.due():
                self._emit_clock()
                self._emit_motions(news)
                self._emit_skeletons(news)
            self._emit_inertial(news)
            self._emit_readings(news)

        return step

    def commands(self) -> dict[Topic, tuple[str, CommandReader]]:
        """All topics of commands, once a world is watched.

        Each with the actor and the reader of its messages.
        """
        return {
            Topic(self.name(actor, leaf), kind): (actor, read)
            for actor in self._rigid
            for leaf, (kind, read) in COMMANDS.items()
        }

    def name(self, actor_or_camera: str, leaf: str) -> str:
        """Return a topic's name."""
        parts = (self.config.namespace, ros_name(actor_or_camera), leaf)
        return "".join(f"/{part}" for part in parts if part)

    def body_frame(self, actor: str) -> str:
        """Return the frame of an actor, or the world's."""
        return (
            self.config.world_frame
            if actor == _WORLD
            else f"{self.config.frame_prefix}{actor}/{_BODY}_link"
        )

    def imu_frame(self, actor: str) -> str:
        """Return the frame of an actor's IMU."""
        return f"{self.config.frame_prefix}{actor}/imu_link"

    def _sensor_feed(self, actor: str, sensor: str, description: SensorDescription) -> _SensorFeed:
        topic = Topic(
            self.name(actor, f"sensors/{ros_name(sensor)}"), TOPIC_TYPES[description.kind]
        )
        return _SensorFeed(topic, f"{self.config.frame_prefix}{actor}/{sensor}_link", description)

    def _odometry(self, actor: str) -> Topic:
        return Topic(self.name(actor, "odom"), "nav_msgs/msg/Odometry")

    def _inertial(self, actor: str) -> Topic:
        return Topic(self.name(actor, "imu/data_raw"), "sensor_msgs/msg/Imu")

    def _skeleton(self, actor: str) -> Topic:
        return Topic(self.name(actor, "skeleton"), "geometry_msgs/msg/PoseArray")

    def _emit_clock(self) -> None:
        """Emit bridge time, unless it stands."""
        stamp_ns = self.wall_clock.utc_ns(now_ns())
        if self.config.clock and stamp_ns > self._clock_ns:
            self._clock_ns = stamp_ns
            self.emit(_CLOCK, self.messages.clock(stamp_ns))

    def _emit_moved_cameras(self) -> None:
        """Emit the static frames again once a camera's mount has changed."""
        moved = {feed.link.child: feed.link for feed in self._cameras}
        if any(self._static.get(child) is not link for child, link in moved.items()):
            self._static |= moved
            stamp_ns = self.wall_clock.utc_ns(now_ns())
            self.emit(_TF_STATIC, self.messages.transforms(stamp_ns, list(self._static.values())))

    def _emit_skeletons(self, news: WorldNews) -> None:
        """Emit all bones in the world, and each as a frame in its parent's."""
        world = self.config.world_frame
        for actor, t_ns, skeleton in news.skeletons():
            stamp_ns = self.wall_clock.utc_ns(t_ns)
            model = skeleton.model
            self.emit(
                self._skeleton(actor),
                self.messages.poses(stamp_ns, world, skeleton.p_m, skeleton.q_xyzw),
            )
            frames = [f"{self.config.frame_prefix}{actor}/{bone}" for bone in model.bones]
            local = zip(*global_to_local(skeleton.p_m, skeleton.q_xyzw, model.parents), strict=True)
            links = [
                TransformLink(
                    world if parent < 0 else frames[parent], frame, Transform(p_m, q_xyzw)
                )
                for parent, frame, (p_m, q_xyzw) in zip(model.parents, frames, local, strict=True)
            ]
            self.emit(_TF, self.messages.transforms(stamp_ns, links))
            self.status.counters["skeletons"] += 1

    def _emit_motions(self, news: WorldNews) -> None:
        world = self.config.world_frame
        for actor, motion in news.motions():
            stamp_ns = self.wall_clock.utc_ns(motion.t_ns)
            body = self.body_frame(actor)
            self.emit(self._odometry(actor), self.messages.odometry(stamp_ns, world, body, motion))
            self.emit(
                _TF,
                self.messages.transforms(
                    stamp_ns, [TransformLink(world, body, motion.T_world_body)]
                ),
            )
            self.status.counters["poses"] += 1

    def _emit_inertial(self, news: WorldNews) -> None:
        for actor, window in news.inertial():
            topic = self._inertial(actor)
            frame = self.imu_frame(actor)
            for t_ns, w_radps, f_mps2 in zip(
                window.t_ns.tolist(), window.w_radps, window.f_mps2, strict=True
            ):
                self.emit(
                    topic, self.messages.imu(self.wall_clock.utc_ns(t_ns), frame, w_radps, f_mps2)
                )
            self.status.counters["inertial"] += len(window.t_ns)

    def _emit_readings(self, news: WorldNews) -> None:
        for actor, name, reading in news.readings():
            sensor = self._sensors.get((actor, name))
            # It has no standard message, or its source's configuration does not describe it.
            if sensor is None:
                self.status.counters["unsent_readings"] += 1
                continue
            stamp_ns = self.wall_clock.utc_ns(reading.t_ns)
            if isinstance(reading, DistanceReading):
                self._emit_beams(stamp_ns, actor, sensor, reading)
            else:
                self.emit(
                    sensor.topic,
                    self.messages.reading(stamp_ns, sensor.frame, reading, sensor.description),
                )
            self.status.counters["readings"] += 1

    def _emit_beams(
        self, stamp_ns: int, actor: str, sensor: _SensorFeed, reading: DistanceReading
    ) -> None:
        """Emit each beam in a frame of its own, whose place is first known by the reading."""
        frames = [f"{sensor.frame}_{number}" for number in range(1, 1 + len(reading.ranges_m))]
        if frames[-1] not in self._static:
            for beam, frame in enumerate(frames):
                self._static[frame] = TransformLink(
                    self.body_frame(actor), frame, beam_pose(reading, beam)
                )
            self.emit(_TF_STATIC, self.messages.transforms(stamp_ns, list(self._static.values())))
        for frame, range_m in zip(frames, reading.ranges_m, strict=True):
            self.emit(
                sensor.topic,
                self.messages.range(stamp_ns, frame, reading, range_m, sensor.description),
            )


def _check_names(actor: str, sensors: Iterable[str]) -> None:
    """Check the names of an actor's sensors. Raises SinkError: two become one in ROS."""
    names = list(sensors)
    if (same := same_in_ros(names)) is not None:
        raise SinkError(
            f"sensors {same[0]} and {same[1]} of {actor} become one topic in ROS. Rename "
            "one of them"
        )
    if _BODY in names:
        raise SinkError(f"sensor {_BODY} of {actor} has the frame of its body in ROS. Rename it")


class _SensorFeed(NamedTuple):
    """A sensor's topic and frame."""

    topic: Topic
    frame: str
    description: SensorDescription


class CameraFeed:
    """One camera's pictures; all methods but the constructor belong to one thread.

    Args:
        left: the left camera, when this is the right one of a pair.

    Attributes:
        topics: of each kind of pictures, (modality, variant): its forms, and the camera's geometry.
        link: where its optical axes sit, as of the newest picture. camera: as given.
    """

    def __init__(self, camera: CameraInfo, feed: RosFeed, left: CameraFeed | None) -> None:
        config = feed.config
        name = camera.model.name
        shown, self._depth_kind = kinds_of(camera, config)
        self.camera: Final = camera
        self._feed = feed
        self._frame = f"{config.frame_prefix}{name}_optical"
        self.link = TransformLink(feed.body_frame(camera.actor), self._frame, camera.T_body_optical)
        self._mount: dict[str, Any] | UnsetType = UNSET
        self._raw = Topic(feed.name(name, "image_raw"), "sensor_msgs/msg/Image")
        self._jpeg = Topic(
            feed.name(name, "image_raw/compressed"), "sensor_msgs/msg/CompressedImage"
        )
        self._info = Topic(feed.name(name, "camera_info"), "sensor_msgs/msg/CameraInfo")
        self._depth = Topic(feed.name(name, "depth/image_raw"), "sensor_msgs/msg/Image")
        self._depth_info = Topic(feed.name(name, "depth/camera_info"), "sensor_msgs/msg/CameraInfo")
        of_form = {"raw": self._raw, "compressed": self._jpeg}
        topics = {shown: (*(of_form[form] for form in config.images), self._info)}
        topics[self._depth_kind] = self._depth, self._depth_info
        self.topics: Final[Mapping[tuple[str, str], Sequence[Topic]]] = {
            k: t for k, t in topics.items() if k
        }
        self._shown_ns: dict[tuple[str, str], int] = {}
        T_left_right = Transform.identity()
        if left is not None:
            T_left_right = left.link.T_parent_child.inverse() @ camera.T_body_optical
        self._baseline_m = float(T_left_right.p_m[0])

    def send(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Emit a picture, stamped with the instant that it shows, and its geometry."""
        feed = self._feed
        t_ns = header.t_display_ns
        kind = header.kind
        if t_ns <= self._shown_ns.get(kind, -1):
            feed.status.counters["not_newer"] += 1
            return
        self._shown_ns[kind] = t_ns
        self._follow_mount(header.T_body_camera)
        stamp_ns = feed.wall_clock.utc_ns(t_ns)
        config = feed.config
        messages = feed.messages
        info = messages.camera_info(stamp_ns, self._frame, self.camera.model, self._baseline_m)
        if kind == self._depth_kind:
            feed.emit(self._depth, messages.image(stamp_ns, self._frame, depth_m(pixels)))
            feed.emit(self._depth_info, info)
            return
        if "compressed" in config.images:
            payload, _ = encode_jpeg(pixels, config.color, config.quality)
            feed.emit(self._jpeg, messages.jpeg(stamp_ns, self._frame, payload))
        if "raw" in config.images:
            feed.emit(
                self._raw, messages.image(stamp_ns, self._frame, upright(pixels, config.color))
            )
        feed.emit(self._info, info)

    def _follow_mount(self, mount: dict[str, Any] | UnsetType) -> None:
        """Take the mount that a picture states, once its camera has been moved."""
        if mount is UNSET or mount == self._mount:
            return
        self._mount = mount
        T_body_camera = TransformConfig.model_validate(mount).transform()
        self.link = self.link._replace(T_parent_child=self.camera.T_body_optical_at(T_body_camera))
