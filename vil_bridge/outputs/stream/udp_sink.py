"""Pictures in datagrams with parity, for lossy radio links.

Every reader has its own thread and its own pace.

Nothing goes anywhere before the reader itself has sent a report that only the owner of its token
can make, and proved by a cookie that it receives at the address that the report came from. So
addresses need no configuration, only the reader says where its stream goes, and the reader cannot
aim it at others.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from vil_bridge.core.clock import NS_PER_MS, NS_PER_S, machine_ns, now_ns
from vil_bridge.core.errors import ProtocolError, SinkError
from vil_bridge.core.threads import ContextThread
from vil_bridge.outputs.stream.encoded_picture import EncodedPicture
from vil_bridge.outputs.stream.fec import (
    Report,
    decode_report,
    encode_challenge,
    is_from,
    packets,
    stream_id,
)
from vil_bridge.outputs.stream.subscriber import Subscriber
from vil_bridge.outputs.stream.udp_cookies import Cookies
from vil_bridge.outputs.stream.udp_rate_control import RateControl
from vil_bridge.outputs.stream.zmq_sink import ZmqStreamSink
from vil_bridge.runtime.pacing import in_bursts
from vil_bridge.runtime.peer_faults import PeerFaults

logger = logging.getLogger(__name__)

_REPORTS_AT_ONCE: Final = 64
_REST_S: Final = 0.002
_REPORT_LIMIT: Final = 128  # bytes; what is longer is cut, and refused for its size
_SEND_BUFFER_BYTES: Final = 1 << 20
_SPREAD: Final = 0.3  # of the time between two pictures, over which the packets of one are sent
_QUICKER: Final = 0.95
"""Share of the time that the link is busy with a picture, over which the packets of the next one
are sent: hardly a buffer fills, and a link that became quicker is found.
"""
_LONGEST_INTERVAL_NS: Final = 100 * NS_PER_MS
_BURST_NS: Final = NS_PER_MS
_SILENCE_NS: Final = 2 * NS_PER_S
_CHALLENGES: Final = 3
"""A reader answers the first challenge that reaches it.

After some in a row its address is not its own.
"""

OnReport = Callable[[str, Report, int], None]


class UdpServer:
    """The bridge's one UDP socket for all readers; reports are popped in the loop's thread.

    Attributes:
        port: bound.
        counters: ``malformed`` datagrams, ``stray`` ones of streams that are not, ``forged`` or
            repeated reports, ``unproven`` ones from an address that does not answer challenges,
            ``congested`` packets that this host had no room for, ``unsent`` ones that it refused.
    """

    def __init__(
        self, host: str, port: int, rate_bps: float, on_report: OnReport, faults: PeerFaults
    ) -> None:
        """Bind; needs the running loop.

        Args:
            host: address, ``*`` = all.
            port: 0 = any free one.
            rate_bps: bits per second for one reader at most.
            on_report: called with (token, report, arrival) for every true report.
            faults: takes the senders of what is refused.

        Raises:
            SinkError: the address cannot be bound.
        """
        self.counters: Counter[str] = Counter()
        self._rate_bps = rate_bps
        self._on_report = on_report
        self._faults = faults
        self._cookies = Cookies()
        self._threads: dict[bytes, UdpSubscriberThread] = {}
        self._socket = _bound_socket(host, port)
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._receive()

    def add_thread(
        self, subscriber: Subscriber[EncodedPicture], sink: ZmqStreamSink
    ) -> UdpSubscriberThread:
        """Serve a reader as soon as it reports; its thread runs from now on."""
        thread = self._threads[stream_id(subscriber.token)] = UdpSubscriberThread(
            subscriber, sink, self, self._rate_bps
        )
        return thread

    def remove_thread(self, token: str) -> None:
        """Take no more reports of a reader."""
        self._threads.pop(stream_id(token), None)

    def send(self, datagram: bytes, address: Any) -> None:
        """Send now or never; any thread."""
        try:
            self._socket.sendto(datagram, address)
        except BlockingIOError:
            self.counters["congested"] += 1
        except OSError:
            self.counters["unsent"] += 1

    def close(self) -> None:
        """End the readers' threads and release the port."""
        self._loop.remove_reader(self._socket)
        if self._resting is not None:
            self._resting.cancel()
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()
        self._socket.close()

    def _receive(self) -> None:
        self._loop.add_reader(self._socket, self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(_REPORTS_AT_ONCE):
            try:
                datagram, address = self._socket.recvfrom(_REPORT_LIMIT)
            except BlockingIOError:
                return
            except OSError:
                self.counters["unsent"] += 1  # an earlier packet met a closed port
                continue
            self._on_datagram(datagram, address)
        self._loop.remove_reader(self._socket)  # a flood waits in the kernel, or is lost there
        self._resting = self._loop.call_later(_REST_S, self._receive)

    def _on_datagram(self, datagram: bytes, address: Any) -> None:
        t_arrival_ns = now_ns()
        try:
            report = decode_report(datagram)
        except ProtocolError as exc:
            if not self.counters["malformed"]:
                logger.warning("UDP stream: ignored a datagram of %s: %s", address[0], exc)
            self._refuse("malformed", address)
            return
        thread = self._threads.get(report.stream)
        if thread is None:
            self._refuse("stray", address)
        elif not is_from(thread.token, datagram) or not thread.is_next(report):
            self._refuse("forged", address)
        elif thread.address == address or self._cookies.prove(
            report.cookie, report.stream, address
        ):
            thread.heard(report, address, t_arrival_ns)
            self._on_report(thread.token, report, t_arrival_ns)
        else:
            thread.challenges += 1
            if thread.challenges > _CHALLENGES:
                self._refuse("unproven", address, thread.name)
            self.send(
                encode_challenge(thread.token, self._cookies.make(report.stream, address)), address
            )

    def _refuse(self, reason: str, address: Any, name: str = "") -> None:
        self.counters[reason] += 1
        self._faults.add(f"udp_{reason}", address[0], name)


class UdpSubscriberThread:
    """Thread of one reader.

    Cuts its pictures into packets and sends them at a rate that its link bears.
    """

    def __init__(
        self,
        subscriber: Subscriber[EncodedPicture],
        sink: ZmqStreamSink,
        server: UdpServer,
        rate_bps: float,
    ) -> None:
        self.token = subscriber.token
        self._subscriber = subscriber
        self._sink = sink
        self._server = server
        self._stream = stream_id(self.token)
        self._rate = RateControl(rate_bps)
        self.name = subscriber.name
        self.challenges = 0
        self._address: Any = None
        self._t_heard_ns = 0
        self._last_report = 0
        self._packets = self._frames = 0
        self._t_begun_ns = self._t_free_ns = 0
        self._closing = False
        self._failure: BaseException | None = None
        self._wake = threading.Event()
        ContextThread(target=self._run, name=f"vil-udp-{subscriber.camera}", daemon=True).start()

    @property
    def address(self) -> Any:
        """Proven address of the reader; None before, and after two seconds without a report."""
        return self._address if machine_ns() - self._t_heard_ns < _SILENCE_NS else None

    def is_next(self, report: Report) -> bool:
        """Return False for a report that came before."""
        if report.serial <= self._last_report:
            return False
        self._last_report = report.serial
        return True

    def heard(self, report: Report, address: Any, t_ns: int) -> None:
        """Account a report from an address where the reader proved to be."""
        self._address, self._t_heard_ns, self.challenges = address, machine_ns(), 0
        self._rate.reported(t_ns, report.highest, report.received)

    def report(self) -> dict[str, Any]:
        """Return its state for status pages."""
        return {
            "rate_mbps": self._rate.rate_bps / 1e6,
            "packets_sent": self._packets,
            "packets_lost": self._rate.lost,
        }

    def wake(self) -> None:
        """Look for a waiting frame and for credit.

        Raises:
            RuntimeError: the thread ended by a bug.
        """
        if self._failure is not None:
            raise RuntimeError("a UDP reader's thread failed") from self._failure
        self._wake.set()

    def close(self) -> None:
        """End soon."""
        self._closing = True
        self._wake.set()

    def _run(self) -> None:
        try:
            while not self._closing:
                due_ns = self._subscriber.due_ns
                self._wake.wait(None if due_ns is None else max(0, due_ns - now_ns()) / NS_PER_S)
                self._wake.clear()
                while not self._closing and (popped := self._subscriber.pop()) is not None:
                    self._send(popped[1])
        except BaseException as exc:  # raised in the relay, which ends the process with it
            self._failure = exc

    def _send(self, picture: EncodedPicture) -> None:
        if picture.expires_within(self._subscriber.transit_ns()):
            self._subscriber.drop(picture.frame_id, "too_old")
            return
        address = self.address
        if address is None:
            self._subscriber.drop(picture.frame_id, "not_connected")
            return
        options = self._subscriber.encoding_options
        if not picture.can_encode(options):
            self._subscriber.drop(picture.frame_id, "preparing")
            return
        message = picture.message(options, self._subscriber.events)
        header = message.header.to_json()
        try:
            datagrams = packets(
                self._stream, self._frames + 1, self._packets + 1, header, message.payload
            )
        except ProtocolError:
            self._subscriber.drop(picture.frame_id, "too_large")
            return
        self._frames += 1
        self._packets += len(datagrams)
        self._sink.on_sent(picture.frame_id, message.header.stamps_ns)
        self._spread(datagrams, address)
        self._subscriber.sent += 1

    def _spread(self, datagrams: list[bytes], address: Any) -> None:
        """Send in small bursts, over a part of the time between two pictures or as long as rate
        or link ask.
        """
        t_begin_ns = max(machine_ns(), self._t_free_ns)
        interval_ns = min(t_begin_ns - self._t_begun_ns, _LONGEST_INTERVAL_NS)
        at_rate_ns = 8 * sum(map(len, datagrams)) * NS_PER_S / self._rate.rate_bps
        duration_ns = max(
            _SPREAD * interval_ns, at_rate_ns, _QUICKER * self._subscriber.stretch_ns()
        )
        self._t_begun_ns = t_begin_ns
        self._t_free_ns = t_begin_ns + round(duration_ns)
        burst = max(1, round(len(datagrams) * _BURST_NS / duration_ns))
        for together in in_bursts(datagrams, t_begin_ns, duration_ns, burst):
            if self._closing:
                return
            for datagram in together:
                self._server.send(datagram, address)


def _bound_socket(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            None if host == "*" else host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
        )
        # The control channel takes the IPv4 address, where the name has both.
        family, kind, protocol, _, address = min(
            found, key=lambda entry: entry[0] != socket.AF_INET
        )
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setblocking(False)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except OSError as exc:
        raise SinkError(
            f"cannot bind the UDP stream to {host}:{port}: {exc.strerror or exc}"
        ) from exc
    return bound
