"""A network namespace of the process's own, for programs whose ports are fixed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

from vil_bridge.core.errors import SourceUnavailable

_NEW_NETWORK: Final = 0x40000000
_NEW_USER: Final = 0x10000000
_GET_FLAGS = 0x8913
_SET_FLAGS = 0x8914
_UP: Final = 1
_INTERFACE: Final = struct.Struct("16sh22x")


def enter_own_network() -> None:
    """Move this process, which has one thread, and the children it starts, to a network with a
    loopback only.

    Without root it becomes root of a user namespace of its own, where that is allowed.

    Raises:
        SourceUnavailable: neither is allowed.
    """
    try:
        _unshare()
        _raise_loopback()
    except OSError as exc:
        raise SourceUnavailable(
            f"a network namespace is not allowed here: {exc.strerror}. Start the bridge "
            "as root, allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1, or "
            "kernel.apparmor_restrict_unprivileged_userns=0), or take "
            "no namespace"
        ) from None


def _unshare() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user = os.getuid()
    group = os.getgid()
    if libc.unshare(_NEW_NETWORK) == 0:
        return
    if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # Some systems allow the namespace, and then nothing in it.
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = fcntl.ioctl(control, _GET_FLAGS, _INTERFACE.pack(b"lo", 0))
        _, flags = _INTERFACE.unpack(asked)
        fcntl.ioctl(control, _SET_FLAGS, _INTERFACE.pack(b"lo", flags | _UP))
