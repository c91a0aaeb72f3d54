"""The bridge's end of the protocol: asks FlightGoggles, or the embedded renderer, for pictures.

The bridge binds both ports and renderers dial in. High-water marks do not bound a renderer's backlog
(small poses pile up in TCP buffers), so at most ``max_in_flight`` poses are unanswered. A renderer
that is new, loading or silent is *opening*: poses then go out slowly, since the first ones are
swallowed and a loading scene must not collect a queue.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec
import zmq
from msgspec import UNSET

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.pixels import FORMAT_OF, RGB8
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ActorKind, ImageArray, Modality, RenderedFrame, RenderRequest
from vil_bridge.core.wire.zmq_peers import PeerCounter
from vil_renderer.flightgoggles.codec import TOPIC, WireView, decode_header, encode_pose
from vil_renderer.flightgoggles.config import FlightGogglesConfig
from vil_renderer.flightgoggles.convert import PoseWriter, read_answer
from vil_renderer.flightgoggles.handover import PictureTaker
from vil_renderer.flightgoggles.messages import ImageHeader, PoseMessage
from vil_renderer.flightgoggles.sockets import bind, image_socket, pose_socket

__all__ = ["FlightGogglesClient"]

logger = logging.getLogger(__name__)

_OPENING_PERIOD_NS: Final = NS_PER_S // 10
_OPENING_QUICK: Final = 10
"""Poses sent at the opening period; a renderer that has not answered them is still loading."""
_REPEAT_BASE: Final = 1 << 62
"""First ``ntime`` of repeated requests: beyond all frame ids, which are times in nanoseconds."""
_IN_FLIGHT_LIMIT: Final = 256
_COUNTERS: Final = (
    *("sent", "repeats", "answered", "duplicates", "unanswered", "skipped", "swallowed"),
    *("refused", "malformed", "unsupported", "blank"),
)
_SUBSCRIPTIONS_PER_CALL: Final = 64
_HIDDEN_FACT: Final = "hidden_from_original_renderers"
_INFO_FACT: Final = "info"
_INFO_LIMIT: Final = 32


@dataclass(slots=True)
class _Asked:
    """A request that went out, perhaps several times."""

    request: RenderRequest
    message: PoseMessage
    answered: bool = False


class FlightGogglesClient:
    """One renderer connection; implements ``vil_bridge.core.ports.RendererClient``.

    ``ready``, ``request`` and ``keep_alive`` belong to one thread, ``receive`` to another.
    Counters: ``sent``, ``answered``, ``repeats``, ``duplicates`` (an answer nobody waits for),
    ``unanswered`` (given up), ``skipped`` (a later one was answered), ``swallowed`` (before the first
    answer), ``refused`` (could not be sent), ``malformed``, ``unsupported`` (pictures left out),
    ``blank`` (all pixels alike), and those of :class:`PeerCounter`.

    Attributes:
        pose_port, image_port: the ports bound.
    """

    def __init__(self, name: str, config: FlightGogglesConfig) -> None:
        self.name = name
        self.status = Status(name)
        self.status.counters.update(dict.fromkeys(_COUNTERS, 0))
        self._config = config
        self._answer_timeout_ns = round(config.answer_timeout_s * NS_PER_S)
        self._keep_alive_ns = round(config.keep_alive_s * NS_PER_S)
        self._writer = PoseWriter(
            config.scene,
            {
                ActorKind.VEHICLE: config.vehicle_prefab,
                ActorKind.HUMAN: config.bone_prefab,
                ActorKind.PROP: config.prop_prefab,
            },
        )
        self._lock = threading.Lock()  # guards the in-flight table, the state and the status
        self._in_flight: dict[int, tuple[_Asked, int]] = {}
        self._topics: set[bytes] = set()
        self._opening = True
        self._original = False
        self._seen_picture = False
        self._opening_sent = 0
        self._newest: _Asked | None = None
        self._repeats = 0
        self._t_sent_ns = 0
        self._t_answer_ns = 0
        self._socket_lock = threading.Lock()  # close() may come while receive() runs
        self._closed = False
        self._context = zmq.Context()
        self._poses = pose_socket(self._context)
        self._images = image_socket(self._context, config.max_picture_mib << 20)
        self._peers = [PeerCounter(socket, self.status.counters) for socket in (self._poses, self._images)]
        try:
            self.pose_port = bind(self._poses, config.bind, config.pose_port)
            self.image_port = bind(self._images, config.bind, config.image_port)
        except RendererError:
            self._context.destroy(linger=0)
            raise
        self._taker = PictureTaker()
        self._image_fd = self._images.getsockopt(zmq.FD)
        self._await_renderer()

    # --- the loop's side -----------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered yet."""
        return len(self._in_flight)

    def ready(self) -> bool:
        """True when a renderer is connected and may be given one more pose."""
        if self._closed:
            return False
        self._read_subscriptions()
        now = now_ns()
        with self._lock:
            self._give_up_unanswered(now)
            if not self._topics:
                return False
            if self._opening:
                quick = self._opening_sent < _OPENING_QUICK
                return now - self._t_sent_ns >= (_OPENING_PERIOD_NS if quick else self._keep_alive_ns)
            return len(self._in_flight) < self._config.max_in_flight

    def request(self, request: RenderRequest) -> None:
        """Send a request now. One that comes while not :meth:`ready`, or that cannot be expressed, is refused."""
        if not self.ready():
            self._refuse("the renderer was not ready")
            return
        try:
            self._check(request)
            asked = _Asked(request, self._writer.message(request))
            self._send(asked, request.frame_id)
        except RendererError as exc:
            self._refuse(str(exc))
            return
        self._newest = asked
        self._tell_what_is_not_drawn()

    def keep_alive(self) -> None:
        """Repeat the newest request when nothing was sent for ``keep_alive_s``; count peers."""
        if not self._closed:
            with self._lock:
                for peers in self._peers:
                    peers.update()
        ready = self.ready()  # asked every time, so that a renderer that went away is noticed while it is idle
        if ready and self._newest is not None and now_ns() - self._t_sent_ns >= self._keep_alive_ns:
            self._repeats += 1
            self._send(self._newest, _REPEAT_BASE + self._repeats)

    def _check(self, request: RenderRequest) -> None:
        if not 0 < request.frame_id < _REPEAT_BASE:
            raise RendererError(f"frame id {request.frame_id} is out of range")
        for view in request.views:
            width_px, height_px = view.camera.width_px, view.camera.height_px
            size = max(RGB8.nbytes(width_px, height_px), FORMAT_OF[view.modality].nbytes(width_px, height_px))
            if size > self._config.max_picture_mib << 20:
                raise RendererError(f"pictures of {view.key!r} exceed max_picture_mib = {self._config.max_picture_mib}")

    def _send(self, asked: _Asked, ntime: int) -> None:
        message = msgspec.structs.replace(asked.message, ntime=ntime, utime=ntime)
        if message.vil is not UNSET and self._taker.nonce:
            message.vil = msgspec.structs.replace(message.vil, ring=self._taker.nonce)
        frames = encode_pose(message)
        now = now_ns()
        with self._lock:
            if len(self._in_flight) >= _IN_FLIGHT_LIMIT:
                del self._in_flight[next(iter(self._in_flight))]
                self.status.counters["swallowed"] += 1
            self._in_flight[ntime] = (asked, now)
            self._t_sent_ns = now
            self._opening_sent += self._opening
            self.status.counters["sent" if ntime < _REPEAT_BASE else "repeats"] += 1
        self._poses.send_multipart(frames)

    def _refuse(self, reason: str) -> None:
        with self._lock:
            self.status.counters["refused"] += 1
            self.status.facts["refused"] = reason
            first = self.status.counters["refused"] == 1
        logger.log(logging.WARNING if first else logging.DEBUG, "%s: a request was refused: %s", self.name, reason)

    def _tell_what_is_not_drawn(self) -> None:
        facts = self.status.facts
        if self._writer.without_prefab:
            facts["without_prefab"] = sorted(self._writer.without_prefab)
        hidden = sorted(self._writer.disputed)
        with self._lock:
            if not self._original or facts.get(_HIDDEN_FACT, []) == hidden:
                return
            facts[_HIDDEN_FACT] = hidden
        logger.warning(
            "%s: this renderer cannot hide %s from one camera and show it to another, so pictures that are asked for "
            "together with the one that hides it do not show it: give each such vehicle its own renderer connection",
            self.name,
            ", ".join(hidden),
        )

    def _read_subscriptions(self) -> None:
        """Learn from the pose socket whether a renderer is connected."""
        for _ in range(_SUBSCRIPTIONS_PER_CALL):
            try:
                data = self._poses.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            kind, topic = data[:1], data[1:]
            with self._lock:
                if kind not in (b"\x00", b"\x01"):
                    self._count_malformed(f"{len(data)} bytes on the pose port are no subscription")
                elif not TOPIC.startswith(topic):
                    continue
                elif kind == b"\x01":
                    self._topics.add(topic)
                    self._reopen("swallowed")
                else:
                    self._topics.discard(topic)
                    self._reopen("unanswered")

    # --- below: with self._lock held -----------------------------------------------------------

    def _reopen(self, reason: str) -> None:
        """The renderer is new, gone or silent: what it owes will not come."""
        self.status.counters[reason] += len(self._in_flight)
        self._in_flight.clear()
        self._opening = True
        self._opening_sent = 0
        self._await_renderer()

    def _give_up_unanswered(self, now: int) -> None:
        if self._opening or not self._in_flight:
            return
        _, t_oldest_ns = next(iter(self._in_flight.values()))
        if now - max(t_oldest_ns, self._t_answer_ns) > self._answer_timeout_ns:
            self._reopen("unanswered")

    def _await_renderer(self) -> None:
        if self._topics:
            self.status.waiting(
                "a renderer is connected and has not answered: it loads its scene, is stopped or cut off, or its image "
                f"port is not {self.image_port}"
            )
        else:
            self.status.facts.pop("connected_since_ns", None)
            self.status.facts.pop("pictures_by", None)
            self.status.waiting(
                f"no renderer has connected to {self._config.bind}:{self.pose_port}: start one: `vil-bridge renderer "
                f"--input-port {self.pose_port} --output-port {self.image_port}` or FlightGoggles with -client-ip "
                f"<this host> -input-port {self.pose_port} -output-port {self.image_port}"
            )

    def _count_malformed(self, reason: str) -> None:
        self.status.counters["malformed"] += 1
        level = logging.WARNING if self.status.counters["malformed"] == 1 else logging.DEBUG
        logger.log(level, "%s: dropped a message: %s", self.name, reason)

    # --- the relay thread's side ---------------------------------------------------------------

    def fileno(self) -> int:
        """Descriptor of the image socket, edge-triggered: call :meth:`receive` until it returns None."""
        return int(self._image_fd)

    def receive(self) -> RenderedFrame | None:
        """The next answer, None when nothing is waiting."""
        while True:
            try:
                answer = self._next_answer()
            except ProtocolError as exc:
                with self._lock:
                    self._count_malformed(str(exc))
                    if self._opening and self._topics:
                        self.status.waiting(f"a renderer is connected, but its answers cannot be read: {exc}")
                continue
            if answer is None:
                return None
            frame = self._accept(*answer)
            if frame is not None:
                return frame

    def close(self) -> None:
        """Release the sockets at once; may be called twice."""
        with self._socket_lock:
            if not self._closed:
                self._closed = True
                for peers in self._peers:
                    peers.close()
                self._taker.close()
                self._context.destroy(linger=0)
        self.status.stopped()

    def _next_answer(self) -> tuple[ImageHeader, tuple[WireView, ...], int] | None:
        with self._socket_lock:
            if self._closed:
                return None
            try:
                parts = [part.buffer for part in self._images.recv_multipart(zmq.NOBLOCK, copy=False)]
            except zmq.Again:
                if not self._topics:
                    self._taker.close()
                return None
            t_image_ns = now_ns()
            header = decode_header(parts[0])
            return header, self._taker.pictures(header, parts[1:]), t_image_ns

    def _accept(self, header: ImageHeader, pictures: tuple[WireView, ...], t_image_ns: int) -> RenderedFrame | None:
        """Match an answer with its request."""
        counters = self.status.counters
        with self._lock:
            if header.stamp not in self._in_flight:
                counters["duplicates"] += 1
                return None
            asked = self._settle(header.stamp)
            self._t_answer_ns = t_image_ns
            if self._opening:
                self._connected(header, t_image_ns)
            if asked.answered:
                return None
            asked.answered = True
            counters["answered"] += 1
            self.status.facts["pictures_by"] = self._taker.way
            if header.vil is not UNSET:
                self._tell_what_it_says(header.vil.info)
        frame, problems = read_answer(header, pictures, asked.request, t_image_ns)
        self._judge(frame, problems)
        return frame

    def _settle(self, ntime: int) -> _Asked:
        """Take an answered request from the table, and those before it: their answers will not come."""
        while True:
            oldest = next(iter(self._in_flight))
            asked, _ = self._in_flight.pop(oldest)
            if oldest == ntime:
                return asked
            self.status.counters["swallowed" if self._opening else "skipped"] += 1

    def _connected(self, header: ImageHeader, t_image_ns: int) -> None:
        self._opening = False
        self._seen_picture = False
        facts = self.status.facts
        facts["api_version"] = header.apiVersion or "unknown"
        self._original = header.vil is UNSET
        facts["renderer"] = "original" if header.vil is UNSET else header.vil.renderer
        facts.setdefault("connected_since_ns", t_image_ns)
        facts.pop("left_out", None)
        if not self._original:
            facts.pop(_HIDDEN_FACT, None)
        self.status.running()

    def _tell_what_it_says(self, info: Mapping[str, str | float | None]) -> None:
        """Keep what the renderer tells of itself (lock held); a change of its quality profile is logged."""
        before = self.status.facts.get(_INFO_FACT, {})
        self.status.facts[_INFO_FACT] = dict(islice(info.items(), _INFO_LIMIT))
        profile, wanted = info.get("profile"), info.get("profile_wanted")
        if profile is not None and profile != before.get("profile"):
            level = logging.INFO if profile == wanted else logging.WARNING
            logger.log(level, "%s: draws with profile %s, %s was asked for", self.name, profile, wanted)

    def _judge(self, frame: RenderedFrame, problems: list[str]) -> None:
        """Say what is wrong with the pictures; whether they show anything is asked of the first ones only."""
        with self._lock:
            if problems:
                self.status.counters["unsupported"] += len(problems)
                self.status.facts["left_out"] = problems[0]
                if not frame.images:
                    self.status.waiting(f"no usable picture came: {problems[0]}")
                    return
            colour = next((i for i in frame.images if i.view.modality is Modality.RGB), None)
            if not self._seen_picture and colour is not None:
                if _is_blank(colour.pixels):
                    self.status.counters["blank"] += 1
                    self.status.waiting(
                        f"the pictures of {colour.view.key!r} have one colour only: is scene "
                        f"{self._config.scene!r} loaded, and does the camera see it?"
                    )
                    return
                self._seen_picture = True
            self.status.running()


def _is_blank(pixels: ImageArray) -> bool:
    return bool((pixels == pixels[0, 0]).all())
