"""A renderer's end of the protocol: connects to the client, draws the requested images, answers.

The embedded renderer and the tests use it. It respects the limits of the original clients: ready is
repeated seldom, a settings message never gets a frame, frames are at least a millisecond apart.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import zmq
from msgspec import UNSET, UnsetType

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.types import ActorState, FloatArray, RenderedImage, View, WorldSnapshot
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest
from vil_renderer.flightmare.codec import (
    MAX_MESSAGE_BYTES,
    SUBSCRIPTIONS,
    Part,
    Request,
    decode_request,
    dialect_of,
    encode_answer,
    encode_json,
)
from vil_renderer.flightmare.convert_renderer import (
    Fan,
    ImageRequest,
    Task,
    read_scene,
    write_picture,
)
from vil_renderer.flightmare.files import Folder, PointCloud, PointClouds, read_object_csv
from vil_renderer.flightmare.layout import Layer
from vil_renderer.flightmare.messages import (
    NO_OBJECTS,
    CollisionCheckMessage,
    CollisionStateMessage,
    Dialect,
    EventCameraMessage,
    EventMessage,
    EventsMessage,
    FlightmareHeader,
    FrameExtension,
    PointCloudMessage,
    ReadyMessage,
    SceneMessage,
    TimeMessage,
    VehicleStateMessage,
)
from vil_renderer.flightmare.scenes import our_scene
from vil_renderer.refusals import RefusalLog

__all__ = ["Draw", "FlightmareServerConfig", "RenderedRequest", "Senses", "serve"]

logger = logging.getLogger(__name__)

Draw = Callable[[tuple[View, ...], WorldSnapshot], RenderedRequest]
"""Draws views of RGB, DEPTH32, INSTANCE and FLOW.

Runs in the thread of :func:`serve`; raises RendererError when it cannot.
"""

_Request = TypeVar("_Request", SceneMessage, PointCloudMessage, CollisionCheckMessage)
_POLL_MS: Final = 50
_RECONNECT_MS: Final = 100
_DRAIN_LIMIT: Final = 64
_POSE_HWM: Final = 8
_IMAGE_HWM: Final = 4
_SUBSCRIPTION_BYTES: Final = 256
_NAME_LIMIT: Final = 256
_UNSET_POSE: Final = (
    "T_BC is not the matrix of a pose, the body's origin is taken. Set the "
    "camera's relative pose before you connect"
)
_NO_NUMBER: Final = 0
"""Frame number of clients that do not count; any other one is answered once."""


@dataclass(frozen=True, slots=True)
class FlightmareServerConfig:
    """Address of the client, and its access to the disk.

    Attributes:
        folder: of point clouds that it asks for and lists of objects that it names; None = neither.
        any_folder: take any absolute path, as the original program does.
        ready_period_s: least time between two ready messages.
        reply_gap_s: least time between two messages: an old client loses poses in a quicker
            exchange.
    """

    client_ip: str = "127.0.0.1"
    pose_port: int = 10253
    image_port: int = 10254
    folder: Path | None = None
    any_folder: bool = False
    ready_period_s: float = 0.25
    reply_gap_s: float = 0.001


@dataclass(frozen=True, slots=True)
class Senses:
    """Abilities of a renderer beyond images; None = not available.

    Attributes:
        load_scene: change to the scene of this name; raises RendererError.
        collides: whether the vehicle of this name touches something.
        ranges: lengths of a fan's rays in metres, shape (n,), the limit and 1 m more where they hit
            nothing.
        occupied: whether a sphere at a point (3,) of a radius in metres touches something.
        point_cloud: see :data:`~vil_renderer.flightmare.files.PointCloud`.
        events: what an event camera saw between its last picture and this one.
    """

    load_scene: Callable[[str], None] | None = None
    collides: Callable[[str, WorldSnapshot], bool] | None = None
    ranges: Callable[[Fan, WorldSnapshot], FloatArray] | None = None
    occupied: Callable[[FloatArray, float], bool] | None = None
    point_cloud: PointCloud | None = None
    events: (
        Callable[[RenderedImage, EventCameraMessage, WorldSnapshot], Sequence[EventMessage]] | None
    ) = None


def serve(
    draw: Draw,
    config: FlightmareServerConfig,
    stop: threading.Event,
    counters: Counter[str] | None = None,
    senses: Senses | None = None,
) -> None:
    """Answer until ``stop`` is set; clients may connect, disconnect and send garbage.

    Args:
        draw: makes the pictures.
        config: peer and behaviour.
        stop: looked at least every 50 ms between two drawings.
        counters: ``settings``, ``ready``, ``poses``, ``answered``, ``superseded``, ``repeated``,
            ``malformed``, ``failed``, ``unset_poses`` (settings with a camera whose ``T_BC`` is not
            a pose), ``checked`` and those of :class:`~vil_renderer.flightmare.files.PointClouds`
            are counted here.
        senses: what there is beyond pictures.
    """
    context = zmq.Context()
    if counters is None:
        counters = Counter()
    server = _Server(context, draw, config, stop, counters, senses or Senses())
    try:
        server.run()
    finally:
        server.close()
        context.destroy(linger=0)


class _Server:
    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        draw: Draw,
        config: FlightmareServerConfig,
        stop: threading.Event,
        counters: Counter[str],
        senses: Senses,
    ) -> None:
        self._draw = draw
        self._config = config
        self._stop = stop
        self._counters = counters
        self._senses = senses
        self._folder = None if config.folder is None else Folder(config.folder, config.any_folder)
        self._clouds = PointClouds(senses.point_cloud, self._folder, counters)
        self._settings: SceneMessage | None = None
        self._repeated: tuple[list[bytes], SceneMessage | None] = [], None
        self._fixtures: tuple[ActorState, ...] = ()
        self._scene = ""
        self._stamp: int | None = None
        self._t_ready_ns = -NS_PER_S
        self._t_sent_ns = 0
        self._ready_gap_ns = 0
        self._poses = context.socket(zmq.SUB)
        self._images = context.socket(zmq.XPUB)
        self._subscribed = False
        self._refusals = RefusalLog(logger, f"client {config.client_ip}:{config.pose_port}")
        for socket in (self._poses, self._images):
            socket.linger = 0
            socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self._poses.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
        self._poses.setsockopt(zmq.RCVHWM, _POSE_HWM)
        self._images.setsockopt(zmq.SNDHWM, _IMAGE_HWM)
        self._images.setsockopt(zmq.MAXMSGSIZE, _SUBSCRIPTION_BYTES)
        for topic in SUBSCRIPTIONS:
            self._poses.subscribe(topic)
        self._monitor = self._poses.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._poses.connect(f"tcp://{config.client_ip}:{config.pose_port}")
        self._images.connect(f"tcp://{config.client_ip}:{config.image_port}")

    def close(self) -> None:
        """Release the sockets, then wait for a point cloud that is being made."""
        self._poses.disable_monitor()
        self._monitor.close(linger=0)
        self._poses.close(linger=0)
        self._images.close(linger=0)
        self._clouds.close()

    def run(self) -> None:
        """Answer until stopped."""
        while not self._stop.is_set():
            self._read_subscriptions()
            self._reset_on_disconnect()
            if self._poses.poll(_POLL_MS):
                pose = self._receive()
                if pose is not None:
                    self._guarded(self._render, pose)

    def _read_subscriptions(self) -> None:
        """Read whether the client has subscribed: what is sent before is lost."""
        for _ in range(_DRAIN_LIMIT):
            try:
                self._subscribed = self._images.recv(zmq.NOBLOCK)[:1] == b"\x01"
            except zmq.Again:
                return

    def _reset_on_disconnect(self) -> None:
        """Reset after a disconnection.

        The next client is another one, even if its settings are the same.
        """
        while self._monitor.poll(0):
            self._monitor.recv_multipart()
            self._refusals.reset()
            self._repeated = [], None

    def _receive(self) -> SceneMessage | None:
        """Read all that waits: the newest pose, unless settings came after it."""
        newest: SceneMessage | None = None
        for _ in range(_DRAIN_LIMIT):
            try:
                parts = self._poses.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            try:
                request = self._decode(parts)
            except ProtocolError as exc:
                self._count_error("malformed", exc)
                continue
            if isinstance(request, PointCloudMessage):
                self._guarded(self._clouds.start, request)
            elif isinstance(request, CollisionCheckMessage):
                self._guarded(self._check, request)
            else:
                self._counters["superseded"] += newest is not None
                newest = request if request.stamp is not None else None
                self._counters["settings" if newest is None else "poses"] += 1
                if newest is None:
                    self._guarded(self._greet, request)
        return newest

    def _decode(self, parts: list[bytes]) -> Request:
        """Read a request.

        Clients repeat their settings byte for byte until ready, which costs no second reading.
        """
        if parts != self._repeated[0]:
            request = decode_request(parts)
            if not isinstance(request, SceneMessage) or request.stamp is not None:
                return request
            self._repeated = parts, request
        assert self._repeated[1] is not None
        return self._repeated[1]

    def _guarded(self, handle: Callable[[_Request], None], request: _Request) -> None:
        try:
            handle(request)
        except ProtocolError as exc:
            self._count_error("malformed", exc)
        except (RendererError, ArithmeticError, LookupError, MemoryError, ValueError) as exc:
            # Unexpected numbers fail their own request, not the process.
            self._count_error("failed", exc)

    # --- requests ------------------------------------------------------------------------------

    def _greet(self, settings: SceneMessage) -> None:
        """Take settings, and say that we are ready unless that was just said.

        Settings that came while others were taken wait for as long as that took: they are no second
        question.
        """
        if settings is not self._settings:
            started_ns = now_ns()
            self._adopt(settings)
            self._ready_gap_ns = max(
                round(self._config.ready_period_s * NS_PER_S), now_ns() - started_ns
            )
        self._stamp = None
        if self._subscribed and now_ns() - self._t_ready_ns >= self._ready_gap_ns:
            self._counters["ready"] += 1
            self._send(encode_answer(ReadyMessage(ready=True)))
            self._t_ready_ns = now_ns()

    def _adopt(self, settings: SceneMessage) -> None:
        """Make scene and fixtures of settings, once it is known that they make sense."""
        unset = read_scene(settings, settings, 0).unset
        if unset:
            self._counters["unset_poses"] += 1
            self._refusals.add(f"camera {min(unset)!r} ({len(unset)} in all): {_UNSET_POSE}")
        scene = our_scene(dialect_of(settings), settings.scene_id)
        if self._senses.load_scene is not None and scene != self._scene:
            self._senses.load_scene(scene)
        self._scene = scene
        self._fixtures = self._listed(settings)
        self._settings = settings

    def _listed(self, settings: SceneMessage) -> tuple[ActorState, ...]:
        if (
            settings.object_csv is UNSET
            or settings.object_csv in ("", NO_OBJECTS)
            or self._folder is None
        ):
            return ()
        try:
            return read_object_csv(self._folder.place(settings.object_csv))
        except (ProtocolError, RendererError) as exc:
            self._count_error("malformed", exc)
            return ()

    def _check(self, request: CollisionCheckMessage) -> None:
        if self._senses.occupied is None:
            raise RendererError("this renderer checks no points")
        hit = self._senses.occupied(np.array(request.checked_point), 0.5 * request.drone_width)
        answer = CollisionStateMessage(
            get_msg=True, if_collision=hit, new_point=request.checked_point
        )
        self._send(encode_answer(answer))
        self._counters["checked"] += 1

    def _render(self, message: SceneMessage) -> None:
        """Answer a pose.

        The first one after a start may come without settings and stands in for them.
        """
        stamp = message.stamp
        assert stamp is not None
        if stamp != _NO_NUMBER and stamp == self._stamp:
            self._counters["repeated"] += 1
            return
        if self._settings is None or [v.ID for v in self._settings.vehicles] != [
            v.ID for v in message.vehicles
        ]:
            self._adopt(message)
            assert self._settings is not None
        task = read_scene(message, self._settings, stamp, self._fixtures)
        started_ns = now_ns()
        drawn = self._draw(task.views, task.snapshot) if task.requests else RenderedRequest(())
        pictures = self._pictures(message, task, {image.view.key: image for image in drawn.images})
        header = self._header(message, task, drawn)
        if message.vil is not UNSET:
            name = str(drawn.info.get("renderer", "vil"))[:_NAME_LIMIT]
            refused = self._refusals.summary()
            header.vil = FrameExtension(
                renderer=name, render_ns=now_ns() - started_ns, refused=refused
            )
        self._send(encode_answer(header, pictures))
        self._stamp = stamp
        self._counters["answered"] += 1

    # --- answers -------------------------------------------------------------------------------

    def _header(
        self, message: SceneMessage, task: Task, drawn: RenderedRequest
    ) -> FlightmareHeader:
        changed: bool | UnsetType = UNSET
        if dialect_of(message) is Dialect.AVOIDBENCH:
            # Our scenes are ready when they are asked for. Published clients read this key at the
            # top.
            changed = message.spawn_new_obj is True
        states = [
            VehicleStateMessage(
                collision=self._collides(name, task, drawn),
                lidar_ranges=self._ranges(fan, task.snapshot),
                scene_change_feedback=changed,
            )
            for name, fan in zip(task.vehicles, task.fans, strict=True)
        ]
        return FlightmareHeader(
            frame_id=message.frame_id,
            ntime=message.ntime,
            pub_vehicles=states,
            scene_change_feedback=changed,
        )

    def _collides(self, vehicle: str, task: Task, drawn: RenderedRequest) -> bool:
        if vehicle not in task.checked:
            return False
        if self._senses.collides is None:
            return drawn.collision
        return self._senses.collides(vehicle, task.snapshot)

    def _ranges(self, fan: Fan | None, snapshot: WorldSnapshot) -> list[float]:
        if fan is None or self._senses.ranges is None:
            return []
        ranges_m: list[float] = self._senses.ranges(fan, snapshot).tolist()
        return ranges_m

    def _pictures(
        self, message: SceneMessage, task: Task, images: dict[str, RenderedImage]
    ) -> list[Part]:
        parts: list[Part] = []
        if dialect_of(message) is Dialect.AVOIDBENCH:
            parts.append(encode_json(self._clouds.state()))
        for request in task.requests:
            parts.append(write_picture(request, images))
            if request.slot.layer is Layer.EVENTS:
                parts += self._events(request, images[request.view.key], task.snapshot)
        return parts

    def _events(
        self, request: ImageRequest, image: RenderedImage, snapshot: WorldSnapshot
    ) -> list[Part]:
        seen: Sequence[EventMessage] = ()
        if self._senses.events is not None and request.events is not None:
            seen = self._senses.events(image, request.events, snapshot)
        now = TimeMessage(current_time=snapshot.t_ns, next_timestep=snapshot.t_ns, rgb_frame=True)
        return [encode_json(EventsMessage(events=list(seen))), encode_json(now)]

    def _send(self, parts: Sequence[Part]) -> None:
        rest_s = self._config.reply_gap_s - (now_ns() - self._t_sent_ns) / NS_PER_S
        if rest_s > 0.0:
            self._stop.wait(rest_s)
        self._images.send_multipart(parts, copy=False)
        self._t_sent_ns = now_ns()

    def _count_error(self, name: str, exc: Exception) -> None:
        self._counters[name] += 1
        self._refusals.add(f"a message was dropped ({name}): {exc}", exc)
