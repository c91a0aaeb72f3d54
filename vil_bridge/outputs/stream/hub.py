"""Readers of all cameras: request, credit, clock exchanges, status and commands."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from vil_bridge.core.bridge_time import REAL_TIME, bridge_clock
from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import ProtocolError, SinkError
from vil_bridge.core.motion import ImuWindow
from vil_bridge.outputs.stream import messages as msg
from vil_bridge.outputs.stream.commands import CommandHandler, CommandRunner, RefusesCommand
from vil_bridge.outputs.stream.control_channel import open_control
from vil_bridge.outputs.stream.control_limits import MessageLimits, Sender, cost_of
from vil_bridge.outputs.stream.curve_guard import CurveAuthenticator
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture
from vil_bridge.outputs.stream.fec import Report
from vil_bridge.outputs.stream.reader_registry import Camera, RegisteredReader, Seats
from vil_bridge.outputs.stream.subscriber import Subscriber
from vil_bridge.outputs.stream.udp_sink import UdpServer
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.protocols.zmq.peer_socket import Peer, end_connection

logger = logging.getLogger(__name__)

# How far a reader's clock may be off before its stamps are odd.
_MAX_SLACK_NS: Final = NS_PER_MS * 20
_SILENCE_NS: Final = 3 * NS_PER_S
_SWEEP_S: Final = 0.02
_STATUS_NS: Final = NS_PER_S // 4  # a status is encoded again after this
_REFUSED_AT_ONCE: Final = 64
_PAUSE_S: Final = 0.002
_MALFORMED_COST: Final = 3.0
_CREDIT_DISCOUNT: Final = -0.75  # for one that is owed: a refused one costs the reader pictures
_EXTRA_COST: Final = {msg.Register: 20.0, msg.StatusRequest: 2.0, msg.Command: 2.0}
_LONGEST_PROBLEM: Final = 500


class StreamHub:
    """The daemon's end of the control channel; everything runs in the loop's thread.

    Attributes:
        counters: ``malformed`` and ``refused`` messages, ``flood`` beyond a sender's rate,
            ``cut_off`` connections that went on with it, ``stranger`` questions of programs that
            are not registered, ``unauthorized`` commands, ``silent`` readers dropped, ``stray``
            credits and inertial samples, ``rival`` batches of these from a second reader of the
            same name, ``odd_stamp`` receive times outside reason.
        peer_faults: the senders of what was refused.
    """

    def __init__(
        self,
        bind: str,
        *,
        on_received: Callable[[str, int, int], None],
        status: Callable[[], Mapping[str, Any]],
        commands: Mapping[str, CommandHandler] | None = None,
        refuses_command: RefusesCommand = lambda *_: None,
        on_imu: Callable[[str, ImuWindow], object] = lambda *_: None,
        problem: Callable[[str], tuple[str, bool]] = lambda _camera: ("", False),
        udp_port: int = 0,
        udp_rate_mbps: float = 100.0,
        guard: CurveAuthenticator | None = None,
    ) -> None:
        """Bound by :meth:`start`.

        Args:
            bind: address of the control channel, ``tcp://127.0.0.1:5560``; port 0 takes any.
            on_received: called with (camera, frame_id, t_received_ns in bridge time) for every
                acknowledged frame whose reader knows the bridge's clock.
            status: answers a reader's question; JSON types.
            commands: handlers by name, as
                :class:`~vil_bridge.outputs.stream.commands.CommandRunner` takes them.
            refuses_command: the rule who may command, likewise.
            on_imu: called with a reader's name and the inertial samples of its vehicle.
            problem: returns why a camera's readers get no pictures, or nothing, and True while
                these are frozen.
            udp_port: for readers that want datagrams, opened for the first of them; 0 takes any.
            udp_rate_mbps: Mbit/s for one of them at most.
            guard: asks readers for their keys; None = none are needed.
        """
        self.counters: Counter[str] = Counter()
        self._on_received = on_received
        self._status = status
        self._on_imu = on_imu
        self._camera_problem = problem
        self._commands = CommandRunner(commands or {}, refuses_command)
        self._control = open_control(bind, self._on_message, guard)
        self._guard = guard
        self._udp: UdpServer | None = None
        self._udp_address = bind.removeprefix("tcp://").rpartition(":")[0].strip("[]"), udp_port
        self._udp_rate_bps = udp_rate_mbps * 1e6
        self._cameras: dict[str, Camera] = {}
        self.peer_faults = self._control.peer_faults
        self._slots = Seats(self._forget)
        self._limits = MessageLimits()
        self._refused = 0  # messages since the last pause
        self._status_bytes = b""
        self._t_status_ns = -_STATUS_NS
        self._instance = secrets.token_hex(8)
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def endpoint(self) -> str:
        """The bound address of the control channel."""
        return self._control.endpoint

    def add_camera(
        self, sink: ZmqStreamSink, info: Mapping[str, Any], wake: Callable[[], None]
    ) -> None:
        """Offer a camera.

        Args:
            sink: where its pictures are offered.
            info: sent to every reader: ``width``, ``height``, ``fx``, ``fy``, ``cx``, ``cy``,
                ``T_body_camera``, ``T_body_imu``...; JSON types.
            wake: makes the camera's relay thread call ``sink.flush()``; called in the loop's
                thread.
        """
        self._cameras[sink.camera] = Camera(sink, info, wake)

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
        for reader in self._slots:
            self._forget(reader)
        if self._udp is not None:
            self._udp.close()
            self._udp = None
        if self._guard is not None:
            self._guard.close()

    def end(self) -> None:
        """Release the context of guarded sockets.

        Waits until the last of them is closed, so not in the loop's thread.
        """
        if self._guard is not None:
            self._guard.end()

    def faults(self) -> dict[str, int]:
        """Return counts of bad input by reason, ended connections included. Any thread."""
        counted = dict(self.counters)
        guard = self._guard
        udp = self._udp
        others = [Counter(dict(self._control.peers))]  # in one go: the loop goes on counting
        if guard is not None:
            others.append(Counter(dict(guard.counters)))
        if udp is not None:
            others.append(Counter({f"udp_{reason}": n for reason, n in dict(udp.counters).items()}))
        return {"malformed": 0, **self._control.peers, **sum(others, Counter(counted))}

    def report(self) -> dict[str, list[dict[str, Any]]]:
        """Every camera's readers with their counters."""
        readers: dict[str, list[dict[str, Any]]] = {}
        for name, camera in self._cameras.items():
            subscribers = camera.sink.subscribers
            readers[name] = [subscriber.report() for subscriber in subscribers]
        return readers

    # --- messages ------------------------------------------------------------------------------

    def _on_message(self, peer: Peer, payload: bytes | None) -> None:
        t_arrival_ns = now_ns()
        kind = self._kind_of(peer.identity)
        if not self._limits.admits(kind, peer.identity):  # before decoding, which costs more
            self._refuse(peer, "flood")
            return
        cost = cost_of(payload)
        senders = len(self._commands.pilots if kind is Sender.PILOT else self._slots)
        try:
            request = msg.decode_request(payload)
        except ProtocolError as exc:
            self._limits.charge(kind, peer.identity, cost + _MALFORMED_COST, senders)
            if not self.counters["malformed"]:
                logger.warning("control channel: ignored a message: %s", exc)
            self._refuse(peer, "malformed")
            self._reply(
                peer,
                "error",
                reason=f"{exc.__cause__ or exc}. See the messages in docs/reference/stream.md",
            )
            return
        reader = (
            None if isinstance(request, msg.Register) else self._slots.heard(request.token, peer)
        )
        cost += (
            _CREDIT_DISCOUNT
            if reader and isinstance(request, msg.Credit)
            else _EXTRA_COST.get(type(request), 0.0)
        )
        self._limits.charge(kind, peer.identity, cost, senders)
        if reader and isinstance(request, msg.Ping) and not self._limits.admits_ping(request.token):
            self._refuse(peer, "flood")
            return
        match request:
            case msg.Credit():
                self._on_credit(reader, request, t_arrival_ns)
            case msg.Ping():
                if reader:
                    reader.subscriber.too_old = request.too_old
                self._reply(peer, "pong", **self._pong(reader, request, t_arrival_ns))
            case msg.Register():
                self._on_register(peer, request)
            case msg.Unregister():
                if reader is not None:
                    self._forget(reader)
            case msg.StatusRequest():
                self._on_status(peer, reader, request)
            case msg.ImuReport():
                self._on_inertial(reader, request)
            case msg.Command():
                self._on_command(peer, request)

    def _kind_of(self, identity: bytes) -> Sender:
        if self._slots.knows(identity):
            return Sender.READER
        return Sender.PILOT if identity in self._commands.pilots else Sender.STRANGER

    def _refuse(self, peer: Peer, reason: str, name: str = "") -> None:
        """Count it and its sender.

        After some in a row the socket rests, so that a flood waits at its origin.
        """
        self.counters[reason] += 1
        self.peer_faults.add(reason, peer.address, peer.key or name)
        if reason == "flood" and self._goes_on(peer.identity):
            is_reader = self._slots.knows(
                peer.identity
            )  # it keeps its seat: a vehicle flies on though its program errs
            self.counters["cut_off"] += end_connection(peer, self.endpoint, quietly=not is_reader)
        self._refused += 1
        if self._refused >= _REFUSED_AT_ONCE:
            self._refused = 0
            self._control.pause(_PAUSE_S)

    def _goes_on(self, identity: bytes) -> bool:
        """Return True, once, when a connection is to be ended.

        Not for a share that others leave it less of.
        """
        kind = self._kind_of(identity)
        own = kind is Sender.STRANGER or self._limits.exceeds_its_own(kind, identity)
        return own and self._limits.is_over(identity)

    def _reply(self, peer: Peer, kind: str, **fields: Any) -> None:
        self._control.send(peer.identity, msg.encode_reply(kind, **fields))

    def _on_status(
        self, peer: Peer, reader: RegisteredReader | None, question: msg.StatusRequest
    ) -> None:
        """Answer a registered reader, or the holder of a key, with the status of the last
        moment.
        """
        if reader is None and not peer.key and peer.identity not in self._slots:
            self._refuse(peer, "stranger")
            self._reply(
                peer, "error", reason="the status is for registered readers; register first"
            )
            return
        if machine_ns() - self._t_status_ns >= _STATUS_NS:
            self._status_bytes, self._t_status_ns = msg.encode(self._status()), machine_ns()
        self._reply(peer, "status", id=question.id, status=msg.encoded(self._status_bytes))

    def _pong(
        self, reader: RegisteredReader | None, ping: msg.Ping, t_arrival_ns: int
    ) -> dict[str, Any]:
        problem, frozen = (
            ("", False) if reader is None else self._camera_problem(reader.subscriber.camera)
        )
        return {
            "t1": ping.t1,
            "t2": t_arrival_ns,
            "known": reader is not None,
            "in_flight": 0 if reader is None else reader.subscriber.in_flight,
            "instance": self._instance,
            **({} if bridge_clock().mapping == REAL_TIME else {"simulated": True}),
            **({"problem": problem[:_LONGEST_PROBLEM]} if problem else {})
            | ({"frozen": True} if frozen else {}),
            "t3": now_ns(),
        }

    def _on_credit(
        self, reader: RegisteredReader | None, credit: msg.Credit, t_arrival_ns: int
    ) -> None:
        if reader is None:
            self.counters["stray"] += 1
            return
        t_received_ns = (
            t_arrival_ns
            if credit.t_received_ns is None
            else min(credit.t_received_ns, t_arrival_ns)
        )
        uncertainty_ns = credit.uncertainty_ns or 0
        t_sent_ns, waiting = reader.subscriber.acknowledge(
            credit.frame_id, t_received_ns, uncertainty_ns
        )
        if t_sent_ns is None:
            self.counters["stray"] += 1
            self._limits.charge(
                Sender.READER, reader.peer.identity, -_CREDIT_DISCOUNT, len(self._slots)
            )
            return
        if waiting:
            reader.camera.wake()
        reader.subscriber.clock_uncertainty_ns = credit.uncertainty_ns
        if credit.t_received_ns is None:
            return
        slack_ns = min(max(uncertainty_ns, 0), _MAX_SLACK_NS)
        if t_sent_ns - slack_ns <= credit.t_received_ns <= t_arrival_ns + slack_ns:
            self._on_received(
                reader.subscriber.camera, credit.frame_id, max(t_received_ns, t_sent_ns)
            )
        else:
            self.counters["odd_stamp"] += 1

    def _on_report(self, token: str, report: Report, t_arrival_ns: int) -> None:
        """Handle a UDP reader's report; where it names a frame, that is its credit."""
        reader = self._slots.get(token)
        reader.subscriber.t_heard_ns = machine_ns()
        if report.frame_id:
            credit = msg.Credit(token, report.frame_id, report.t_received_ns, report.uncertainty_ns)
            self._on_credit(reader, credit, t_arrival_ns)

    def _on_inertial(self, reader: RegisteredReader | None, imu: msg.ImuReport) -> None:
        """Take the samples of one reader of a name at a time: those of two vehicles do not mix."""
        if reader is None:
            self.counters["stray"] += 1
            return
        name = reader.subscriber.name
        if not self._slots.may_speak(reader):
            if not self.counters["rival"]:
                logger.warning(
                    "two readers named %r send inertial samples: those of the second are dropped",
                    name,
                )
            self._refuse(reader.peer, "rival", name)
            return
        try:
            samples = imu.window()
        except ProtocolError:
            self._refuse(reader.peer, "malformed", name)
            return
        if len(samples.t_ns):
            self._slots.spoke(reader)
            self._on_imu(name, samples)

    def _on_command(self, peer: Peer, command: msg.Command) -> None:
        problem = self._commands.refusal(peer, command)
        if problem is not None:
            self._refuse(peer, "unauthorized")
            self._reply(peer, "result", id=command.id, ok=False, error=problem)
        else:
            self._reply(peer, "result", id=command.id, **self._commands.run(command))

    # --- readers -------------------------------------------------------------------------------

    def _on_register(self, peer: Peer, request: msg.Register) -> None:
        if peer.key:
            # The key's file decides, not the reader.
            request = msgspec.structs.replace(request, name=peer.key)
        problem = self._problem(peer, request)
        if problem is not None:
            self._refuse(peer, "refused", request.name)
            self._reply(peer, "error", reason=problem, known=sorted(self._cameras))
            return
        self._replace(peer, request)
        camera = self._cameras[request.camera]
        token = secrets.token_hex(16)
        subscriber: Subscriber[EncodedPicture] = Subscriber(token, request, peer.address)
        if request.transport == "udp" and self._udp is not None:
            subscriber.thread = self._udp.add_thread(subscriber, camera.sink)
        self._slots.add(RegisteredReader(peer, subscriber, camera))
        camera.sink.attach(subscriber)
        logger.info(
            "stream %s: %r reads %s %s by %s",
            *(request.camera, request.name, request.variant, request.modality, request.transport),
        )
        self._reply(
            peer,
            "registered",
            v=msg.PROTOCOL_VERSION,
            token=token,
            name=request.name,
            transport=request.transport,
            instance=self._instance,
            data_port=camera.sink.port,
            udp_port=None if self._udp is None else self._udp.port,
            camera={"name": request.camera, **camera.info},
        )

    def _problem(self, peer: Peer, request: msg.Register) -> str | None:
        if request.v != msg.PROTOCOL_VERSION:
            return f"this bridge speaks protocol {msg.PROTOCOL_VERSION}, the client {request.v}"
        camera = self._cameras.get(request.camera)
        if camera is None:
            return f"no camera named {request.camera!r}"
        variants = camera.sink.offers.get(request.modality)
        if variants is None:
            return (
                f"camera {request.camera!r} has no {request.modality!r}, only "
                f"{', '.join(camera.sink.offers)}"
            )
        if request.variant not in variants:
            kind = f"{request.variant!r} {request.modality}"
            return f"camera {request.camera!r} has no {kind}, only {', '.join(variants)}"
        problem = request.encoding_problem()
        if problem is None and request.transport == "udp":
            problem = self._udp_problem()
        return problem or self._slots.problem(peer, request)

    def _udp_problem(self) -> str | None:
        """Open the UDP port for the first reader that wants it; why that failed."""
        if self._udp is None:
            try:
                self._udp = UdpServer(
                    *self._udp_address, self._udp_rate_bps, self._on_report, self.peer_faults
                )
            except SinkError as exc:
                return str(exc)
        return None

    def _replace(self, peer: Peer, request: msg.Register) -> None:
        """Give a client that asks twice, since the first answer was slow, one stream."""
        key = (request.camera, request.modality, request.variant)
        for reader in self._slots:
            s = reader.subscriber
            if reader.peer.identity == peer.identity and (s.camera, s.modality, s.variant) == key:
                self._forget(reader)

    def _forget(self, reader: RegisteredReader) -> None:
        self._slots.remove(reader)
        reader.camera.sink.detach(reader.subscriber)
        if reader.subscriber.thread is not None:
            reader.subscriber.thread.close()
        if self._udp is not None:
            self._udp.remove_thread(reader.subscriber.token)

    def _sweep(self) -> None:
        self._control.watch_peers({reader.peer.descriptor for reader in self._slots})
        t_limit_ns = machine_ns() - _SILENCE_NS
        for reader in self._slots:
            if reader.subscriber.t_heard_ns < t_limit_ns:
                self.counters["silent"] += 1
                logger.info(
                    "stream %s: %r fell silent", reader.subscriber.camera, reader.subscriber.name
                )
                self._forget(reader)
        self._sweeping = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)
