"""An emulated serial line: the far side of a pseudo-terminal, found through a link to it."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import tty
from pathlib import Path
from typing import Final

__all__ = ["PseudoTerminal"]

_READ_BYTES: Final = 4096
_UNREAD_LIMIT_BYTES: Final = 3600
"""The terminal holds 4095 bytes for its reader; when they pile up, the oldest go."""


class PseudoTerminal:
    """An open terminal whose other side is at ``link_path``.

    Attributes:
        dropped: times that unread bytes were thrown away, or a message found no room.

    Raises:
        FileExistsError: there is something at ``link_path`` that is no link.
        OSError: the system has no terminal left, or the link cannot be made.
    """

    def __init__(self, link_path: Path) -> None:
        self.dropped = 0
        self._link_path = link_path
        self._master, self._slave = os.openpty()
        try:
            # Keeping our own handle on the reader's side spares hang-ups between two readers.
            tty.setraw(self._slave)
            os.set_blocking(self._master, False)
            self._link()
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """Descriptor that is readable when the other side wrote."""
        return self._master

    def read(self) -> bytes:
        """What the other side wrote, empty when nothing waits."""
        try:
            return os.read(self._master, _READ_BYTES)
        except BlockingIOError:
            return b""

    def write(self, data: bytes) -> None:
        """Write without ever waiting for a reader."""
        if self._unread_bytes() > _UNREAD_LIMIT_BYTES:
            termios.tcflush(self._slave, termios.TCIFLUSH)
            self.dropped += 1
        try:
            os.write(self._master, data)
        except BlockingIOError:
            self.dropped += 1

    def close(self) -> None:
        """Hang up; the link goes unless somebody else took it over."""
        if self._link_path.is_symlink() and self._link_path.readlink() == _path_of(self._slave):
            self._link_path.unlink()
        os.close(self._slave)
        os.close(self._master)

    def _link(self) -> None:
        if self._link_path.exists() and not self._link_path.is_symlink():
            raise FileExistsError(f"{self._link_path} exists and is not a link")
        self._link_path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._link_path.with_name(f".{self._link_path.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(_path_of(self._slave))
        fresh.replace(self._link_path)

    def _unread_bytes(self) -> int:
        answer = fcntl.ioctl(self._slave, termios.FIONREAD, b"\0\0\0\0")
        count: int = struct.unpack("i", answer)[0]
        return count


def _path_of(fd: int) -> Path:
    """A path to our terminal that ends with this process, where there is one.

    The terminal's own name would outlive a killed process and soon be that of somebody else's terminal.
    """
    through_us = Path(f"/proc/{os.getpid()}/fd/{fd}")
    return through_us if through_us.exists() else Path(os.ttyname(fd))
