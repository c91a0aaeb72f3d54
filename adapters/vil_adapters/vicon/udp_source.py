"""Source of Tracker's UDP object stream: names, poses and a frame number, nothing else."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Final

import numpy as np

from vil_adapters.common.expected_subjects import Wanted
from vil_adapters.common.frame_order import DROPPED, FrameOrder, FrameVerdict
from vil_adapters.common.plausible_range import within_reach
from vil_adapters.common.resets import ResetReporter
from vil_adapters.vicon.config import TrackerUdpConfig
from vil_adapters.vicon.connection import find, route
from vil_adapters.vicon.convert import M_PER_MM
from vil_adapters.vicon.udp_codec import ObjectBlock, decode_objects, q_from_euler_xyz
from vil_bridge.core.clock import NS_PER_S, now_ns
from vil_bridge.core.datagrams import Datagram, Tap
from vil_bridge.core.errors import ProtocolError, SourceUnavailable
from vil_bridge.core.ports import Emit
from vil_bridge.core.supervisor import Status
from vil_bridge.core.types import BoolArray, SourceFrame

__all__ = ["ObjectTracker", "TrackerUdpSource"]

logger = logging.getLogger(__name__)

_DATAGRAM_BYTES: Final = 65536
_MAX_DATAGRAMS_PER_WAKE: Final = 256
_RECEIVE_BUFFER_BYTES: Final = 1 << 20
_HOUSEKEEPING_S: Final = 0.1
_WAITING_NS: Final = 1 * NS_PER_S
_REPEATS: Final = 5
_ANY: Final = "0.0.0.0"  # noqa: S104 - written, not bound
_MAX_OBJECTS: Final = 1024
_LARGEST_RAD: Final = 100.0
"""Angles are told within a turn; of numbers without sense no attitude can be made."""


class ObjectTracker:
    """Turns datagrams into frames and judges what the stream does not say.

    A measured pose never repeats to the last bit: five equal ones in a row are a lost object whose
    last pose is sent on. An object that was seen once and is missing is lost as well.

    Args:
        source: name of the source.
        rate_hz: of the system; None = unknown.

    Attributes:
        invalid: poses that are not finite, or beyond 10 km.
        refused: objects beyond the 1024 that are remembered.
    """

    def __init__(self, source: str, rate_hz: float | None) -> None:
        self.invalid = 0
        self.refused = 0
        self._source = source
        self._rate_hz = rate_hz
        self._row: dict[str, int] = {}
        self._subjects: tuple[str, ...] = ()
        self._poses: dict[str, tuple[bytes, int]] = {}  # bytes of the last pose, how often they came
        self._order = FrameOrder()

    @property
    def subjects(self) -> tuple[str, ...]:
        """Objects seen so far."""
        return self._subjects

    @property
    def lost(self) -> int:
        """Frame numbers that were skipped."""
        return self._order.lost

    def judge(self, number: int, t_arrival_ns: int) -> FrameVerdict:
        """Place a frame by its number; after a restart the stream is another one."""
        verdict = self._order.judge(number, t_arrival_ns)
        if verdict is FrameVerdict.RESTARTED:
            self._poses.clear()
        return verdict

    @np.errstate(invalid="ignore", over="ignore")  # any bits may come; what is no pose is judged
    def take(self, block: ObjectBlock, t_arrival_ns: int) -> SourceFrame:
        """The next frame, all known objects in it, in the room frame."""
        self._learn(block.names)
        count = len(self._subjects)
        p_m, q_xyzw, tracked = np.zeros((count, 3)), np.zeros((count, 4)), np.zeros(count, dtype=np.bool_)
        q_xyzw[:, 3] = 1.0
        numbers = np.hstack((block.items["p"], block.items["euler"]))
        finite: BoolArray = np.isfinite(numbers).all(axis=1) & within_reach(block.items["p"] * M_PER_MM)
        finite &= np.abs(block.items["euler"]).max(axis=1, initial=0.0) < _LARGEST_RAD
        self.invalid += int(np.count_nonzero(~finite))
        q_read = q_from_euler_xyz(np.where(finite[:, None], block.items["euler"], 0.0))
        for i, name in enumerate(block.names):
            row = self._row.get(name)
            if row is not None and self._moved(name, block.items[i].tobytes()) and finite[i]:
                p_m[row], q_xyzw[row], tracked[row] = block.items["p"][i] * M_PER_MM, q_read[i], True
        return SourceFrame(
            source=self._source,
            frame_number=block.frame_number,
            t_foreign_ns=self._stamp_ns(block.frame_number),
            t_arrival_ns=t_arrival_ns,
            subjects=self._subjects,
            p_m=p_m,
            q_xyzw=q_xyzw,
            tracked=tracked,
        )

    def _stamp_ns(self, number: int) -> int | None:
        return None if self._rate_hz is None else round(number * NS_PER_S / self._rate_hz)

    def _learn(self, names: tuple[str, ...]) -> None:
        new = [name for name in dict.fromkeys(names) if name not in self._row]
        room = _MAX_OBJECTS - len(self._row)
        self.refused += max(0, len(new) - room)
        for name in new[:room]:
            self._row[name] = len(self._row)
            self._subjects = (*self._subjects, name)

    def _moved(self, name: str, pose: bytes) -> bool:
        """Whether the pose is not the same one for several frames."""
        before, times = self._poses.get(name, (b"", 0))
        times = times + 1 if pose == before else 1
        self._poses[name] = pose, times
        return times < _REPEATS


class TrackerUdpSource:
    """Rigid objects from Tracker's UDP object stream (implements ``PoseSource`` and ``DatagramSource``)."""

    def __init__(self, name: str, config: TrackerUdpConfig) -> None:
        self.name = name
        self.tap: Tap | None = None
        self._config = config

    async def run(self, emit: Emit, status: Status) -> None:
        """Receive until cancelled.

        Raises:
            SourceUnavailable: the server's name is unknown, or the port is taken.
        """
        server_ip, _ = await find(self._config.server, self._config.port)
        sock = self._bound()
        session = _Session(self.name, self._config, server_ip, sock, emit, status, self.tap)
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(sock, session.on_readable)
            while not session.failed.done():
                await asyncio.wait((session.failed,), timeout=_HOUSEKEEPING_S)
                session.tell_silence(now_ns())
            session.failed.result()
        finally:
            loop.remove_reader(sock)
            sock.close()

    def _bound(self) -> socket.socket:
        """Broadcasts reach only a socket that is bound to all addresses; the sender is checked instead."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
            sock.bind(("", self._config.port))
        except OSError as exc:
            sock.close()
            raise SourceUnavailable(f"cannot listen on UDP port {self._config.port}: {exc.strerror}") from exc
        return sock


class _Session:
    """One run of the source."""

    def __init__(
        self,
        name: str,
        config: TrackerUdpConfig,
        server_ip: str,
        sock: socket.socket,
        emit: Emit,
        status: Status,
        tap: Tap | None,
    ) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._config = config
        self._server_ip = server_ip
        self._sock = sock
        self._emit = emit
        self._status = status
        self._resets = ResetReporter(name, emit, status)
        self._tap = tap
        self._objects = ObjectTracker(name, config.rate_hz)
        self._emitted_ns = now_ns()
        self._foreign_ip = ""
        self._wanted = Wanted(name, config.subjects)
        self._warned: set[str] = set()
        interface = route((server_ip, config.port))
        self._here = interface or _ANY, config.port
        status.facts.update(server=server_ip, port=config.port, interface=interface)

    def on_readable(self) -> None:
        """Read what waits, emit the newest frame."""
        try:
            self._drain()
        except Exception as exc:
            if not self.failed.done():
                self.failed.set_exception(exc)

    def tell_silence(self, t_ns: int) -> None:
        """Say why nothing is emitted."""
        if t_ns - self._emitted_ns <= _WAITING_NS:
            return
        other = f" ({self._foreign_ip} sends there and is not listened to)" if self._foreign_ip else ""
        self._status.waiting(
            f"no objects from {self._server_ip} on UDP port {self._config.port}{other}: in Tracker's "
            f"UDP object stream, is it enabled, sent to {self._status.facts['interface'] or 'this computer'} (or "
            f"broadcast) and port {self._config.port}? Does the firewall here let UDP in?"
        )

    def _drain(self) -> None:
        newest: SourceFrame | None = None
        for _ in range(_MAX_DATAGRAMS_PER_WAKE):
            try:
                datagram, sender = self._sock.recvfrom(_DATAGRAM_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            t_arrival_ns, sender_ip = now_ns(), sender[0]
            if self._tap is not None:
                self._tap(Datagram(t_arrival_ns, sender, self._here, datagram))
            if sender_ip != self._server_ip:
                self._foreign_ip = sender_ip
                self._count("foreign", "a datagram from %s, which is not the server", sender_ip)
                continue
            try:
                frame = self._take(decode_objects(datagram), t_arrival_ns)
            except ProtocolError as exc:
                self._count("malformed", "a datagram: %s", exc)
                continue
            if frame is not None:
                self._status.counters["superseded"] += newest is not None
                newest = frame
        if newest is not None:
            self._deliver(newest)

    def _take(self, block: ObjectBlock, t_arrival_ns: int) -> SourceFrame | None:
        objects = self._objects
        verdict = objects.judge(block.frame_number, t_arrival_ns)
        if verdict in DROPPED:
            self._status.counters[DROPPED[verdict]] += 1
            return None
        if verdict is FrameVerdict.RESTARTED:
            self._resets.report(f"frame numbers go on from {block.frame_number}")
        frame = objects.take(block, t_arrival_ns)
        for reason in ("lost", "invalid", "refused"):
            self._status.counters[reason] = getattr(objects, reason)
        return frame

    def _deliver(self, frame: SourceFrame) -> None:
        self._emit(frame)
        self._emitted_ns = frame.t_arrival_ns
        self._status.running()
        if self._status.facts.get("subjects") != list(frame.subjects):
            self._status.facts["subjects"] = list(frame.subjects)
            self._wanted.compare(frame.subjects)

    def _count(self, reason: str, message: str, *args: object) -> None:
        self._status.counters[reason] += 1
        if reason not in self._warned:
            self._warned.add(reason)
            logger.warning("%s: dropped " + message, self._name, *args)
