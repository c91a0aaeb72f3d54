"""Transports to an autopilot: a serial line, UDP or TCP, read by the event loop without waiting."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol, Self

import serial

from vil_bridge.core.clock import machine_ns, now_ns
from vil_bridge.protocols.bound_peer import RETAINED_NS, BoundPeer, PeerAddress, place_of
from vil_bridge.runtime.network import local_address, resolve
from vil_bridge.runtime.supervisor import Status

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 65536
_MAX_FOREIGN_PER_READ: Final = 64
_MAX_READS_PER_WAKE: Final = 64
_RETRY_S: Final = 0.2
_CONNECT_S: Final = 3.0
_FIRST_BYTES: Final = b"\xfd\xfe"
"""Of a MAVLink frame, version 2 and 1."""


class Transport(Protocol):
    """Bytes to and from one autopilot."""

    @property
    def place(self) -> str:
        """Address of the other end, for people."""
        ...

    @property
    def cure(self) -> str:
        """Advice for the case that nothing comes."""
        ...

    @property
    def datagrams(self) -> bool:
        """True when one read returns whole frames."""
        ...

    def fileno(self) -> int:
        """Return the descriptor that is readable when bytes wait."""
        ...

    def receive(self) -> bytes | None:
        """Return the bytes that wait; empty when the line hung up, None when there are none."""
        ...

    def send(self, frame: bytes) -> bool:
        """Write one frame without waiting; False when it found no room."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class TransportAddress(Protocol):
    """Address of an autopilot: :class:`~vil_bridge.config.transport.TransportConfig`."""

    @property
    def device(self) -> str | None:
        """Serial device; None = UDP."""
        ...

    @property
    def baud(self) -> int:
        """Bits per second."""
        ...

    @property
    def peer(self) -> str:
        """UDP: address or name of the other side."""
        ...

    @property
    def port(self) -> int:
        """UDP: local port."""
        ...

    @property
    def peer_port(self) -> int | None:
        """UDP: port at which the other side listens; None = it sends first."""
        ...


class _StreamTransport:
    """A descriptor of a stream that ends when it hangs up (implements :class:`Transport`)."""

    datagrams = False

    def __init__(self, stream: serial.Serial | socket.socket, place: str, cure: str) -> None:
        self._stream = stream
        self.place = place
        self.cure = cure

    def fileno(self) -> int:
        """Implement :class:`Transport`."""
        return int(self._stream.fileno())

    def receive(self) -> bytes | None:
        """Implement :class:`Transport`."""
        try:
            return os.read(self.fileno(), _READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def send(self, frame: bytes) -> bool:
        """Implement :class:`Transport`."""
        try:
            return os.write(self.fileno(), frame) == len(frame)
        except BlockingIOError:
            return False
        except OSError:
            return True  # the reader sees the same hang-up

    def close(self) -> None:
        """Implement :class:`Transport`."""
        self._stream.close()


class SerialTransport(_StreamTransport):
    """A serial line.

    Args:
        device: path.
        baud: bits per second.
        protocol: spoken on it, for people.

    Raises:
        OSError: the device is absent (ENOENT), used by another program, or broken.
        ValueError: it refuses the baud rate.
    """

    def __init__(self, device: str, baud: int, protocol: str) -> None:
        # The inter-byte timeout sets VMIN to 1: only then does an empty read mean that the line
        # hung up.
        port = serial.Serial(
            device, baud, timeout=0, write_timeout=0, inter_byte_timeout=0, exclusive=True
        )
        cure = f"check the baud rate and that {protocol} is enabled on the autopilot's port"
        super().__init__(port, f"{device} at {baud} baud", cure)


async def open_transport(address: TransportAddress, status: Status) -> Transport:
    """Return the transport that a configuration describes; a serial device is waited for.

    Raises:
        OSError: UDP: the other side is unknown, no interface leads there, or the port is taken.
    """
    if address.device is not None:
        return await open_serial(address.device, address.baud, status, "MAVLink")
    try:
        peer_ip = await resolve(address.peer, address.port)
        transport = UdpTransport(peer_ip, address.port, address.peer_port, status.counters)
    except OSError as exc:
        why = exc.strerror or exc
        raise OSError(
            exc.errno, f"cannot listen on UDP port {address.port} to {address.peer}: {why}"
        ) from exc
    status.facts.update(address=peer_ip, interface=f"{transport.local_ip}:{transport.port}")
    return transport


async def open_serial(device: str, baud: int, status: Status, protocol: str) -> SerialTransport:
    """Open a device as soon as it exists; report what is missing until then."""
    while True:
        try:
            transport = SerialTransport(device, baud, protocol)
        except (OSError, ValueError) as exc:
            if isinstance(exc, OSError) and exc.errno == errno.ENOENT:
                status.waiting(f"{device} does not exist: is the autopilot connected and powered?")
            else:
                status.waiting(f"{device} cannot be opened: {exc}")
        else:
            status.facts["device"] = device
            return transport
        await asyncio.sleep(_RETRY_S)


async def open_tcp(host: str, port: int, status: Status) -> TcpTransport:
    """Connect as soon as a server listens there; report what is wrong until then."""
    loop = asyncio.get_running_loop()
    while True:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(_CONNECT_S):
                await loop.sock_connect(sock, (await resolve(host, port), port))
        except OSError as exc:  # a time-out is one too
            sock.close()
            status.waiting(f"{host}:{port} cannot be reached: {exc.strerror or 'no answer'}")
        except BaseException:
            sock.close()
            raise
        else:
            status.facts["address"] = f"{host}:{port}"
            return TcpTransport(sock, f"TCP {host}:{port}")
        await asyncio.sleep(_RETRY_S)


class TcpTransport(_StreamTransport):
    """A TCP connection."""

    def __init__(self, sock: socket.socket, place: str) -> None:
        super().__init__(sock, place, "something else than an autopilot listens there")


class UdpTransport:
    """UDP to one vehicle (implements :class:`Transport`).

    It sends first, or listens at a known port.

    Args:
        peer_ip: the vehicle's address; other senders are counted in ``foreign`` and dropped.
        port: local port, 0 = any free one.
        peer_port: where the vehicle listens; None = it sends first. Its port is then that of the
            first MAVLink frame, and answers go there, until it has been silent for 2 s; other ports
            are ``foreign`` too.
        counters: gets ``foreign`` and ``unsent``.

    Raises:
        OSError: no route, or the port is taken.
    """

    datagrams = True

    def __init__(
        self, peer_ip: str, port: int, peer_port: int | None, counters: Counter[str]
    ) -> None:
        self._counters = counters
        self._peer_ip = peer_ip
        self._peer: tuple[str, int] | None = None if peer_port is None else (peer_ip, peer_port)
        self._bound = BoundPeer()
        self._heard_ns = 0
        self._refused = False
        self._stranger = ""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self.local_ip = local_address(peer_ip, peer_port or port or 1)
            self._socket.bind((self.local_ip, port))
            if self._peer is not None:
                self._socket.connect(self._peer)  # so that refusals are heard
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    @property
    def place(self) -> str:
        """Both ends."""
        there = f"{self._peer_ip}:{self._peer[1]}" if self._peer else self._peer_ip
        return f"UDP {self.local_ip}:{self.port} from {there}"

    @property
    def cure(self) -> str:
        """Advice from what the network reported."""
        if self._refused:
            return "refused: that computer is up, but no vehicle listens there"
        if self._stranger:
            return f"datagrams come from {self._stranger} instead: is that the vehicle's address?"
        return (
            "silent: does the vehicle send to this address and port, and does the firewall "
            "here let UDP in?"
        )

    def fileno(self) -> int:
        """Implement :class:`Transport`."""
        return self._socket.fileno()

    def receive(self) -> bytes | None:
        """Return the next datagram of the vehicle; UDP never hangs up."""
        for _ in range(_MAX_FOREIGN_PER_READ):
            try:
                datagram, sender = self._socket.recvfrom(_READ_BYTES)
            except BlockingIOError:
                return None
            except OSError as exc:
                self._refused = exc.errno == errno.ECONNREFUSED
                continue
            if sender[0] != self._peer_ip:
                self._counters["foreign"] += 1
                self._stranger = sender[0]
            elif datagram and self._takes(datagram, sender):
                self._refused = False
                self._stranger = ""
                return datagram
        return None

    def _takes(self, datagram: bytes, sender: PeerAddress) -> bool:
        """Return True for the port of the vehicle, which the first one that speaks MAVLink is."""
        t_ns = machine_ns()
        if t_ns - self._heard_ns > RETAINED_NS:
            self._bound.let_go()
        if not self._bound.bound and datagram[0] not in _FIRST_BYTES:
            return True  # it is counted as garbage, and nothing goes there
        if not self._bound.takes(sender):
            self._counters["foreign"] += 1
            self._stranger = place_of(sender)
            return False
        self._heard_ns = t_ns
        self._peer = sender
        return True

    def send(self, frame: bytes) -> bool:
        """Implement :class:`Transport`; nothing is sent before it is known to where."""
        if self._peer is None:
            return True
        try:
            self._socket.sendto(frame, self._peer)
        except BlockingIOError:
            return False
        except OSError as exc:
            self._refused = exc.errno == errno.ECONNREFUSED
        return True

    def close(self) -> None:
        """Implement :class:`Transport`."""
        self._socket.close()


class TransportReader:
    """Reader of a transport; use it as a context manager in a running loop.

    Args:
        name: of the user of the reader, for the log.
        transport: to read.
        on_data: called with what came at once, a whole datagram where there are such, and its
            arrival time.
        on_read: called when all that waited was taken.

    Attributes:
        ended: done when the transport hung up; raises what a callback raised.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        on_data: Callable[[bytes, int], None],
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._transport = transport
        self._on_data = on_data
        self._on_read = on_read

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._transport.fileno(), self._on_readable)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._transport.fileno())

    def _on_readable(self) -> None:
        try:
            self._drain()
        except Exception as exc:
            if not self.ended.done():
                self.ended.set_exception(exc)

    def _drain(self) -> None:
        for _ in range(_MAX_READS_PER_WAKE):
            data = self._transport.receive()
            t_arrival_ns = now_ns()
            if data is None:
                break
            if not data:
                logger.info("%s: %s hung up", self._name, self._transport.place)
                # A level-triggered loop would call again and again until the reader is removed.
                asyncio.get_running_loop().remove_reader(self._transport.fileno())
                if not self.ended.done():
                    self.ended.set_result(None)
                break
            self._on_data(data, t_arrival_ns)
        self._on_read()
