"""Programs that a scene server opens worlds for: their calls, and the processes that serve them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import msgspec

HOST = "127.0.0.1"


@contextlib.contextmanager
def client(port: int, host: str = HOST) -> Iterator[Any]:
    """Connect and yield a function that calls."""
    with socket.create_connection((host, port), timeout=240.0) as peer:
        unpacker = msgpack.Unpacker(raw=False)

        def call(method: str, *arguments: Any) -> Any:
            peer.sendall(msgspec.msgpack.encode((0, 1, method, arguments)))
            while True:
                for _, _, error, result in unpacker:
                    assert error is None, error
                    return result
                data = peer.recv(65536)
                assert data
                unpacker.feed(data)

        yield call


def listens(port: int, host: str = HOST) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=5.0):
        return True
    return False


def pid_of(port: int) -> int:
    """Return the process that listens on a port in the network namespace of the calling thread."""
    rows = [line.split() for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]]
    (inode,) = (row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A")
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) == f"socket:[{inode}]":
                return int(link.parts[2])
    raise AssertionError(f"no process serves port {port}")
