"""A flight controller that speaks MSP.

Real bytes on a pseudo-terminal or a TCP port, driven by a motion.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from vil_adapters.emulation.pseudo_terminal import PseudoTerminal
from vil_adapters.msp_imu.convert import to_counts
from vil_bridge.core.clock import NS_PER_S, Ticker, now_ns
from vil_bridge.interfaces.ports import InertialMotion
from vil_bridge.protocols import msp

_READ_BYTES: Final = 4096
_MEMORY_NS: Final = NS_PER_S // 20


class MspEmulator:
    """Flight controller like Betaflight.

    Its serial task reads the sensors and answers waiting requests.

    Use it as a context manager inside a running loop, or ``run`` it until cancelled.

    Args:
        link_path: of the terminal; None = TCP.
        port: TCP on loopback, 0 = any free one.
        task_hz: how often the serial task runs.

    Attributes:
        port: TCP port, known once it is open.
        answered: questions answered.
    """

    def __init__(
        self,
        motion: InertialMotion,
        epoch_ns: int,
        link_path: Path | None = None,
        *,
        port: int = 0,
        acc_lsb_per_g: float = 2048.0,
        gyro_lsb_per_dps: float = 16.4,
        task_hz: float = 100.0,
    ) -> None:
        self.port = port
        self.answered = 0
        self._motion = motion
        self._epoch_ns = epoch_ns
        self._link_path = link_path
        self._acc_lsb_per_g = acc_lsb_per_g
        self._gyro_lsb_per_dps = gyro_lsb_per_dps
        self._ticker = Ticker(round(NS_PER_S / task_hz), self._on_task)
        self._parser = msp.MspParser()
        self._terminal: PseudoTerminal | None = None
        self._listener: socket.socket | None = None
        self._client: socket.socket | None = None

    async def run(self) -> None:
        """Emulate until cancelled."""
        with self:
            await asyncio.Event().wait()

    def __enter__(self) -> MspEmulator:
        if self._link_path is not None:
            self._terminal = PseudoTerminal(self._link_path)
        else:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listener.setblocking(False)
            self.port = self._listener.getsockname()[1]
        self._ticker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ticker.stop()
        for end in (self._terminal, self._client, self._listener):
            if end is not None:
                end.close()

    def _on_task(self, _due_ns: int, _missed: int) -> None:
        for question in self._parser.feed(self._received()):
            if question.direction is msp.MspDirection.REQUEST:
                self._send(msp.encode(self._answer(question)))
                self.answered += 1

    def _answer(self, question: msp.MspMessage) -> msp.MspMessage:
        version, _, command, _ = question
        reading = self._reading() if command == msp.RAW_IMU else None
        if reading is None:
            return msp.MspMessage(version, msp.MspDirection.REFUSAL, command, b"")
        return msp.MspMessage(version, msp.MspDirection.ANSWER, command, msp.pack_raw_imu(reading))

    def _reading(self) -> msp.MspRawImu | None:
        t_ns = now_ns() - self._epoch_ns
        samples = self._motion.imu_between(t_ns - _MEMORY_NS, t_ns)
        if not samples:
            return None
        _, w_radps, f_mps2 = samples[-1]
        return to_counts(w_radps, f_mps2, self._gyro_lsb_per_dps, self._acc_lsb_per_g)

    def _received(self) -> bytes:
        if self._terminal is not None:
            return self._terminal.read()
        if self._client is None:
            self._accept()
        try:
            data = b"" if self._client is None else self._client.recv(_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data and self._client is not None:
            self._client.close()
            self._client = None
        return data

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            self._client, _ = self._listener.accept()
        except OSError:
            return  # no client waits, or it gave up waiting
        self._client.setblocking(False)
        self._parser = msp.MspParser()

    def _send(self, frame: bytes) -> None:
        if self._terminal is not None:
            self._terminal.write(frame)
        elif self._client is not None:
            with suppress(OSError):  # the next read sees that the client has gone
                self._client.send(frame)
