"""The process that makes the steps.

``python -m vil_simulation.source.worker FD [LOGGING]``, started by its source.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
from collections.abc import Iterator

from vil_bridge.core.errors import VilBridgeError
from vil_bridge.monitoring.logging_setup import setup_logging_as
from vil_simulation.source.config import SimulatedConfig
from vil_simulation.source.hosts import BUFFER_BYTES, MESSAGE_BYTES, ready_simulation
from vil_simulation.source.ipc import Order, Start, Stop, VehicleBatch, decode_order, encode
from vil_simulation.source.stepper import Stepper, WakeupTimer


class _SourceSocket:
    """The socket to the source."""

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        self.dropped = 0
        self._unsent: VehicleBatch | None = None

    def orders(self) -> Iterator[Order]:
        """Yield waiting orders; a Stop once the source is gone. Send what was not read in time."""
        if self._unsent is not None:
            self._send(self._unsent)
        while True:
            try:
                data = self.socket.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                yield Stop()
                return
            yield decode_order(data)

    def send(self, batch: VehicleBatch) -> None:
        """Send a batch unless the source does not read.

        The next one then carries what comes only once.
        """
        batch.dropped = self.dropped
        if self._unsent is not None:
            batch.carry(self._unsent)
        self.dropped += not self._send(batch)

    def _send(self, batch: VehicleBatch) -> bool:
        """Return False where the source does not read."""
        self._unsent = None
        try:
            self.socket.send(encode(batch), socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._unsent = batch
        except OSError:
            pass
        return self._unsent is None


def main(fd: int) -> None:
    """Step until the source stops or is gone; report what prevents it."""
    # Ctrl-C is for the bridge, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source = _SourceSocket(fd)
    try:
        _run(source)
    except VilBridgeError as exc:
        source.send(VehicleBatch(steps=0, t_ns=0, bodies=b"", failure=str(exc)))


def _run(source: _SourceSocket) -> None:
    config = SimulatedConfig.model_validate_json(source.socket.recv(MESSAGE_BYTES))
    if any(program.namespace for _, program in config.programs()):
        from vil_simulation.source.network_namespace import enter_own_network  # Linux only

        enter_own_network()
    simulation = ready_simulation(config)
    gc.collect()
    gc.freeze()
    source.send(VehicleBatch(steps=0, t_ns=0, bodies=b""))  # ready
    first = source.socket.recv(MESSAGE_BYTES)
    order = decode_order(first) if first else Stop()
    if isinstance(order, Start):
        timer = WakeupTimer(source.socket.fileno())
        Stepper(
            simulation, order.start_ns, order.clock.mapping(), source.orders, source.send, timer
        ).run()


if __name__ == "__main__":
    setup_logging_as(sys.argv[2:])
    main(int(sys.argv[1]))
