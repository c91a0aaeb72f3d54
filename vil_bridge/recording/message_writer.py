"""Values of the bridge to messages of a recording.

Each exactly for replay, and as Foxglove shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, Final

import msgspec
import numpy as np
from google.protobuf.message import Message

from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.sensor_readings import (
    BarometerReading,
    BeaconsReading,
    ControlsReading,
    DistanceReading,
    GpsReading,
    ImuReading,
    LidarReading,
    MagnetometerReading,
    RotorsReading,
    SensorReadings,
)
from vil_bridge.core.types import ImuSample, SourceEvent, SourceFrame
from vil_bridge.protocols import foxglove
from vil_bridge.protocols.image_codecs import encode_jpeg
from vil_bridge.recording.actor_poses import Placing
from vil_bridge.recording.event_codec import EventEncoder
from vil_bridge.recording.mcap_writer import McapFile
from vil_bridge.recording.metadata import RecordingFacts
from vil_bridge.recording.topics import EVENTS, LOG, header_topic, picture_topic
from vil_bridge.recording.write_queue import LogLine, WaitingPicture

_VIEW_PERIOD_NS: Final = NS_PER_S // 62
"""Highest rate of an actor's displayed poses; the exact events have every sample."""
_CALIBRATION_PERIOD_NS: Final = NS_PER_S
_QUALITY: Final = 90
_IMU_SCHEMA: Final = (
    "vil.Imu",
    "jsonschema",
    msgspec.json.encode(
        {
            "type": "object",
            "properties": {
                "timestamp": {"type": "number", "description": "Unix time, seconds"},
                "w_radps": {"type": "array", "items": {"type": "number"}},
                "f_mps2": {"type": "array", "items": {"type": "number"}},
            },
        }
    ),
)
_JSON_TYPES: Final = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}


def _schema_of(reading: type[Any]) -> tuple[str, str, bytes]:
    """Return the schema of a kind of readings: names of the fields hold their units."""
    numbers = {"type": "array", "items": {"type": "number"}}
    properties: dict[str, object] = {
        "timestamp": {"type": "number", "description": "Unix time, seconds"}
    }
    for field in fields(reading):
        kind = _JSON_TYPES.get(str(field.type))
        several = {"type": "array", "items": numbers} if "Vector," in str(field.type) else numbers
        if "str," in str(field.type):
            several = {"type": "array", "items": {"type": "string"}}
        properties[field.name] = several if kind is None else {"type": kind}
    schema = msgspec.json.encode({"type": "object", "properties": properties})
    return f"vil.{reading.__name__}", "jsonschema", schema


_READING_SCHEMAS: Final[Mapping[type[Any], tuple[str, str, bytes]]] = {
    kind: _schema_of(kind)
    for kind in (
        ImuReading,
        BarometerReading,
        MagnetometerReading,
        GpsReading,
        RotorsReading,
        ControlsReading,
        DistanceReading,
        BeaconsReading,
    )
}


class MessageWriter:
    """Writes into one file; one thread."""

    def __init__(
        self, file: McapFile, facts: RecordingFacts, capture_ns: Callable[[SourceEvent], int | None]
    ) -> None:
        self._file = file
        self._utc_offset_ns = facts.utc_offset_ns
        self._capture_ns = capture_ns
        self._encoder = EventEncoder()
        self._placing = Placing(facts.actors)
        self._cameras = {info.model.name: info for info in facts.cameras}
        self._viewed_ns: dict[str, int] = {}

    def event(self, t_ns: int, event: SourceEvent) -> None:
        """Write a source event that came at a bridge time.

        Raises:
            OSError: the disk is full.
            OverflowError: one of its numbers has more than 64 bits.
        """
        t_capture_ns = self._capture_ns(event)
        channel = self._file.channel(EVENTS + event.source, "msgpack")
        for data in self._encoder.encode(event, t_capture_ns):
            self._file.write(channel, self._utc(t_ns), data)
        if t_capture_ns is None:
            return
        if isinstance(event, SourceFrame):
            self._frame(t_ns, event, t_capture_ns)
        elif isinstance(event, ImuSample):
            self._imu(t_ns, event, t_capture_ns)
        elif isinstance(event, SensorReadings):
            self._sensor(t_ns, event)

    def picture(self, picture: WaitingPicture) -> None:
        """Encode and write a picture, its metadata and where it was seen from.

        Raises:
            OSError: the disk is full.
        """
        header = picture.header
        t_log_ns = self._utc(picture.t_ns)
        camera = picture.camera
        variant = header.variant
        frame = f"{camera}/{variant}"
        t_shown_ns = self._utc(header.t_display_ns)
        pixels = picture.pixels[:, :, :3] if picture.pixels.ndim == 3 else picture.pixels
        jpeg, _ = encode_jpeg(pixels, "rgb", _QUALITY)
        self._file.write(
            self._file.channel(header_topic(camera, variant), "json"), t_log_ns, header.to_json()
        )
        self._show(
            picture_topic(camera, variant),
            t_log_ns,
            foxglove.image(t_shown_ns, frame, jpeg),
            t_shown_ns,
        )
        if self._due(frame, picture.t_ns, _CALIBRATION_PERIOD_NS):
            self._viewed_ns[frame] = picture.t_ns
            model = self._cameras[camera].model
            topic = f"{picture_topic(camera, variant)}/calibration"
            self._show(topic, t_log_ns, foxglove.calibration(t_shown_ns, frame, model), t_shown_ns)
        seen_from = header.pose_display
        if seen_from is not None:
            p_m = np.array(seen_from.p_m)
            q_xyzw = np.array(seen_from.q_xyzw)
            moved = foxglove.transform(t_shown_ns, foxglove.WORLD, frame, p_m, q_xyzw)
            self._show("/tf", t_log_ns, foxglove.transforms([moved]), t_shown_ns)

    def line(self, line: LogLine) -> None:
        """Write a line of the log.

        Raises:
            OSError: the disk is full.
        """
        t_utc_ns = self._utc(line.t_ns)
        self._show(
            LOG,
            t_utc_ns,
            foxglove.log_entry(t_utc_ns, line.level, line.component, line.text),
            t_utc_ns,
        )

    def _frame(self, t_ns: int, frame: SourceFrame, t_capture_ns: int) -> None:
        """Measured poses in the world, for people."""
        t_log_ns = self._utc(t_ns)
        t_utc_ns = self._utc(t_capture_ns)
        moved = []
        for placed in self._placing.placed(
            frame, lambda actor: self._due(actor, t_ns, _VIEW_PERIOD_NS)
        ):
            self._viewed_ns[placed.actor] = t_ns
            p_m = placed.T_world_body.p_m
            q_xyzw = placed.T_world_body.q_xyzw
            shown: Message = foxglove.pose(t_utc_ns, foxglove.WORLD, p_m, q_xyzw)
            self._show(f"/actors/{placed.actor}/pose", t_log_ns, shown, t_utc_ns)
            moved.append(foxglove.transform(t_utc_ns, foxglove.WORLD, placed.actor, p_m, q_xyzw))
            if placed.skeleton is not None:
                bones = foxglove.poses(
                    t_utc_ns, foxglove.WORLD, placed.skeleton.p_m, placed.skeleton.q_xyzw
                )
                self._show(f"/actors/{placed.actor}/skeleton", t_log_ns, bones, t_utc_ns)
        if moved:
            self._show("/tf", t_log_ns, foxglove.transforms(moved), t_utc_ns)

    def _imu(self, t_ns: int, sample: ImuSample, t_capture_ns: int) -> None:
        t_utc_ns = self._utc(t_capture_ns)
        fields = {
            "timestamp": t_utc_ns / NS_PER_S,
            "w_radps": sample.w_radps.tolist(),
            "f_mps2": sample.f_mps2.tolist(),
        }
        channel = self._file.channel(f"/imu/{sample.source}", "json", _IMU_SCHEMA)
        self._file.write(channel, self._utc(t_ns), msgspec.json.encode(fields), t_utc_ns)

    def _sensor(self, t_ns: int, event: SensorReadings) -> None:
        """Show the readings of one sensor to people, by vehicle; the exact event has every one."""
        t_utc_ns = self._utc(event.t_ns)
        for index, subject in enumerate(event.subjects):
            topic = f"/sensors/{event.source}/{subject}/{event.sensor}"
            if self._due(topic, t_ns, _VIEW_PERIOD_NS):
                self._viewed_ns[topic] = t_ns
                reading = event.reading(index, self._utc_offset_ns)
                if isinstance(reading, LidarReading):
                    cloud = foxglove.points(t_utc_ns, f"{event.source}/{subject}", reading)
                    self._show(topic, self._utc(t_ns), cloud, t_utc_ns)
                    continue
                shown = {"timestamp": t_utc_ns / NS_PER_S, **asdict(reading)}
                channel = self._file.channel(topic, "json", _READING_SCHEMAS[type(reading)])
                self._file.write(channel, self._utc(t_ns), msgspec.json.encode(shown), t_utc_ns)

    def _show(self, topic: str, t_log_ns: int, message: Message, t_publish_ns: int) -> None:
        channel = self._file.channel(topic, "protobuf", foxglove.schema_of(message.DESCRIPTOR))
        self._file.write(channel, t_log_ns, message.SerializeToString(), t_publish_ns)

    def _due(self, what: str, t_ns: int, period_ns: int) -> bool:
        last_ns = self._viewed_ns.get(what)
        return last_ns is None or t_ns - last_ns >= period_ns

    def _utc(self, t_ns: int) -> int:
        return t_ns + self._utc_offset_ns
