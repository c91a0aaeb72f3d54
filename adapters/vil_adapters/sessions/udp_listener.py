"""Receive loop of a source to which one server sends datagrams without requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final

from vil_adapters.sessions.callbacks import guarded
from vil_adapters.sessions.reports import DropLog, ExpectedSubjects
from vil_adapters.sessions.servers import find, route
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.errors import ProtocolError, SourceUnavailable
from vil_bridge.core.types import SourceFrame
from vil_bridge.interfaces.ports import Emit
from vil_bridge.protocols.sockets import udp_socket, waiting_datagrams
from vil_bridge.runtime.datagrams import Datagram, Tap
from vil_bridge.runtime.supervisor import Status

_HOUSEKEEPING_S: Final = 0.1
_WAITING_NS: Final = 1 * NS_PER_S
_ANY: Final = "0.0.0.0"  # noqa: S104 - shown, not bound

Decode = Callable[[bytes, int], SourceFrame | None]


class UdpListener:
    """Receive loop for the datagrams of one server, which emits the newest waiting frame.

    Counters of the status: ``foreign`` (datagrams of other senders), ``malformed``, ``superseded``.
    Facts: ``server``, ``port``, ``interface``, ``subjects``.

    Args:
        source: name of the source.
        subjects: names that must be there; a missing one is logged once.
        decode: called with a datagram and its arrival; returns a frame, or None when it must not be
            emitted. Raises ProtocolError for a malformed datagram.
        tap: called with every datagram.
    """

    def __init__(
        self,
        source: str,
        subjects: Iterable[str],
        emit: Emit,
        status: Status,
        decode: Decode,
        tap: Tap | None = None,
    ) -> None:
        self._emit = emit
        self._status = status
        self._decode = decode
        self._tap = tap
        self._drops = DropLog(source, status.counters)
        self._expected = ExpectedSubjects(source, subjects)
        self._emitted_ns = now_ns()
        self._foreign_ip = ""

    async def run(self, server: str, port: int, hint: str) -> None:
        """Receive until cancelled.

        Args:
            server: address or name of the only sender that is accepted.
            port: UDP port here.
            hint: what to check while nothing arrives; ends the reason in the status.

        Raises:
            SourceUnavailable: the server's name is unknown, or the port is taken.
        """
        server_ip, _ = await find(server, port)
        try:
            # Broadcasts reach only a socket that is bound to all addresses.
            sock = udp_socket("", port)
        except OSError as exc:
            raise SourceUnavailable(f"cannot listen on UDP port {port}: {exc.strerror}") from exc
        interface = route((server_ip, port))
        self._status.facts.update(server=server_ip, port=port, interface=interface)
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()
        loop.add_reader(sock, guarded(failed, self._drain), sock, server_ip, interface or _ANY)
        try:
            while not failed.done():
                await asyncio.wait((failed,), timeout=_HOUSEKEEPING_S)
                if now_ns() - self._emitted_ns > _WAITING_NS:
                    other = ""
                    if self._foreign_ip:
                        other = f" ({self._foreign_ip} sends there; it is not the server)"
                    self._status.waiting(
                        f"no objects from {server_ip} on UDP port {port}{other}: {hint}"
                    )
            failed.result()
        finally:
            loop.remove_reader(sock)
            sock.close()

    def _drain(self, sock: socket.socket, server_ip: str, interface: str) -> None:
        newest: SourceFrame | None = None
        for datagram, sender, t_arrival_ns in waiting_datagrams(sock):
            if self._tap is not None:
                self._tap(
                    Datagram(t_arrival_ns, sender, (interface, sock.getsockname()[1]), datagram)
                )
            if sender[0] != server_ip:
                self._foreign_ip = sender[0]
                self._drops.count(
                    "foreign", "a datagram from %s, which is not the server", sender[0]
                )
                continue
            try:
                frame = self._decode(datagram, t_arrival_ns)
            except ProtocolError as exc:
                self._drops.count("malformed", "a datagram: %s", exc)
                continue
            if frame is not None:
                if newest is not None:
                    self._status.counters["superseded"] += 1
                newest = frame
        if newest is not None:
            self._deliver(newest)

    def _deliver(self, frame: SourceFrame) -> None:
        self._emit(frame)
        self._emitted_ns = frame.t_arrival_ns
        self._status.running()
        if self._status.facts.get("subjects") != list(frame.subjects):
            self._status.facts["subjects"] = list(frame.subjects)
            self._expected.compare(frame.subjects)
