"""Hosts of the steps: a thread of the bridge, or a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from vil_bridge.core.bridge_time import bridge_clock
from vil_bridge.core.clock import NS_PER_S, machine_ns
from vil_bridge.core.errors import SourceUnavailable
from vil_bridge.core.threads import ContextThread
from vil_bridge.monitoring.logging_setup import logging_words
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.ipc import (
    ClockUpdate,
    Order,
    Start,
    Stop,
    VehicleBatch,
    decode_report,
    encode,
)
from vil_simulation.source.simulation import Simulation
from vil_simulation.source.stepper import Stepper, WakeupTimer

MESSAGE_BYTES: Final = 1 << 20
BUFFER_BYTES: Final = 4 << 20
_MOST_ORDERS: Final = 10_000
_JOIN_NS: Final = 3 * NS_PER_S
"""For the end of the steps and of the programs in their loop, which takes 1.4 s where they
ignore the request.
"""
_POLL_S: Final = 0.01
_LOAD_S: Final = 120.0
_LARGEST_HEAP_BLOCK_BYTES: Final = 1 << 17
_HEAP: Final = dict.fromkeys(
    ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(_LARGEST_HEAP_BLOCK_BYTES)
)
"""Meshes of edited scenes leave the process when they are dropped.

Glibc raises its own threshold until they stay.
"""

_COMPILING: Final = threading.Lock()
"""Imports and compiles for one source at a time: the compiler is not made for several threads."""

OnBatch = Callable[[VehicleBatch], None]


def ready_simulation(config: SimulatedConfig) -> Simulation:
    """Return a simulation at its start with compiled code.

    Another one is rehearsed before, and is discarded.
    """
    with _COMPILING:
        Simulation(config).rehearse()
        return Simulation(config)


class ThreadHost:
    """Thread of the bridge that makes a source's steps.

    Used in the loop's thread, except for :meth:`send`.
    """

    def __init__(self, name: str, config: SimulatedConfig, on_batch: OnBatch) -> None:
        self._name = name
        self._config = config
        self._on_batch = on_batch
        self._orders: deque[Order] = deque(maxlen=_MOST_ORDERS)
        self._simulation: Simulation | None = None
        self._timer = WakeupTimer()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._closed = False

    async def load(self) -> None:
        """Load the models and compile their kernels."""
        self._simulation = await asyncio.to_thread(ready_simulation, self._config)

    def start(self, start_ns: int) -> None:
        """Begin: step 0 is at this bridge time."""
        assert self._simulation is not None
        loop = asyncio.get_running_loop()

        def give(batch: VehicleBatch) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._deliver, batch)

        stepper = Stepper(
            self._simulation, start_ns, bridge_clock().mapping, self._take, give, self._timer
        )
        self._thread = ContextThread(
            target=self._run, args=(stepper,), name=f"steps {self._name}", daemon=True
        )
        self._thread.start()

    def send(self, order: Order) -> bool:
        """Pass an order; any thread. False = it was dropped, since too many wait."""
        if len(self._orders) >= _MOST_ORDERS - 1:
            return False
        self._orders.append(order)
        self._timer.wake()
        return True

    def check(self) -> None:
        """Raise what ended the thread early."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Let the thread end, and take no more batches."""
        self._closed = True
        self._orders.clear()
        self.send(Stop())

    async def ended(self) -> None:
        """Wait until the stopped thread has ended."""
        until_ns = machine_ns() + _JOIN_NS
        while self._thread is not None and self._thread.is_alive():
            if machine_ns() >= until_ns:
                return  # in a long step: it still needs the timer
            await asyncio.sleep(_POLL_S)
        self._timer.close()

    def _deliver(self, batch: VehicleBatch) -> None:
        if not self._closed:
            self._on_batch(batch)

    def _take(self) -> Iterable[Order]:
        while self._orders:
            yield self._orders.popleft()

    def _run(self, stepper: Stepper) -> None:
        try:
            stepper.run()
        except BaseException as exc:
            self._failure = exc


class ProcessHost:
    """Child process that makes a source's steps, joined by a pair of sockets.

    It ends when ours is closed.

    Used in the loop's thread, except for :meth:`send`.
    """

    def __init__(self, name: str, config: SimulatedConfig, on_batch: OnBatch) -> None:
        self._name = name
        self._config = config
        self._on_batch = on_batch
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._ours, self._theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self._ours.setblocking(False)
        self._child: subprocess.Popen[bytes] | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._failure: BaseException | None = None

    async def load(self) -> None:
        """Start the child and wait until it has compiled everything.

        Raises:
            SourceUnavailable: the child ended, or is not ready in time.
        """
        self._child = self._spawn()
        self._theirs.close()
        self._ours.send(self._config.model_dump_json().encode())
        self._loop.add_reader(self._ours, self._on_readable)
        try:
            async with asyncio.timeout(_LOAD_S):
                await self._ready
        except TimeoutError:
            raise SourceUnavailable(
                f"the process of {self._name} was not ready within {_LOAD_S:.0f} s"
            ) from None

    def start(self, start_ns: int) -> None:
        """Begin: step 0 is at this bridge time."""
        self.send(Start(start_ns, ClockUpdate.of(bridge_clock().mapping)))

    def send(self, order: Order) -> bool:
        """Pass an order; any thread. False = it was dropped, since too many wait."""
        try:
            self._ours.send(encode(order))
        except OSError:  # its queue is full, or it is gone
            return False
        return True

    def check(self) -> None:
        """Raise what ended the child early."""
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Let the child end, and take no more batches."""
        if self._ours.fileno() >= 0:
            self._loop.remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()

    async def ended(self) -> None:
        """Wait until the stopped child has ended; it is killed if it takes long."""
        child = self._child
        self._child = None
        if child is None:
            return
        until_ns = machine_ns() + _JOIN_NS
        try:
            while child.poll() is None:
                if machine_ns() >= until_ns:
                    break
                await asyncio.sleep(_POLL_S)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        fd = self._theirs.fileno()
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "vil_simulation.source.worker", str(fd), *logging_words()],
            stdin=subprocess.DEVNULL,
            pass_fds=(fd,),
            env=os.environ | _HEAP,
        )

    def _on_readable(self) -> None:
        try:
            while data := self._ours.recv(MESSAGE_BYTES):
                self._on_message(data)
            self._gone("ended")
        except BlockingIOError:
            return
        except OSError as exc:
            self._gone(str(exc))

    def _on_message(self, data: bytes) -> None:
        batch = decode_report(data)
        if batch.failure:
            self._failure = SourceUnavailable(batch.failure)
            if not self._ready.done():
                self._ready.set_exception(self._failure)
        elif not self._ready.done():
            self._ready.set_result(None)
        else:
            self._on_batch(batch)

    def _gone(self, why: str) -> None:
        self._loop.remove_reader(self._ours)
        gone = SourceUnavailable(
            f"the process that steps the vehicles of {self._name} is gone: {why}"
        )
        self._failure = self._failure or gone
        if not self._ready.done():
            self._ready.set_exception(self._failure)


Host = ThreadHost | ProcessHost
"""Host that makes the steps of a source; used in the loop's thread, except for ``send``."""
