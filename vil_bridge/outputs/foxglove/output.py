"""The ``foxglove`` output: the topics of a recording, live at ``ws://127.0.0.1:8765``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import foxglove as sdk
import numpy as np
from foxglove_schemas_protobuf.CameraCalibration_pb2 import CameraCalibration
from foxglove_schemas_protobuf.CompressedImage_pb2 import CompressedImage
from foxglove_schemas_protobuf.FrameTransforms_pb2 import FrameTransforms
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.PosesInFrame_pb2 import PosesInFrame
from google.protobuf.message import Message

from vil_bridge.core.clock import NS_PER_S, WallClock, now_ns
from vil_bridge.core.errors import SinkError
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.installation import PACKAGES
from vil_bridge.core.types import ActorKind, ActorState, ImageArray, TrackingState
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.outputs.base import OutputBase, kind_of
from vil_bridge.outputs.foxglove.config import FoxgloveConfig
from vil_bridge.protocols import foxglove
from vil_bridge.protocols.image_codecs import encode_jpeg
from vil_bridge.runtime.pacing import call_periodically

_BACKLOG: Final = 64
"""Messages that wait for one client; then its oldest are dropped.

Half a second of poses and pictures.
"""
_SHOWN: Final = (TrackingState.TRACKED, TrackingState.COASTING)


class FoxgloveOutput(OutputBase):
    """Serves Foxglove's clients (implements ``Output``).

    The library sends in threads of its own; a client that does not read loses its oldest messages.
    Nothing is encoded without a subscriber.

    Attributes:
        status: counts ``poses`` and the pictures ``sent``; the fact ``url`` is what to open.
    """

    def __init__(self, name: str, config: FoxgloveConfig) -> None:
        super().__init__(name)
        self._config = config
        self._utc_ns = WallClock.of_run().utc_ns
        self._context = sdk.Context()
        self._tf = _Topic(self._context, "/tf", FrameTransforms)
        self._log = _Topic(self._context, "/log", Log)
        self._actors: dict[str, tuple[_Topic, _Topic]] = {}

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        """Return a thread of its own for each camera."""
        kind = kind_of(camera, self._config.variant)
        feed = _CameraFeed(self._context, self._tf, camera, kind[1], self._config)
        return self._add_sink(camera, {kind}, feed.send, lambda _kind: feed.wanted())

    async def run(self, world: WorldView) -> None:
        """Serve until cancelled.

        Raises:
            SinkError: the address cannot be had.
        """
        for actor in self._config.actors:
            topics = (("pose", PoseInFrame), ("skeleton", PosesInFrame))
            pose, skeleton = (
                _Topic(self._context, f"/actors/{actor}/{leaf}", kind) for leaf, kind in topics
            )
            self._actors[actor] = pose, skeleton
        server = await asyncio.to_thread(self._serve)
        try:
            self.status.facts["url"] = f"ws://{self._config.bind}:{server.port}"
            self.status.running()
            with self._overheard():
                await call_periodically(
                    self.name, self._config.rate_hz, lambda: self._publish(world)
                )
        finally:
            await asyncio.to_thread(server.stop)

    def _serve(self) -> Any:
        config = self._config
        try:
            return sdk.start_server(
                name="VIL Bridge",
                host=config.bind,
                port=config.port,
                context=self._context,
                message_backlog_size=_BACKLOG,
            )
        except RuntimeError as exc:
            raise SinkError(
                f"cannot serve Foxglove's clients at {config.bind}:{config.port}: {exc}"
            ) from exc

    def _publish(self, world: WorldView) -> None:
        """Publish all actors that are tracked now, if there is a subscriber."""
        if not (
            self._tf.wanted or any(topic.wanted for pair in self._actors.values() for topic in pair)
        ):
            return
        t_ns = now_ns()
        stamp_ns = self._utc_ns(t_ns)
        seen = [
            a for a in world.snapshot(t_ns).actors if a.name in self._actors and a.state in _SHOWN
        ]
        for actor in seen:
            self._publish_actor(stamp_ns, actor)
        if seen:
            poses = [(a.name, a.T_world_body) for a in seen]
            moved = [
                foxglove.transform(stamp_ns, foxglove.WORLD, n, T.p_m, T.q_xyzw) for n, T in poses
            ]
            self._tf.publish(stamp_ns, foxglove.transforms(moved))
        self.status.counters["poses"] += len(seen)

    def _publish_actor(self, stamp_ns: int, actor: ActorState) -> None:
        pose, skeleton = self._actors[actor.name]
        T_world_body = actor.T_world_body
        pose.publish(
            stamp_ns, foxglove.pose(stamp_ns, foxglove.WORLD, T_world_body.p_m, T_world_body.q_xyzw)
        )
        if actor.kind is ActorKind.HUMAN and actor.skeleton is not None:
            bones = actor.skeleton
            skeleton.publish(
                stamp_ns, foxglove.poses(stamp_ns, foxglove.WORLD, bones.p_m, bones.q_xyzw)
            )

    @contextmanager
    def _overheard(self) -> Iterator[None]:
        """Pass the bridge's log on for a while."""
        handler = _LogHandler(self._log)
        loggers = [logging.getLogger(name) for name in PACKAGES]
        for logger in loggers:
            logger.addHandler(handler)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeHandler(handler)


class _Topic:
    """One topic of protobuf messages; any thread."""

    def __init__(self, context: sdk.Context, name: str, kind: type[Message]) -> None:
        schema_name, encoding, data = foxglove.schema_of(kind.DESCRIPTOR)
        schema = sdk.Schema(name=schema_name, encoding=encoding, data=data)
        self._channel = sdk.Channel(
            name, schema=schema, message_encoding="protobuf", context=context
        )

    @property
    def wanted(self) -> bool:
        """True while there is a subscriber."""
        return self._channel.has_sinks()

    def publish(self, t_utc_ns: int, message: Message) -> None:
        """Send a message to its subscribers."""
        if self.wanted:
            self._channel.log(message.SerializeToString(), log_time=t_utc_ns)


class _CameraFeed:
    """One camera's pictures, its calibration once a second, and where it was.

    Belongs to one thread.
    """

    def __init__(
        self,
        context: sdk.Context,
        tf: _Topic,
        camera: CameraInfo,
        variant: str,
        config: FoxgloveConfig,
    ) -> None:
        self._model = camera.model
        self._frame = f"{camera.model.name}/{variant}"
        self._pictures = _Topic(context, f"/cameras/{self._frame}", CompressedImage)
        self._calibration = _Topic(
            context, f"/cameras/{self._frame}/calibration", CameraCalibration
        )
        self._tf = tf
        self._config = config
        self._utc_ns = WallClock.of_run().utc_ns
        self._calibrated_ns = -NS_PER_S

    def wanted(self) -> bool:
        """Return True while one of its topics has a subscriber."""
        return self._pictures.wanted or self._calibration.wanted

    def send(self, header: FrameHeader, pixels: ImageArray) -> None:
        """Send a picture, stamped with the instant that it shows."""
        t_ns = header.t_display_ns
        config = self._config
        stamp_ns = self._utc_ns(t_ns)
        if self._pictures.wanted:
            jpeg, _ = encode_jpeg(pixels, config.color, config.quality)
            self._pictures.publish(stamp_ns, foxglove.image(stamp_ns, self._frame, jpeg))
        if t_ns - self._calibrated_ns >= NS_PER_S:
            self._calibrated_ns = t_ns
            self._calibration.publish(
                stamp_ns, foxglove.calibration(stamp_ns, self._frame, self._model)
            )
        seen_from = header.pose_display
        if seen_from is not None:
            p_m = np.array(seen_from.p_m)
            q_xyzw = np.array(seen_from.q_xyzw)
            moved = foxglove.transform(stamp_ns, foxglove.WORLD, self._frame, p_m, q_xyzw)
            self._tf.publish(stamp_ns, foxglove.transforms([moved]))


class _LogHandler(logging.Handler):
    """Handler that publishes the bridge's log lines."""

    def __init__(self, topic: _Topic) -> None:
        super().__init__(logging.INFO)
        self._topic = topic

    def emit(self, record: logging.LogRecord) -> None:
        """Send one line with its own time."""
        t_utc_ns = round(record.created * NS_PER_S)
        try:
            self._topic.publish(
                t_utc_ns,
                foxglove.log_entry(t_utc_ns, record.levelno, record.name, record.getMessage()),
            )
        except Exception:  # the caller only logged a line
            self.handleError(record)
