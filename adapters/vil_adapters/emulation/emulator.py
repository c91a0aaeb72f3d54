"""Base of all emulators: frames of a motion on an even grid, with faults, sent at exact times.

An emulator defines the layout of a frame and its destinations; the emulated server defines the
times, the clock and the faults.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.core.types import MotionFrame
from vil_bridge.interfaces.faults import Delivery, Faults, SubjectFaults
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.runtime.delay_line import DelayLine

Send = Callable[[bytes], None]

REAL_LATENCY_MS: Final = 4.5
"""From mid-exposure to transmission on a common lab system (natnet.md section 8)."""

_MANY_CONNECTIONS: Final = 64


@dataclass(frozen=True, slots=True)
class EmulatedFrame:
    """One captured instant.

    Attributes:
        number: of the instant on the even grid of the rate, from 1 at each start of the emulated
            server.
        t_ns: mid-exposure, bridge clock.
        seen: what the faulty system measures, room frame.
    """

    number: int
    t_ns: int
    seen: MotionFrame


class EmulatedServer:
    """Server that captures ``motion`` at ``rate_hz`` and transmits messages to the clients.

    Args:
        epoch_ns: bridge time at which the motion began.
        on_frame: called for every captured frame, never while the server is down.
        on_power: called with False when the server dies and with True when it starts again.
        stream: messages stay in order, as on a TCP connection.
        offset_s, drift_ppm: of the server's own clock, without the injected errors.

    Attributes:
        started_ns: origin of every fault, the first start; -1 before it.
        counters: ``frames``, ``missed_ticks``, ``restarts``, those of the faults, and the fate of
            what was sent: ``offered`` + ``duplicated`` + ``garbage`` = ``lost`` + ``silenced`` +
            ``delivered`` + ``undelivered`` (lost when the server died) + ``overflow`` + in transit.
        failed: done when a callback raised.
    """

    def __init__(
        self,
        motion: MocapMotion,
        rate_hz: float,
        epoch_ns: int,
        faults: Faults,
        *,
        on_frame: Callable[[EmulatedFrame], None],
        on_power: Callable[[bool], None],
        stream: bool = False,
        offset_s: float = 0.0,
        drift_ppm: float = 0.0,
    ) -> None:
        self.motion = motion
        self.epoch_ns = epoch_ns
        self.faults = faults
        self.started_ns = -1
        self.failed: asyncio.Future[None] | None = None
        self._period_ns = round(NS_PER_S / rate_hz)
        self._on_frame = on_frame
        self._on_power = on_power
        self._stream = stream
        self._offset_ns = round(offset_s * NS_PER_S)
        self._drift_ppm = drift_ppm
        self._delivery = Delivery(faults)
        self._subjects = SubjectFaults(faults)
        self._own: Counter[str] = Counter()
        self._line: DelayLine[tuple[Send, bytes]] | None = None
        self._ticker: Ticker | None = None
        self._last_due_ns: dict[Send, int] = {}
        self._number = 0
        self._down = False

    @property
    def counters(self) -> Counter[str]:
        """Return all counters so far, those of the faults included."""
        return self._own + self._delivery.counters + self._subjects.counters

    def start(self) -> None:
        """Begin to capture; frame numbers begin at 1. Needs the running loop."""
        loop = asyncio.get_running_loop()
        if self.started_ns < 0:
            self.started_ns = now_ns()
        self.failed = self.failed or loop.create_future()
        self._number = 0
        self._down = False
        self._line = DelayLine(self._deliver)
        self._ticker = Ticker(self._period_ns, self._on_tick)
        self._ticker.start()

    def stop(self) -> None:
        """Stop capturing and drop the messages in transit; may be called twice."""
        if self._ticker is not None:
            self._ticker.stop()
        self._drop_sent()
        if self._line is not None:
            self._line.close()
        self._ticker = self._line = None

    def count(self, reason: str, amount: int = 1) -> None:
        """Add to one of the emulator's own counters."""
        self._own[reason] += amount

    def foreign_ns(self, t_ns: int) -> int:
        """Return the server's clock at a bridge time.

        Its own offset and drift, then the injected errors.
        """
        drift_ns = round((t_ns - self.epoch_ns) * self._drift_ppm * 1e-6)
        return (
            t_ns + self._offset_ns + drift_ns + self.faults.clock_error_ns(t_ns - self._origin_ns)
        )

    def send(
        self, send: Send, message: bytes, *, latency_ns: int = 0, datagram: bool = False
    ) -> None:
        """Give a message to the network, ``latency_ns`` from now.

        The faults decide what arrives, and when.

        A ``datagram`` may overtake others, also in a stream.
        """
        if self._line is None:
            return
        t_sent_ns = now_ns() + latency_ns
        elapsed_ns = t_sent_ns - self._origin_ns
        ordered = self._stream and not datagram
        for delay_ns in self._delivery.delays_ns(elapsed_ns):
            self._queue(send, message, t_sent_ns + delay_ns, ordered)
        broken = self._delivery.garbage(elapsed_ns, message)
        if broken is not None:
            self._queue(send, broken, t_sent_ns, ordered)

    @property
    def silent(self) -> bool:
        """Return whether the server sends nothing now although its sockets are open (half-open)."""
        return self.faults.silent(now_ns() - self._origin_ns)

    @property
    def _origin_ns(self) -> int:
        return self.started_ns if self.started_ns >= 0 else self.epoch_ns

    def _queue(self, send: Send, message: bytes, due_ns: int, ordered: bool) -> None:
        assert self._line is not None
        if ordered:
            if len(self._last_due_ns) > _MANY_CONNECTIONS:  # most of them are closed
                self._last_due_ns = {s: t for s, t in self._last_due_ns.items() if t > now_ns()}
            due_ns = self._last_due_ns[send] = max(due_ns, self._last_due_ns.get(send, 0) + 1)
        if not self._line.enqueue(due_ns, (send, message)):
            self._own["overflow"] += 1

    def _drop_sent(self) -> None:
        """Drop the messages in transit, as when a server dies."""
        if self._line is not None:
            self._own["undelivered"] += self._line.clear()
        self._last_due_ns.clear()

    def _deliver(self, item: tuple[Send, bytes]) -> None:
        send, message = item
        self._own["delivered"] += 1
        self.guarded(lambda: send(message))()

    def _on_tick(self, due_ns: int, missed: int) -> None:
        self._own["missed_ticks"] += missed
        self._number += 1 + missed  # cameras never wait: numbers follow time
        self.guarded(lambda: self._capture(due_ns))()

    def _capture(self, t_ns: int) -> None:
        elapsed_ns = t_ns - self._origin_ns
        down = self.faults.down(elapsed_ns)
        if down != self._down:
            self._down = down
            if down:
                self._own["restarts"] += 1
                self._drop_sent()
            else:
                self._number = 1
            self._on_power(not down)
        if down:
            return
        self._own["frames"] += 1
        seen = self._with_faults(self.motion.at(t_ns - self.epoch_ns), elapsed_ns)
        self._on_frame(EmulatedFrame(self._number, t_ns, seen))

    def _with_faults(self, seen: MotionFrame, elapsed_ns: int) -> MotionFrame:
        p_m, q_xyzw, tracked = self._subjects.bodies(
            elapsed_ns, seen.subjects, seen.p_m, seen.q_xyzw, seen.tracked
        )
        skeletons = tuple(self._subjects.skeleton(elapsed_ns, s) for s in seen.skeletons)
        markers = self._subjects.markers(elapsed_ns, seen.markers)
        return replace(
            seen, p_m=p_m, q_xyzw=q_xyzw, tracked=tracked, skeletons=skeletons, markers=markers
        )

    def guarded(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Return a loop callback whose exception ends :meth:`Emulator.run`."""

        def call() -> None:
            try:
                callback()
            except Exception as exc:
                if self.failed is None or self.failed.done():
                    raise
                self.failed.set_exception(exc)

        return call


class Emulator(ABC):
    """Life cycle of an emulated server: ``async with`` it, or ``run()`` it.

    A subclass opens its sockets in ``listen`` and releases them in ``close``. ``close`` sends
    nothing to the clients, as a killed server does, and retains the ports for the next start.

    Args:
        motion: to stream. rate_hz: frames per second. epoch_ns: bridge time at which the motion
            began.
        stream: messages stay in order, as on a TCP connection.
        offset_s, drift_ppm: of the server's own clock.

    Attributes:
        server: captures the frames, has the clock and transmits with the faults.
    """

    def __init__(
        self,
        motion: MocapMotion,
        rate_hz: float,
        epoch_ns: int,
        faults: Faults | None,
        *,
        stream: bool = False,
        offset_s: float = 0.0,
        drift_ppm: float = 0.0,
    ) -> None:
        self.server = EmulatedServer(
            motion,
            rate_hz,
            epoch_ns,
            faults or Faults(),
            on_frame=self._on_frame,
            on_power=self._on_power,
            stream=stream,
            offset_s=offset_s,
            drift_ppm=drift_ppm,
        )

    @abstractmethod
    def listen(self) -> None:
        """Open the sockets, at the start and after an injected restart.

        Raises:
            OSError: a port is taken.
        """

    @abstractmethod
    def close(self) -> None:
        """Release all sockets at once; may be called twice."""

    @abstractmethod
    def _on_frame(self, frame: EmulatedFrame) -> None:
        """Send a captured frame."""

    async def open(self) -> None:
        """Open the sockets at the start.

        Raises:
            OSError: a port is taken.
        """
        self.listen()

    def _on_power(self, up: bool) -> None:
        if up:
            self.listen()
        else:
            self.close()

    @property
    def epoch_ns(self) -> int:
        """Return the bridge time at which the motion began."""
        return self.server.epoch_ns

    @property
    def counters(self) -> Counter[str]:
        """Return all counters so far."""
        return self.server.counters

    def foreign_ns(self, t_ns: int) -> int:
        """Return the server's clock at a bridge time."""
        return self.server.foreign_ns(t_ns)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        if self.server.failed is not None and self.server.failed.done():
            self.server.failed.result()

    async def run(self) -> None:
        """Serve until cancelled; also starts and stops.

        Raises:
            OSError: a port is taken.
        """
        await self.start()
        try:
            if self.server.failed is not None:
                await self.server.failed
        finally:
            self.stop()

    async def start(self) -> None:
        """Open the sockets and begin to capture.

        Raises:
            OSError: a port is taken.
        """
        try:
            await self.open()
        except OSError:
            self.close()
            raise
        self.server.start()

    def stop(self) -> None:
        """End at once."""
        self.server.stop()
        self.close()

    async def restart(self) -> None:
        """Die and start again on the same ports, frame numbers from the beginning."""
        self.stop()
        await self.start()
