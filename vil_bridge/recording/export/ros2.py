"""A recording as a ROS 2 bag (MCAP, CDR), with the names and frames of the live ROS outputs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from vil_bridge.config.base import TransformConfig
from vil_bridge.config.references import RIGHT
from vil_bridge.core.errors import ConfigError, RecordingError
from vil_bridge.core.sensor_readings import DistanceReading, SensorDescription, beam_pose
from vil_bridge.interfaces.ports import CameraInfo
from vil_bridge.protocols.ros_names import ros_name, same_in_ros
from vil_bridge.recording.export.images import shown
from vil_bridge.recording.export.measurements import motions, readings, samples
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.reader import Recording
from vil_bridge.registry import explain_missing

if TYPE_CHECKING:
    from rosbags.interfaces import Connection
    from rosbags.rosbag2 import Writer

    from vil_bridge.protocols.ros_messages import TransformLink
    from vil_bridge.protocols.ros_sensor_messages import SensorMessages

_WORLD = "world"


def to_ros2(recording: Recording, facts: RecordingFacts, out: Path) -> Counter[str]:
    """``ACTOR/odom``, ``/tf``, ``ACTOR/imu/data_raw``, ``ACTOR/sensors/NAME``,
    ``CAMERA/image_raw/compressed``...

    ``/tf_static`` has the mounts of cameras, IMUs and sensors.

    Raises:
        ConfigError: the extra ``ros`` is not installed.
        RecordingError: two names become one in ROS.
    """
    _check_names(facts)
    try:
        from rosbags.rosbag2 import StoragePlugin
        from rosbags.rosbag2 import Writer as Ros2Writer

        from vil_bridge.protocols.ros_sensor_messages import SensorMessages
    except ModuleNotFoundError as exc:
        raise ConfigError(f"export to ros2: {explain_missing(exc)}") from exc
    out.rmdir()  # empty, and the library wants to make it
    with Ros2Writer(out, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        bag = _Bag(writer, SensorMessages("jazzy"))
        _write_motions(bag, recording, facts)
        _write_samples(bag, recording, facts)
        _write_readings(bag, recording, facts)
        _write_pictures(bag, recording, facts)
        if bag.written:
            _write_places(bag, recording, facts)
    return bag.written


def _check_names(facts: RecordingFacts) -> None:
    """Check that what is written apart stays apart.

    Raises RecordingError: two names become one in ROS.
    """
    groups = [
        ("actors", [a.name for a in facts.actors]),
        ("cameras", [c.model.name for c in facts.cameras]),
    ]
    groups += [(f"sensors of {actor.name}", list(actor.sensors)) for actor in facts.actors]
    for what, names in groups:
        if (same := same_in_ros(names)) is not None:
            raise RecordingError(
                f"{what}: {same[0]} and {same[1]} become one topic in ROS. Export to csv instead"
            )


class _Bag:
    """Topics made at their first message.

    Attributes:
        written: messages by topic. places: of the sensors that were written, by frame.
        moves: Unix time and place of each camera that was moved in flight.
    """

    def __init__(self, writer: Writer, messages: SensorMessages) -> None:
        self.messages = messages
        self.written: Counter[str] = Counter()
        self.places: dict[str, TransformLink] = {}
        self.moves: list[tuple[int, TransformLink]] = []
        self._writer = writer
        self._connections: dict[str, Connection] = {}

    def write(
        self, topic: str, kind: str, t_utc_ns: int, message: memoryview, *, latched: bool = False
    ) -> None:
        """One message; of a latched topic those who come late get it, too."""
        connection = self._connections.get(topic)
        if connection is None:
            from vil_bridge.protocols.ros_topics import Topic, qos_of

            qos = [qos_of(Topic(topic, kind, latched))]
            store = self.messages.store
            connection = self._writer.add_connection(
                topic, kind, typestore=store, offered_qos_profiles=qos
            )
            self._connections[topic] = connection
        self._writer.write(connection, t_utc_ns, message)
        self.written[topic] += 1


def _write_motions(bag: _Bag, recording: Recording, facts: RecordingFacts) -> None:
    from vil_bridge.protocols.ros_messages import TransformLink

    for actor, motion in motions(recording, facts):
        body = _body(actor)
        odometry = bag.messages.odometry(motion.t_ns, _WORLD, body, motion)
        bag.write(f"/{ros_name(actor)}/odom", "nav_msgs/msg/Odometry", motion.t_ns, odometry)
        moved = bag.messages.transforms(
            motion.t_ns, [TransformLink(_WORLD, body, motion.T_world_body)]
        )
        bag.write("/tf", "tf2_msgs/msg/TFMessage", motion.t_ns, moved)


def _write_samples(bag: _Bag, recording: Recording, facts: RecordingFacts) -> None:
    carriers: dict[str, list[str]] = defaultdict(list)
    for actor in facts.actors:
        carriers[actor.imu].append(actor.name)
    for source, felt in samples(recording):
        for name in carriers[source]:
            message = bag.messages.imu(felt.t_utc_ns, _imu(name), felt.w_radps, felt.f_mps2)
            bag.write(
                f"/{ros_name(name)}/imu/data_raw", "sensor_msgs/msg/Imu", felt.t_utc_ns, message
            )


def _write_readings(bag: _Bag, recording: Recording, facts: RecordingFacts) -> None:
    """Write the readings that have a standard message.

    Each beam of a distance sensor as a Range in its own frame.
    """
    from vil_bridge.protocols.ros_messages import TransformLink
    from vil_bridge.protocols.ros_sensor_messages import RANGE_TYPE, SENSOR_TYPES

    for t_utc_ns, actor, sensor, kind, reading in readings(recording, facts):
        topic = f"/{ros_name(actor.name)}/sensors/{ros_name(sensor)}"
        frame = f"{actor.name}/{sensor}_link"
        described = actor.sensors.get(sensor, SensorDescription(kind))
        if isinstance(reading, DistanceReading):
            for number, range_m in enumerate(reading.ranges_m, 1):
                message = bag.messages.range(
                    t_utc_ns, f"{frame}_{number}", reading, range_m, described
                )
                bag.write(topic, RANGE_TYPE, t_utc_ns, message)
                bag.places[f"{frame}_{number}"] = TransformLink(
                    _body(actor.name), f"{frame}_{number}", beam_pose(reading, number - 1)
                )
        elif kind in SENSOR_TYPES:
            message = bag.messages.reading(t_utc_ns, frame, reading, described)
            bag.write(topic, SENSOR_TYPES[kind], t_utc_ns, message)
            bag.places[frame] = TransformLink(_body(actor.name), frame, described.T_body_sensor)


def _write_pictures(bag: _Bag, recording: Recording, facts: RecordingFacts) -> None:
    cameras = {camera.model.name: camera for camera in facts.cameras}
    baselines_m = _baselines_m(facts)
    for name, variants in recording.cameras().items():
        frame = _optical(name)
        topic = f"/{ros_name(name)}"
        camera = cameras[name]
        mount: Any = None
        for header, jpeg in shown(recording, name, variants[0]):
            t_utc_ns = header["t_display_ns"] + recording.utc_offset_ns
            if header.get("T_body_camera", mount) != mount:
                mount = header["T_body_camera"]
                bag.moves.append((t_utc_ns, _moved(recording, camera, mount)))
            message = bag.messages.jpeg(t_utc_ns, frame, jpeg)
            bag.write(
                f"{topic}/image_raw/compressed",
                "sensor_msgs/msg/CompressedImage",
                t_utc_ns,
                message,
            )
            info = bag.messages.camera_info(
                t_utc_ns, frame, camera.model, baselines_m.get(name, 0.0)
            )
            bag.write(f"{topic}/camera_info", "sensor_msgs/msg/CameraInfo", t_utc_ns, info)


def _moved(recording: Recording, camera: CameraInfo, mount: Any) -> TransformLink:
    """Return where a camera is from a picture on.

    Raises RecordingError: the picture does not state it.
    """
    from vil_bridge.protocols.ros_messages import TransformLink

    name = camera.model.name
    try:
        T_body_camera = TransformConfig.model_validate(mount).transform()
    except ValidationError as exc:
        raise RecordingError(
            f"{recording.path}: a picture of {name} has a damaged mount; get a fresh copy"
        ) from exc
    return TransformLink(
        _body(camera.actor), _optical(name), camera.T_body_optical_at(T_body_camera)
    )


def _write_places(bag: _Bag, recording: Recording, facts: RecordingFacts) -> None:
    """Write all places at the start, and again each time a camera was moved."""
    from vil_bridge.protocols.ros_messages import TransformLink

    links = [
        TransformLink(_body(c.actor), _optical(c.model.name), c.T_body_optical)
        for c in facts.cameras
    ]
    links += [
        TransformLink(_body(a.name), _imu(a.name), a.T_body_imu)
        for a in facts.actors
        if a.T_body_imu is not None
    ]
    links += bag.places.values()
    places = {link.child: link for link in links}
    if places:
        _write_static(bag, recording.started_utc_ns, places.values())
    for t_utc_ns, link in sorted(bag.moves, key=lambda move: move[0]):
        places[link.child] = link
        _write_static(bag, max(t_utc_ns, recording.started_utc_ns + 1), places.values())


def _write_static(bag: _Bag, t_utc_ns: int, links: Iterable[TransformLink]) -> None:
    message = bag.messages.transforms(t_utc_ns, list(links))
    bag.write("/tf_static", "tf2_msgs/msg/TFMessage", t_utc_ns, message, latched=True)


def _baselines_m(facts: RecordingFacts) -> dict[str, float]:
    """Return the distances of the right cameras of pairs from their left ones."""
    places = {camera.model.name: camera.T_body_optical for camera in facts.cameras}
    lefts = {
        name: places[name.removesuffix(RIGHT)]
        for name in places
        if name.removesuffix(RIGHT) in places
    }
    return {name: float((left.inverse() @ places[name]).p_m[0]) for name, left in lefts.items()}


def _body(actor: str) -> str:
    """Return the frame of an actor, or of what is fixed in the world."""
    return _WORLD if actor == _WORLD else f"{actor}/base_link"


def _imu(actor: str) -> str:
    return f"{actor}/imu_link"


def _optical(camera: str) -> str:
    return f"{camera}_optical"
