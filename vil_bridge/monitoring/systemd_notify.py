"""Messages to systemd from a service of ``Type=notify``: readiness, status, signs of life.

The protocol is one datagram of ``NAME=value`` lines to the socket named by ``NOTIFY_SOCKET``
(sd_notify(3)); nothing waits for an answer. Outside systemd every message is dropped.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

logger = logging.getLogger(__name__)


class ServiceManager:
    """The service manager that started this process, if there is one.

    Attributes:
        watchdog_s: it ends the process when :meth:`alive` was not said for so long; None = it does
            not.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        period_us = environ.get("WATCHDOG_USEC", "")
        ours = environ.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        watched = self.present and ours and period_us.isdecimal() and int(period_us) > 0
        self.watchdog_s: float | None = 1e-6 * int(period_us) if watched else None
        self._deaf = False

    @property
    def present(self) -> bool:
        """Return True when a service manager listens."""
        return self._socket is not None

    def ready(self) -> None:
        """Report that the service serves."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the service is about to end."""
        self._send("STOPPING=1")

    def status(self, words: str) -> None:
        """Set the line that ``systemctl status`` shows."""
        self._send(f"STATUS={' '.join(words.split())}")

    def alive(self) -> None:
        """Report that the realtime loop turns and its threads return."""
        self._send("WATCHDOG=1")

    def close(self) -> None:
        """Say no more; may be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._address)
            self._deaf = False
        except BlockingIOError:
            pass  # its queue is full: the next message says the same, or newer words
        except OSError as exc:  # it may be back before it misses our signs of life
            if not self._deaf:
                logger.warning(
                    "the service manager cannot be reached: %s; trying again", exc.strerror or exc
                )
            self._deaf = True
