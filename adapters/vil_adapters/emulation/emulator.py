"""What all emulators share: an even film of a motion, with faults, sent at exact times.

An emulator says how a frame is laid out and to whom it goes; the stage says when, in whose clock, and
what goes wrong on the way.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Self

from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.core.delay_line import DelayLine
from vil_bridge.core.faults import Delivery, Faults, SubjectFaults
from vil_bridge.core.ports import MocapMotion
from vil_bridge.core.types import MotionFrame

__all__ = ["EmulatedFrame", "EmulatedServer", "Emulator"]

Send = Callable[[bytes], None]

_MANY_CONNECTIONS: Final = 64


@dataclass(frozen=True, slots=True)
class EmulatedFrame:
    """One captured instant.

    Attributes:
        number: of the instant on the even grid of the rate, from 1 at each start of the emulated server.
        t_ns: mid-exposure, bridge clock.
        seen: what the troubled system sees, room frame.
    """

    number: int
    t_ns: int
    seen: MotionFrame


class EmulatedServer:
    """Films ``motion`` at ``rate_hz`` and carries messages to the clients.

    Args:
        epoch_ns: bridge time at which the motion began.
        on_shot: called for every captured frame, never while the server is down.
        on_power: called with False when the server dies and with True when it comes back.
        stream: messages keep their order, as on a TCP connection.

    Attributes:
        started_ns: origin of every fault, the first start; -1 before it.
        counters: ``frames``, ``missed_ticks``, ``restarts``, those of the faults, and the fate of what was
            sent: ``offered`` + ``duplicated`` + ``garbage`` = ``lost`` + ``silenced`` + ``delivered`` +
            ``undelivered`` (died with the server) + ``overflow`` + what is on its way.
        failed: done when a callback raised.
    """

    def __init__(
        self,
        motion: MocapMotion,
        rate_hz: float,
        epoch_ns: int,
        faults: Faults,
        *,
        on_shot: Callable[[EmulatedFrame], None],
        on_power: Callable[[bool], None],
        stream: bool = False,
    ) -> None:
        self.motion = motion
        self.epoch_ns = epoch_ns
        self.faults = faults
        self.started_ns = -1
        self.failed: asyncio.Future[None] | None = None
        self._period_ns = round(NS_PER_S / rate_hz)
        self._on_shot = on_shot
        self._on_power = on_power
        self._stream = stream
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
        """What happened so far, the faults included."""
        return self._own + self._delivery.counters + self._subjects.counters

    def start(self) -> None:
        """Begin to film; frame numbers begin at 1. Needs the running loop."""
        loop = asyncio.get_running_loop()
        if self.started_ns < 0:
            self.started_ns = now_ns()
        self.failed = self.failed or loop.create_future()
        self._number = 0
        self._down = False
        self._line = DelayLine(self._hand_over)
        self._ticker = Ticker(self._period_ns, self._on_tick)
        self._ticker.start()

    def stop(self) -> None:
        """Stop filming and drop what is on its way; may be called twice."""
        if self._ticker is not None:
            self._ticker.stop()
        self._drop_sent()
        if self._line is not None:
            self._line.close()
        self._ticker = self._line = None

    def count(self, reason: str, amount: int = 1) -> None:
        """Add to a counter of the emulator's own."""
        self._own[reason] += amount

    def foreign_ns(self, t_ns: int, *, offset_s: float = 0.0, drift_ppm: float = 0.0) -> int:
        """The emulated server's clock at a bridge time: its own offset and drift, then the injected ones."""
        drift_ns = round((t_ns - self.epoch_ns) * drift_ppm * 1e-6)
        return t_ns + round(offset_s * NS_PER_S) + drift_ns + self.faults.clock_error_ns(t_ns - self._origin_ns)

    def send(self, send: Send, message: bytes, *, latency_ns: int = 0, datagram: bool = False) -> None:
        """Give a message to the network, ``latency_ns`` from now; the faults decide what arrives, and when.

        A ``datagram`` may overtake others, also where messages keep their order.
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
        """Whether the server says nothing right now although its sockets are open (half-open)."""
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
        if not self._line.put(due_ns, (send, message)):
            self._own["overflow"] += 1

    def _drop_sent(self) -> None:
        """What is on its way when a server dies does not arrive."""
        if self._line is not None:
            self._own["undelivered"] += self._line.clear()
        self._last_due_ns.clear()

    def _hand_over(self, item: tuple[Send, bytes]) -> None:
        send, message = item
        self._own["delivered"] += 1
        self.guarded(lambda: send(message))()

    def _on_tick(self, due_ns: int, missed: int) -> None:
        self._own["missed_ticks"] += missed
        self._number += 1 + missed  # cameras never wait: numbers follow time
        self.guarded(lambda: self._film(due_ns))()

    def _film(self, t_ns: int) -> None:
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
        self._on_shot(
            EmulatedFrame(self._number, t_ns, self._troubled(self.motion.at(t_ns - self.epoch_ns), elapsed_ns))
        )

    def _troubled(self, seen: MotionFrame, elapsed_ns: int) -> MotionFrame:
        p_m, q_xyzw, tracked = self._subjects.bodies(elapsed_ns, seen.subjects, seen.p_m, seen.q_xyzw, seen.tracked)
        skeletons = tuple(self._subjects.skeleton(elapsed_ns, s) for s in seen.skeletons)
        markers = self._subjects.markers(elapsed_ns, seen.markers)
        return replace(seen, p_m=p_m, q_xyzw=q_xyzw, tracked=tracked, skeletons=skeletons, markers=markers)

    def guarded(self, callback: Callable[[], None]) -> Callable[[], None]:
        """A loop callback whose failure ends :meth:`Emulator.run`."""

        def call() -> None:
            try:
                callback()
            except Exception as exc:
                if self.failed is None or self.failed.done():
                    raise
                self.failed.set_exception(exc)

        return call


class Emulator(ABC):
    """Life of an emulated server around its stage: ``async with`` it, or ``run()`` it.

    A subclass opens and closes its sockets in ``open`` and ``close``; ``close`` says nothing to the
    clients, as a killed server does, and keeps the ports for the next ``open``.
    """

    stage: EmulatedServer

    @abstractmethod
    async def open(self) -> None:
        """Bind and listen.

        Raises:
            OSError: a port is taken.
        """

    @abstractmethod
    def close(self) -> None:
        """Release all sockets at once; may be called twice."""

    @property
    def counters(self) -> Counter[str]:
        """What happened so far."""
        return self.stage.counters

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        if self.stage.failed is not None and self.stage.failed.done():
            self.stage.failed.result()

    async def run(self) -> None:
        """Serve until cancelled; also starts and stops.

        Raises:
            OSError: a port is taken.
        """
        await self.start()
        try:
            if self.stage.failed is not None:
                await self.stage.failed
        finally:
            self.stop()

    async def start(self) -> None:
        """Open the sockets and begin to film.

        Raises:
            OSError: a port is taken.
        """
        try:
            await self.open()
        except OSError:
            self.close()
            raise
        self.stage.start()

    def stop(self) -> None:
        """End at once."""
        self.stage.stop()
        self.close()

    async def restart(self) -> None:
        """Die and come back on the same ports, frame numbers from the beginning."""
        self.stop()
        await self.start()


REAL_LATENCY_MS: Final = 4.5
"""From mid-exposure to transmission on a common lab system (natnet.md section 8)."""
