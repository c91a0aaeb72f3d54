"""Who reads which camera: registration, credit, clock exchanges, status and commands."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from vil_bridge.core.bridge_time import REAL_TIME, TIME
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import ProtocolError, SinkError, VilBridgeError
from vil_bridge.core.motion import ImuWindow
from vil_bridge.core.types import Modality
from vil_bridge.core.wire.parity import Report
from vil_bridge.stream import messages as msg
from vil_bridge.stream.control import open_control
from vil_bridge.stream.guard import StreamGuard
from vil_bridge.stream.picture import Picture
from vil_bridge.stream.sinks.udp_stream import UdpDoor
from vil_bridge.stream.sinks.zmq_stream import ZmqStreamSink
from vil_bridge.stream.subscriber import Subscriber

__all__ = ["MAX_SUBSCRIBERS", "CommandHandler", "StreamHub"]

logger = logging.getLogger(__name__)

MAX_SUBSCRIBERS: Final = 64
_MAX_SLACK_NS: Final = NS_PER_MS * 20  # how far a reader's clock may be off before its stamps are odd
_SILENCE_NS: Final = 3 * NS_PER_S
_SPEAKING_NS: Final = NS_PER_S
_SWEEP_S: Final = 0.5
_JPEG_MODALITIES: Final = (Modality.RGB, Modality.GRAY)

CommandHandler = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class _Camera:
    sink: ZmqStreamSink
    info: Mapping[str, Any]
    wake: Callable[[], None]


@dataclass(slots=True)
class _Reader:
    identity: bytes  # of its control connection, which changes when it reconnects
    subscriber: Subscriber[Picture]
    camera: _Camera


class StreamHub:
    """The daemon's end of the control channel; everything runs in the loop's thread.

    Attributes:
        counters: ``malformed`` and ``refused`` messages, ``silent`` readers dropped, ``stray``
            credits and inertial samples, ``rival`` batches of these from a second reader of the
            same name, ``odd_stamp`` receive times outside reason.
    """

    def __init__(
        self,
        bind: str,
        *,
        on_received: Callable[[str, int, int], None],
        status: Callable[[], Mapping[str, Any]],
        commands: Mapping[str, CommandHandler] | None = None,
        on_imu: Callable[[str, ImuWindow], object] = lambda *_: None,
        udp_port: int = 0,
        udp_rate_mbps: float = 100.0,
        guard: StreamGuard | None = None,
    ) -> None:
        """Bound by :meth:`start`.

        Args:
            bind: address of the control channel, ``tcp://127.0.0.1:5560``; port 0 takes any.
            on_received: called with (camera, frame_id, t_received_ns in bridge time) for every
                acknowledged frame whose reader knows the bridge's clock.
            status: answers a reader's question; JSON types.
            commands: by name; each takes the arguments and returns JSON types, or raises a
                ``VilBridgeError`` or ``ValueError`` whose text the reader gets.
            on_imu: called with a reader's name and the inertial samples of its vehicle.
            udp_port: for readers that want datagrams, opened for the first of them; 0 takes any.
            udp_rate_mbps: Mbit/s for one of them at most.
            guard: asks readers for their keys; None = none are needed.
        """
        self.counters: Counter[str] = Counter()
        self._on_received = on_received
        self._status = status
        self._on_imu = on_imu
        self._commands = dict(commands or {})
        self._control = open_control(bind, self._on_message, guard)
        self._guard = guard
        self._udp: UdpDoor | None = None
        self._udp_address = bind.removeprefix("tcp://").rpartition(":")[0].strip("[]"), udp_port
        self._udp_rate_bps = udp_rate_mbps * 1e6
        self._cameras: dict[str, _Camera] = {}
        self._readers: dict[str, _Reader] = {}
        self._speakers: dict[str, tuple[str, int]] = {}  # name -> token that sends inertial samples, and when last
        self._instance = secrets.token_hex(8)
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def endpoint(self) -> str:
        """The bound address of the control channel."""
        return self._control.endpoint

    def add_camera(self, sink: ZmqStreamSink, info: Mapping[str, Any], wake: Callable[[], None]) -> None:
        """Offer a camera.

        Args:
            sink: where its pictures are offered.
            info: told to every reader: ``width``, ``height``, ``fx``, ``fy``, ``cx``, ``cy``,
                ``T_body_camera``, ``T_body_imu``...; JSON types.
            wake: makes the camera's relay thread call ``sink.flush()``; called in the loop's thread.
        """
        self._cameras[sink.camera] = _Camera(sink, info, wake)

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            SinkError: the address cannot be bound.
        """
        if self._guard is not None:
            self._guard.open()
        await self._control.start()
        self._sweep()

    def close(self) -> None:
        """Stop serving; the sinks belong to their relay threads, which close them."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        self._control.close()
        for reader in list(self._readers.values()):
            self._forget(reader)
        if self._udp is not None:
            self._udp.close()
            self._udp = None
        if self._guard is not None:
            self._guard.close()

    def faults(self) -> dict[str, int]:
        """What came in that should not have, by reason; connections that ended included. Any thread."""
        counted = dict(self.counters)
        malformed = counted.pop("malformed", 0) + self._control.malformed
        guard, udp = self._guard, self._udp
        others = [] if guard is None else [Counter(dict(guard.counters))]  # in one go: the loop goes on counting
        if udp is not None:
            others.append(Counter({f"udp_{reason}": n for reason, n in dict(udp.counters).items()}))
        return {"malformed": malformed, **counted, **self._control.peers, **sum(others, Counter())}

    def report(self) -> dict[str, list[dict[str, Any]]]:
        """Every camera's readers with their counters."""
        return {name: [s.report() for s in camera.sink.subscribers] for name, camera in self._cameras.items()}

    # --- messages ------------------------------------------------------------------------------

    def _on_message(self, identity: bytes, payload: bytes) -> None:
        t_arrival_ns = now_ns()
        try:
            request = msg.decode_request(payload)
        except ProtocolError as exc:
            self.counters["malformed"] += 1
            if self.counters["malformed"] == 1:
                logger.warning("control channel: ignored a message: %s", exc)
            return
        reader = None if isinstance(request, msg.Register) else self._readers.get(request.token)
        if reader is not None:
            reader.identity = identity
            reader.subscriber.t_heard_ns = machine_ns()
        match request:
            case msg.Credit():
                self._on_credit(reader, request, t_arrival_ns)
            case msg.Ping():
                self._reply(identity, "pong", **self._pong(reader, request, t_arrival_ns))
            case msg.Register():
                self._on_register(identity, request)
            case msg.Unregister():
                if reader is not None:
                    self._forget(reader)
            case msg.StatusRequest():
                self._reply(identity, "status", id=request.id, status=self._status())
            case msg.Imu():
                self._on_inertial(reader, request, t_arrival_ns)
            case msg.Command():
                self._reply(identity, "result", id=request.id, **self._run(request))

    def _reply(self, identity: bytes, kind: str, **fields: Any) -> None:
        self._control.send(identity, msg.encode_reply(kind, **fields))

    def _pong(self, reader: _Reader | None, ping: msg.Ping, t_arrival_ns: int) -> dict[str, Any]:
        return {
            "t1": ping.t1,
            "t2": t_arrival_ns,
            "known": reader is not None,
            "in_flight": 0 if reader is None else reader.subscriber.in_flight,
            "instance": self._instance,
            **({} if TIME.mapping == REAL_TIME else {"simulated": True}),
            "t3": now_ns(),
        }

    def _on_credit(self, reader: _Reader | None, credit: msg.Credit, t_arrival_ns: int) -> None:
        if reader is None:
            self.counters["stray"] += 1
            return
        t_sent_ns, waiting = reader.subscriber.acknowledge(credit.frame_id)
        if t_sent_ns is None:
            self.counters["stray"] += 1
            return
        if waiting:
            reader.camera.wake()
        reader.subscriber.clock_uncertainty_ns = credit.uncertainty_ns
        if credit.t_received_ns is None:
            return
        slack_ns = min(max(credit.uncertainty_ns or 0, 0), _MAX_SLACK_NS)
        if t_sent_ns - slack_ns <= credit.t_received_ns <= t_arrival_ns + slack_ns:
            self._on_received(
                reader.subscriber.camera, credit.frame_id, min(max(credit.t_received_ns, t_sent_ns), t_arrival_ns)
            )
        else:
            self.counters["odd_stamp"] += 1

    def _on_report(self, token: str, report: Report, t_arrival_ns: int) -> None:
        """A UDP reader is there; where it names a frame, that is its credit."""
        reader = self._readers[token]
        reader.subscriber.t_heard_ns = machine_ns()
        if report.frame_id:
            credit = msg.Credit(token, report.frame_id, report.t_received_ns, report.uncertainty_ns)
            self._on_credit(reader, credit, t_arrival_ns)

    def _on_inertial(self, reader: _Reader | None, imu: msg.Imu, t_arrival_ns: int) -> None:
        """Samples of one reader of a name at a time: two vehicles' mixed would be nobody's motion."""
        if reader is None:
            self.counters["stray"] += 1
            return
        name = reader.subscriber.name
        speaker, t_spoke_ns = self._speakers.get(name, (imu.token, 0))
        if speaker != imu.token and t_arrival_ns - t_spoke_ns < _SPEAKING_NS:
            self.counters["rival"] += 1
            if self.counters["rival"] == 1:
                logger.warning("two readers named %r send inertial samples: those of the second are dropped", name)
            return
        try:
            samples = imu.window()
        except ProtocolError:
            self.counters["malformed"] += 1
            return
        if len(samples.t_ns):
            self._speakers[name] = imu.token, t_arrival_ns
            self._on_imu(name, samples)

    def _run(self, command: msg.Command) -> dict[str, Any]:
        handler = self._commands.get(command.name)
        if handler is None:
            return {"ok": False, "error": f"unknown command {command.name!r}; known: {sorted(self._commands)}"}
        try:
            return {"ok": True, "value": handler(command.args)}
        except (VilBridgeError, ValueError) as exc:
            return {"ok": False, "error": str(exc)}

    # --- readers -------------------------------------------------------------------------------

    def _on_register(self, identity: bytes, wish: msg.Register) -> None:
        problem = self._problem(wish)
        if problem is not None:
            self.counters["refused"] += 1
            self._reply(identity, "error", reason=problem, known=sorted(self._cameras))
            return
        self._replace(identity, wish)
        camera = self._cameras[wish.camera]
        token = secrets.token_hex(16)
        subscriber: Subscriber[Picture] = Subscriber(token, wish)
        if wish.transport == "udp" and self._udp is not None:
            subscriber.line = self._udp.open_line(subscriber, camera.sink)
        self._readers[token] = _Reader(identity, subscriber, camera)
        camera.sink.attach(subscriber)
        logger.info(
            "stream %s: %r reads %s %s by %s", wish.camera, wish.name, wish.variant, wish.modality, wish.transport
        )
        self._reply(
            identity,
            "registered",
            v=msg.PROTOCOL_VERSION,
            token=token,
            transport=wish.transport,
            instance=self._instance,
            data_port=camera.sink.port,
            udp_port=None if self._udp is None else self._udp.port,
            camera={"name": wish.camera, **camera.info},
        )

    def _problem(self, wish: msg.Register) -> str | None:
        if wish.v != msg.PROTOCOL_VERSION:
            return f"this bridge speaks protocol {msg.PROTOCOL_VERSION}, the client {wish.v}"
        camera = self._cameras.get(wish.camera)
        if camera is None:
            return f"no camera named {wish.camera!r}"
        variants = camera.sink.offers.get(wish.modality)
        if variants is None:
            return f"camera {wish.camera!r} has no {wish.modality!r}, only {', '.join(camera.sink.offers)}"
        if wish.variant not in variants:
            return f"camera {wish.camera!r} has no {wish.variant!r} {wish.modality}, only {', '.join(variants)}"
        if wish.encoding != "raw" and wish.modality not in _JPEG_MODALITIES:
            return f"{wish.modality} is sent as encoding 'raw' only: JPEG would change its values"
        if len(self._readers) >= MAX_SUBSCRIBERS:
            return f"{MAX_SUBSCRIBERS} subscribers already"
        return self._udp_problem() if wish.transport == "udp" else None

    def _udp_problem(self) -> str | None:
        """Open the UDP port for the first reader that wants it; why that failed."""
        if self._udp is None:
            try:
                self._udp = UdpDoor(*self._udp_address, self._udp_rate_bps, self._on_report)
            except SinkError as exc:
                return str(exc)
        return None

    def _replace(self, identity: bytes, wish: msg.Register) -> None:
        """A client that asks twice, since the first answer was slow, gets one stream."""
        key = (wish.camera, wish.modality, wish.variant)
        for reader in list(self._readers.values()):
            s = reader.subscriber
            if reader.identity == identity and (s.camera, s.modality, s.variant) == key:
                self._forget(reader)

    def _forget(self, reader: _Reader) -> None:
        del self._readers[reader.subscriber.token]
        if self._speakers.get(reader.subscriber.name, ("", 0))[0] == reader.subscriber.token:
            del self._speakers[reader.subscriber.name]
        reader.camera.sink.detach(reader.subscriber)
        if reader.subscriber.line is not None:
            reader.subscriber.line.close()
        if self._udp is not None:
            self._udp.forget(reader.subscriber.token)

    def _sweep(self) -> None:
        self._control.count_peers()
        t_limit_ns = machine_ns() - _SILENCE_NS
        for reader in list(self._readers.values()):
            if reader.subscriber.t_heard_ns < t_limit_ns:
                self.counters["silent"] += 1
                logger.info("stream %s: %r fell silent", reader.subscriber.camera, reader.subscriber.name)
                self._forget(reader)
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
