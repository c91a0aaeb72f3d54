"""The world's actors as a NatNet server (implements ``Output``)."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from dataclasses import replace
from typing import Final

from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, SinkError
from vil_bridge.core.types import ActorKind
from vil_bridge.interfaces.ports import WorldView
from vil_bridge.outputs.base import OutputBase
from vil_bridge.outputs.natnet.config import NatNetOutputConfig
from vil_bridge.outputs.natnet.frames import NatNetFrames
from vil_bridge.outputs.natnet.reflection import ReplyBudget
from vil_bridge.outputs.pose_server import PoseFeed, PoseFrame, cannot_serve
from vil_bridge.protocols.natnet.clients import ClientTable, Subscriptions
from vil_bridge.protocols.natnet.codec import MessageId, ServerInfo, message_id, parse_version
from vil_bridge.protocols.natnet.frame import NatNetFrame, Suffix
from vil_bridge.protocols.natnet.frame_codec import encode_frame
from vil_bridge.protocols.natnet.model_codec import encode_models
from vil_bridge.protocols.natnet.responder import NatNetResponder, ResponderHooks
from vil_bridge.protocols.natnet.streamed import subscribed
from vil_bridge.protocols.sockets import send_multicast_from, udp_socket, waiting_datagrams
from vil_bridge.runtime.datagrams import Address
from vil_bridge.runtime.rates import RateLimiter
from vil_bridge.runtime.supervisor import Status

_REQUESTS_PER_S: Final = 100.0
_REQUESTS_AT_ONCE: Final = 200
"""Of each client: they send four echoes a second, and repeat a command every 20 ms."""
_HOST_REQUESTS_PER_S: Final = 1000.0
_HOST_REQUESTS_AT_ONCE: Final = 2000
"""Of all clients of a host, whatever ports they take."""
_GREETINGS_PER_S: Final = 1.0
"""Announcements to a host beyond the budget of its addresses.

Clients ask for them with 4 bytes, some only once.
"""
_GREETINGS_AT_ONCE: Final = 32
_ASKS: Final = frozenset({MessageId.CONNECT, MessageId.DISCOVERY})
"""Messages of a client that has read nothing yet."""
_PERIOD_SHARE: Final = 0.05
"""Of the newest period in the measured one."""
_EVERYTHING: Final = Subscriptions()


class NatNetOutput(OutputBase):
    """Serves poses over NatNet.

    Attributes:
        status: counts ``frames``, ``sent`` datagrams, ``unsent`` ones that the system refused,
            requests that are ``malformed`` or ``flooding``, clients ``refused`` and ``timed_out``,
            and datagrams withheld from addresses that have not answered (``unproven``); names the
            address and ``clients``.
    """

    def __init__(self, name: str, config: NatNetOutputConfig) -> None:
        super().__init__(name)
        self._config = config

    async def run(self, world: WorldView) -> None:
        """Serve until cancelled.

        Raises:
            SinkError: a port cannot be had, or the actors do not fit into a datagram.
        """
        config = self._config
        try:
            command = udp_socket(config.bind, config.command_port)
        except OSError as exc:
            raise cannot_serve("NatNet", f"{config.bind}:{config.command_port}", exc) from exc
        with closing(command):
            shared = config.transport == "multicast"  # clients of a group bind the same port
            try:
                data = udp_socket(config.bind, config.data_port, shared=shared)
            except OSError as exc:
                raise cannot_serve("NatNet", f"{config.bind}:{config.data_port}", exc) from exc
            with closing(data):
                await _Session(config, world, self.status, command, data).run()


class _Session:
    """One opening of the server."""

    def __init__(
        self,
        config: NatNetOutputConfig,
        world: WorldView,
        status: Status,
        command: socket.socket,
        data: socket.socket,
    ) -> None:
        self._config = config
        self._status = status
        self._command = command
        self._data = data
        self._feed = PoseFeed(world, config.actors, self._publish, status, config.rate_hz)
        kinds = world.snapshot(now_ns()).table.kinds
        humans = [kinds[row] is ActorKind.HUMAN for row in self._feed.rows]
        ids = [int(row) + 1 for row in self._feed.rows]
        self._frames = NatNetFrames(self._feed.names, ids, humans, config.up_axis)
        self._version = parse_version(config.version)
        self._multicast = config.transport == "multicast"
        timeout_ns = round(config.registration_timeout_s * NS_PER_S)
        self._clients = ClientTable(self._version, timeout_ns, config.max_clients)
        hooks = ResponderHooks(
            info=self._info,
            models=lambda: self._frames.models,
            ticks=lambda t_ns: t_ns,
            rate_hz=self._frame_rate_hz,
        )
        self._responder = NatNetResponder(
            self._version, self._clients, hooks, multicast=self._multicast
        )
        self._limit = RateLimiter(_REQUESTS_PER_S, _REQUESTS_AT_ONCE)
        self._host_limit = RateLimiter(_HOST_REQUESTS_PER_S, _HOST_REQUESTS_AT_ONCE)
        self._budget = ReplyBudget()
        self._greetings = RateLimiter(_GREETINGS_PER_S, _GREETINGS_AT_ONCE)
        self._number = 0
        self._start_ns = self._before_ns = now_ns()
        self._period_ns = 0.0

    async def run(self) -> None:
        """Serve until cancelled. Raises SinkError: the actors do not fit into a datagram."""
        self._check_size()
        loop = asyncio.get_running_loop()
        if self._multicast:
            send_multicast_from(self._data, self._config.bind)
        loop.add_reader(self._command, self._receive)
        try:
            self._status.facts.update(
                address=_dotted(self._command),
                data_address=_dotted(self._data),
                version=self._config.version,
                clients=0,
            )
            self._status.running()
            await self._feed.run()
        finally:
            loop.remove_reader(self._command)

    def _check_size(self) -> None:
        try:
            encode_models(self._frames.models, self._version)
        except ValueError as exc:
            raise _too_many(exc) from exc

    def _info(self) -> ServerInfo:
        return ServerInfo(
            name="VIL Bridge",
            app_version=(self._version[0] - 1, self._version[1], 0, 0),
            natnet_version=self._version,
            ticks_per_s=NS_PER_S,
            data_port=self._data.getsockname()[1],
            multicast=self._multicast,
            group=self._config.multicast_group,
        )

    # --- requests ---------------------------------------------------------------------------------

    def _receive(self) -> None:
        for datagram, address, t_arrival_ns in waiting_datagrams(self._command):
            if self._limit.wait_s(address) or self._host_limit.wait_s(address[0]):
                self._status.counters["flooding"] += 1
                continue
            self._limit.take(address)
            self._host_limit.take(address[0])
            try:
                reply = self._responder.reply(datagram, address, t_arrival_ns)
            except ProtocolError:
                self._status.counters["malformed"] += 1
            except ValueError as exc:
                raise _too_many(exc) from exc
            else:
                kind = int.from_bytes(datagram[:2], "little")
                self._budget.received(address, len(datagram), answers=kind not in _ASKS)
                if reply is not None:
                    self._answer(address, reply)
                if kind == MessageId.DISCONNECT:
                    self._budget.forget(address)

    def _answer(self, address: Address, reply: bytes) -> None:
        """Send an answer within the address's budget.

        Beyond it an announcement now and then, and nothing else.
        """
        announces = message_id(reply) == MessageId.SERVERINFO
        if not self._budget.take(address, len(reply)):
            host = address[0]
            if not announces or self._greetings.wait_s(host):
                self._status.counters["unproven"] += 1
                return
            self._greetings.take(host)
        self._send(self._command, address, reply)
        if announces:
            self._budget.asked(address)

    def _send(self, sock: socket.socket, address: Address, datagram: bytes) -> None:
        try:
            sock.sendto(datagram, address)
            self._status.counters["sent"] += 1
        except OSError:
            self._status.counters["unsent"] += 1

    # --- frames -----------------------------------------------------------------------------------

    def _publish(self, seen: PoseFrame) -> None:
        """Send a frame to all clients, encoded once for each layout and subscription."""
        t_ns = now_ns()
        self._number = self._number % 0x7FFFFFFF + 1
        self._status.counters["frames"] += 1
        frame, changed = self._frames.frame(self._number, seen)
        self._measure_period(seen.t_ns)
        params = Suffix.MODELS_CHANGED if changed else 0
        encoded: dict[object, bytes] = {}
        for address, destination in self._listeners(t_ns):
            version = self._clients.version(address)
            wanted = self._clients.subscriptions(address) or _EVERYTHING
            bits = params | self._clients.announcement(address)
            key = version, bits, wanted.key
            if key not in encoded:
                part = subscribed(frame, self._frames.bodies, self._frames.skeletons, wanted)
                encoded[key] = self._encoded(part, seen.t_ns, t_ns, bits, version)
            if not self._multicast and not self._budget.take(address, len(encoded[key])):
                self._status.counters["unproven"] += 1
                continue
            self._send(self._data, destination, encoded[key])
        self._status.facts["clients"] = len(self._clients.addresses)
        self._status.counters["refused"] = self._clients.refused
        self._status.counters["timed_out"] = self._clients.timed_out

    def _encoded(
        self,
        frame: NatNetFrame,
        t_ns: int,
        t_received_ns: int,
        bits: int,
        version: tuple[int, int, int, int],
    ) -> bytes:
        since_start_s = (t_ns - self._start_ns) / NS_PER_S
        suffix = Suffix(
            since_start_s, mid_exposure=t_ns, received=t_received_ns, transmit=now_ns(), params=bits
        )
        try:
            return encode_frame(replace(frame, suffix=suffix), version)
        except ValueError as exc:
            raise _too_many(exc) from exc

    def _listeners(self, t_ns: int) -> list[tuple[Address, Address]]:
        """Return the clients that get frames, each with the destination."""
        if self._multicast:
            group = self._config.multicast_group, self._data.getsockname()[1]
            return [(group, group)]
        port = self._config.client_port
        return [(address, (address[0], port or address[1])) for address in self._clients.due(t_ns)]

    def _frame_rate_hz(self) -> float:
        """Return the rate as configured, else as measured; 0 = not known yet."""
        measured_hz = NS_PER_S / self._period_ns if self._period_ns else 0.0
        return self._config.rate_hz or measured_hz

    def _measure_period(self, t_ns: int) -> None:
        """Measure the period of the frames, for clients that ask for their rate."""
        newest_ns = t_ns - self._before_ns
        self._before_ns = t_ns
        self._period_ns += (newest_ns - self._period_ns) * (
            _PERIOD_SHARE if self._period_ns else 1.0
        )


def _dotted(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"{host}:{port}"


def _too_many(error: ValueError) -> SinkError:
    return SinkError(
        f"the actors do not fit into one datagram ({error}). List fewer `actors`, or divide them"
    )
