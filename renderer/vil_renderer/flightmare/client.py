"""The bridge's end of the protocol: asks Flightmare, or the embedded renderer, for pictures.

The bridge binds both ports and renderers dial in. A renderer that is new or was silent must see the
settings several times before it takes poses, and says once, over a lossy socket, that it is ready: until
something comes back (ready, or any frame) the settings are repeated. Then at most two poses are
unanswered, each known by its number; a frame with any other number is not ours.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UNSET

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, RendererError
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import ActorKind, Modality, RenderedFrame, RenderRequest
from vil_renderer.flightmare.codec import TOPIC, decode_answer, encode_scene
from vil_renderer.flightmare.config import FlightmareConfig
from vil_renderer.flightmare.convert import SceneWriter, Shape, read_frame
from vil_renderer.flightmare.messages import Dialect, FrameHeader, ReadyMessage, SceneMessage
from vil_renderer.flightmare.sockets import RendererSockets

__all__ = ["FlightmareClient"]

logger = logging.getLogger(__name__)

_SETTINGS_PERIOD_NS: Final = NS_PER_S // 50
_REPEAT_BASE: Final = 1 << 62
"""First number of repeated poses: beyond all frame ids, which are times in nanoseconds."""
_SUBSCRIPTIONS_PER_CALL: Final = 64
_COUNTERS: Final = (
    *("settings", "sent", "repeats", "answered", "foreign", "unanswered", "skipped", "restarts"),
    *("refused", "malformed", "unsupported", "blank"),
)


@dataclass(slots=True)
class _Asked:
    """A pose that went out, perhaps several times."""

    request: RenderRequest
    message: SceneMessage
    answered: bool = False


class FlightmareClient:
    """One renderer connection; implements ``vil_bridge.core.ports.RendererClient``.

    ``ready``, ``request`` and ``keep_alive`` belong to one thread, ``receive`` to another.
    Counters: ``settings`` (sent), ``sent`` (poses), ``answered``, ``repeats``, ``foreign`` (a frame nobody
    waits for: of a settings message, of another bridge, or late), ``unanswered`` (given up), ``skipped`` (a
    later one was answered), ``restarts`` (back to the settings), ``refused`` (could not be sent),
    ``malformed``, ``unsupported`` (pictures left out), ``blank`` (all pixels alike), and those of
    :class:`~vil_bridge.core.wire.zmq_peers.PeerCounter`.

    Attributes:
        pose_port, image_port: the ports bound.
    """

    def __init__(self, name: str, config: FlightmareConfig) -> None:
        self.name = name
        self.status = Status(name)
        self.status.counters.update(dict.fromkeys(_COUNTERS, 0))
        self._config = config
        self._answer_timeout_ns = round(config.answer_timeout_s * NS_PER_S)
        self._silence_ns = round(config.silence_s * NS_PER_S)
        self._keep_alive_ns = round(config.keep_alive_s * NS_PER_S)
        self._writer = SceneWriter(
            Dialect(config.dialect),
            config.scene_id,
            {ActorKind.HUMAN: config.bone_prefab, ActorKind.PROP: config.prop_prefab},
        )
        self._lock = threading.Lock()  # guards the in-flight table, the state and the status
        self._in_flight: dict[int, tuple[_Asked, int]] = {}
        self._topics: set[bytes] = set()
        self._opening = True
        self._ours = False
        self._seen_picture = False
        self._shape: Shape | None = None
        self._settings: list[bytes] = []
        self._newest: _Asked | None = None
        self._repeats = 0
        self._t_sent_ns = 0
        self._t_heard_ns = 0
        self._t_settings_from_ns = 0
        self._sockets = RendererSockets(
            config.bind, config.pose_port, config.image_port, config.max_picture_mib << 20, self.status.counters
        )
        self.pose_port, self.image_port = self._sockets.pose_port, self._sockets.image_port
        self._await_renderer()

    # --- the loop's side -----------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered yet."""
        return len(self._in_flight)

    def ready(self) -> bool:
        """True when a renderer is connected and may be given one more message."""
        if self._sockets.closed:
            return False
        self._read_subscriptions()
        now = now_ns()
        with self._lock:
            self._look_at_the_clock(now)
            if not self._topics:
                return False
            if self._opening:
                return now >= self._t_settings_from_ns and now - self._t_sent_ns >= _SETTINGS_PERIOD_NS
            return len(self._in_flight) < self._config.max_in_flight

    def request(self, request: RenderRequest) -> None:
        """Send a pose now, or the settings while the renderer is not open; what cannot be expressed is refused."""
        if not self.ready():
            self._refuse("the renderer was not ready")
            return
        try:
            self._check(request)
            shape = self._writer.shape_of(request)
            if shape != self._shape:
                self._reshape(shape)
            asked = _Asked(request, self._writer.message(shape, request, request.frame_id))
            if self._opening:
                self._send_settings(asked)
            else:
                self._send(asked, request.frame_id)
        except RendererError as exc:
            self._refuse(str(exc))
            return
        if self._writer.without_prefab:
            self.status.facts["without_prefab"] = sorted(self._writer.without_prefab)

    def keep_alive(self) -> None:
        """Repeat the settings, or the newest pose when nothing was sent for ``keep_alive_s``; count peers."""
        if self._sockets.closed:
            return
        with self._lock:
            self._sockets.count_peers()
        if self._newest is None or not self.ready():
            return
        if self._opening:
            self._send_settings(self._newest)
        elif now_ns() - self._t_sent_ns >= self._keep_alive_ns:
            self._repeats += 1
            self._send(self._newest, _REPEAT_BASE + self._repeats)

    def _check(self, request: RenderRequest) -> None:
        if not 0 < request.frame_id < _REPEAT_BASE:
            raise RendererError(f"frame id {request.frame_id} is out of range")
        for view in request.views:
            if 4 * view.camera.width_px * view.camera.height_px > self._config.max_picture_mib << 20:
                raise RendererError(f"pictures of {view.key!r} exceed max_picture_mib = {self._config.max_picture_mib}")

    def _reshape(self, shape: Shape) -> None:
        """Other cameras or vehicles: the renderer must start over, for which the original must hear nothing."""
        with self._lock:
            in_use = bool(self._settings and self._topics)
            self._reopen()
            self._shape = shape
            if in_use and not self._ours:
                self._t_settings_from_ns = now_ns() + self._silence_ns + self._silence_ns // 4

    def _send_settings(self, asked: _Asked) -> None:
        """Say what the scene is made of, always in the same words until the renderer is open."""
        self._newest = asked
        if not self._settings:
            assert self._shape is not None
            settings = encode_scene(self._writer.message(self._shape, asked.request))
            with self._lock:
                self._settings = settings
        now = now_ns()
        if now < self._t_settings_from_ns:
            return
        with self._lock:
            self._t_sent_ns = now
            self.status.counters["settings"] += 1
        self._sockets.send(self._settings)

    def _send(self, asked: _Asked, number: int) -> None:
        key = "frame_id" if asked.message.frame_id is not UNSET else "ntime"
        parts = encode_scene(msgspec.structs.replace(asked.message, **{key: number}))
        self._newest = asked
        now = now_ns()
        with self._lock:
            self._in_flight[number] = (asked, now)
            self._t_sent_ns = now
            self.status.counters["sent" if number < _REPEAT_BASE else "repeats"] += 1
        self._sockets.send(parts)

    def _refuse(self, reason: str) -> None:
        with self._lock:
            self.status.counters["refused"] += 1
            self.status.facts["refused"] = reason
            first = self.status.counters["refused"] == 1
        logger.log(logging.WARNING if first else logging.DEBUG, "%s: a request was refused: %s", self.name, reason)

    def _read_subscriptions(self) -> None:
        """Learn from the pose socket whether a renderer is connected."""
        for _ in range(_SUBSCRIPTIONS_PER_CALL):
            data = self._sockets.subscription()
            if data is None:
                return
            kind, topic = data[:1], data[1:]
            with self._lock:
                if kind not in (b"\x00", b"\x01"):
                    self._count_malformed(f"{len(data)} bytes on the pose port are no subscription")
                elif not TOPIC.startswith(topic):
                    continue
                elif kind == b"\x01":
                    self._topics.add(topic)
                    self._reopen()
                else:
                    self._topics.discard(topic)
                    self._reopen()

    # --- below: with self._lock held -----------------------------------------------------------

    def _reopen(self) -> None:
        """The renderer is new, gone or has started over: what it owes will not come."""
        self.status.counters["unanswered"] += len(self._in_flight)
        self._in_flight.clear()
        self.status.counters["restarts"] += not self._opening
        self._opening = True
        self._settings = []
        self._t_settings_from_ns = 0
        self._await_renderer()

    def _look_at_the_clock(self, now: int) -> None:
        """Give up what was not answered in time; after a longer silence the renderer has started over."""
        if self._opening:
            return
        if now - self._t_heard_ns > self._silence_ns:
            self._reopen()
        elif self._in_flight:
            _, t_oldest_ns = next(iter(self._in_flight.values()))
            if now - max(t_oldest_ns, self._t_heard_ns) > self._answer_timeout_ns:
                self.status.counters["unanswered"] += len(self._in_flight)
                self._in_flight.clear()
                self.status.waiting(
                    f"the renderer has answered no pose for {self._config.answer_timeout_s:g} s: it is busy, stopped, "
                    f"or cut off; after {self._config.silence_s:g} s the settings are sent again"
                )

    def _await_renderer(self) -> None:
        if self._topics:
            self.status.waiting(
                "a renderer is connected and gets the settings, but nothing has come back yet: it loads its scene, or "
                f"its frames do not reach port {self.image_port}"
            )
        else:
            self.status.facts.pop("connected_since_ns", None)
            ports = f"-input-port {self.pose_port} -output-port {self.image_port}"
            self.status.waiting(
                f"no renderer has connected to {self._config.bind}:{self.pose_port}: start one: `vil-bridge renderer "
                f"--protocol flightmare {ports.replace('-i', '--i').replace('-o', '--o')}` or Flightmare's program "
                f"with -client-ip <this host> {ports}"
            )

    def _count_malformed(self, reason: str) -> None:
        self.status.counters["malformed"] += 1
        level = logging.WARNING if self.status.counters["malformed"] == 1 else logging.DEBUG
        logger.log(level, "%s: dropped a message: %s", self.name, reason)

    # --- the relay thread's side ---------------------------------------------------------------

    def fileno(self) -> int:
        """Descriptor of the image socket, edge-triggered: call :meth:`receive` until it returns None."""
        return self._sockets.fileno()

    def receive(self) -> RenderedFrame | None:
        """The next answer, None when nothing is waiting."""
        while (parts := self._sockets.receive()) is not None:
            t_image_ns = now_ns()
            try:
                frame = self._take(parts, t_image_ns)
            except ProtocolError as exc:
                with self._lock:
                    self._count_malformed(str(exc))
                continue
            if frame is not None:
                return frame
        return None

    def close(self) -> None:
        """Release the sockets at once; may be called twice."""
        self._sockets.close()
        self.status.stopped()

    def _take(self, parts: list[memoryview], t_image_ns: int) -> RenderedFrame | None:
        """Match a message with its request. Raises ProtocolError."""
        answer, pictures = decode_answer(parts)
        if isinstance(answer, FrameHeader):
            asked = self._accept(answer, t_image_ns)
            if asked is None:
                return None
            frame, problems = read_frame(answer, pictures, asked.message.vehicles, asked.request, t_image_ns)
            self._judge(frame, problems)
            return frame
        if isinstance(answer, ReadyMessage) and answer.ready:
            with self._lock:
                self._connected(t_image_ns)
        return None

    def _accept(self, header: FrameHeader, t_image_ns: int) -> _Asked | None:
        counters = self.status.counters
        with self._lock:
            self._connected(t_image_ns)
            number = header.stamp
            if number not in self._in_flight:
                counters["foreign"] += 1
                return None
            while True:  # answers to those before it will not come
                oldest = next(iter(self._in_flight))
                asked, _ = self._in_flight.pop(oldest)
                if oldest == number:
                    break
                counters["skipped"] += 1
            self._ours = header.vil is not UNSET
            self.status.facts["renderer"] = "original" if header.vil is UNSET else header.vil.renderer
            if asked.answered:
                self.status.running()
                return None
            asked.answered = True
            counters["answered"] += 1
        return asked

    def _connected(self, t_image_ns: int) -> None:
        """Ready came, or any frame, which says the same; with self._lock held."""
        if self._opening:
            if not self._settings or t_image_ns < self._t_settings_from_ns:
                return
            self._opening = False
            self._seen_picture = False
            self.status.facts["dialect"] = self._config.dialect
            self.status.facts.setdefault("connected_since_ns", t_image_ns)
            self.status.facts.pop("left_out", None)
        self._t_heard_ns = t_image_ns

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
                if (colour.pixels == colour.pixels[0, 0]).all():
                    self.status.counters["blank"] += 1
                    self.status.waiting(
                        f"the pictures of {colour.view.key!r} have one colour only: is scene "
                        f"{self._config.scene_id} loaded, and does the camera see it?"
                    )
                    return
                self._seen_picture = True
            self.status.running()
