"""Emulated serial line: the far side of a pseudo-terminal, found through a link to it."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import tty
from pathlib import Path
from typing import Final

_READ_BYTES: Final = 4096
_UNREAD_LIMIT_BYTES: Final = 3600
"""The terminal holds 4095 bytes for its reader; when they pile up, the oldest go."""


class PseudoTerminal:
    """An open terminal whose other side is at ``link_path``.

    A lock file next to the link is locked for as long as the terminal is open; a killed process
    leaves it unlocked. It holds where the link leads, because a number of a dead process or
    terminal is soon that of another one.

    Attributes:
        dropped: how often unread bytes were dropped, or a message found no room.

    Raises:
        FileExistsError: there is something at ``link_path`` that is not a link, or a link that is
            in use: its terminal is open, or another program made it and it leads somewhere.
        OSError: the system has no terminal left, or the link cannot be made.
    """

    def __init__(self, link_path: Path) -> None:
        self.dropped = 0
        self._link_path = link_path
        self._lock_path = link_path.with_name(f".{link_path.name}.lock")
        self._lock: int | None = None
        self._master, self._slave = os.openpty()
        try:
            # Our own handle on the reader's side avoids hang-ups between two readers.
            tty.setraw(self._slave)
            os.set_blocking(self._master, False)
            self._link()
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor, which is readable when the other side wrote."""
        return self._master

    def read(self) -> bytes:
        """Return what the other side wrote, empty when nothing waits."""
        try:
            return os.read(self._master, _READ_BYTES)
        except BlockingIOError:
            return b""

    def write(self, data: bytes) -> None:
        """Write without waiting for a reader."""
        if self._unread_bytes() > _UNREAD_LIMIT_BYTES:
            termios.tcflush(self._slave, termios.TCIFLUSH)
            self.dropped += 1
        try:
            os.write(self._master, data)
        except BlockingIOError:
            self.dropped += 1

    def close(self) -> None:
        """Close; remove the link unless another program replaced it."""
        if self._link_path.is_symlink() and self._link_path.readlink() == _path_of(self._slave):
            self._link_path.unlink()
        if self._lock is not None:
            self._lock_path.unlink(missing_ok=True)
            os.close(self._lock)
        os.close(self._slave)
        os.close(self._master)

    def _link(self) -> None:
        """Create the link; one that leads nowhere, or that a killed process made, is replaced."""
        path = self._link_path
        target = _path_of(self._slave)
        if path.exists() and not path.is_symlink():
            raise FileExistsError(f"{path} exists and is not a link. Choose another path")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self._lock_path)
        if self._lock is None or (
            path.exists() and os.fsencode(path.readlink()) != _left_in(self._lock)
        ):
            reason = f"{self._lock_path} is locked"
            if path.is_symlink():
                reason = f"it leads to {path.readlink()}"
            raise FileExistsError(
                f"{path} is in use: {reason}. Stop the other program, or choose another path"
            )
        path.unlink(missing_ok=True)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, os.fsencode(target), 0)
        path.symlink_to(target)

    def _unread_bytes(self) -> int:
        answer = fcntl.ioctl(self._slave, termios.FIONREAD, b"\0\0\0\0")
        count: int = struct.unpack("i", answer)[0]
        return count


def _locked(path: Path) -> int | None:
    """Create, open and lock a file; None while another open file holds the lock.

    The lock ends with the process, however that ends. Raises OSError: the file cannot be opened or
    locked.
    """
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_nlink:
                return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        os.close(fd)  # its owner removed it after we opened it: lock the next one


def _left_in(lock: int) -> bytes:
    """Return the path to which the link of the lock's last owner led; empty when it had none."""
    return os.pread(lock, _READ_BYTES, 0)


def _path_of(fd: int) -> Path:
    """Return a path to our terminal that ends with this process, where there is one.

    The terminal's own name would outlive a killed process and soon belong to another terminal.
    """
    through_us = Path(f"/proc/{os.getpid()}/fd/{fd}")
    return through_us if through_us.exists() else Path(os.ttyname(fd))
