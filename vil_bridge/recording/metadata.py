"""Facts about the bridge that made a recording, with which its events are placed in the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vil_bridge.core.geometry import Transform
from vil_bridge.core.sensor_readings import SensorDescription
from vil_bridge.interfaces.ports import CameraInfo


@dataclass(frozen=True, slots=True)
class RecordedActor:
    """A body of the shared world and where its poses come from.

    Attributes:
        human: it is a skeleton.
        T_body_imu: None = it has no IMU; ``imu`` is then empty. sensors: its further sensors by
            name.
    """

    name: str
    source: str
    subject: str
    human: bool
    T_world_room: Transform
    T_body_markers: Transform
    imu: str = ""
    T_body_imu: Transform | None = None
    sensors: Mapping[str, SensorDescription] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """Of one run.

    Attributes:
        bridge, version: its name and version.
        config_text: the effective configuration (YAML).
        utc_offset_ns: Unix time minus bridge time.
        sources: names of those that are recorded.
    """

    bridge: str
    version: str
    config_text: str
    utc_offset_ns: int
    sources: tuple[str, ...] = ()
    actors: tuple[RecordedActor, ...] = ()
    cameras: tuple[CameraInfo, ...] = ()
