"""The scene server of the AirVLN family: worlds on demand, each with its own port, which end with their owner."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tests.support.common import free_ports, needs_gl, wait_until
from tests.support.programs import VIL_BRIDGE, Program

pytestmark = pytest.mark.process

HOST = "127.0.0.1"


@contextlib.contextmanager
def client(port: int) -> Iterator[Any]:
    """Connect and yield a function that calls."""
    with socket.create_connection((HOST, port), timeout=120.0) as peer:
        unpacker = msgpack.Unpacker(raw=False)

        def call(method: str, *arguments: Any) -> Any:
            peer.sendall(msgpack.packb((0, 1, method, arguments)))
            while True:
                for _, _, error, result in unpacker:
                    assert error is None, error
                    return result
                data = peer.recv(65536)
                assert data
                unpacker.feed(data)

        yield call


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=5.0):
        return True
    return False


def test_worlds_open_are_used_and_end_with_their_owner(tmp_path: Path) -> None:
    needs_gl()
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with Program(*VIL_BRIDGE, "airsim", "--scene-server", port, "--scene", "empty", log=tmp_path / "log") as server:
        server.await_text(rf"scene server on .* port {port}")
        with client(port) as owner:
            assert owner("ping") is True
            opened, (address, ports) = owner("reopen_scenes", HOST, [[3, 0], [7, 0]])
            assert opened and address == HOST and len(set(ports)) == 2 and all(p > port for p in ports)
            for world in ports:
                with client(world) as call:
                    assert call("ping") is True and call("listVehicles") == ["SimpleFlight"]
            assert owner("reopen_scene_from_port", ports[1]) is True
            assert owner("reopen_scene_from_port", 1) is False
            assert owner("close_scenes", HOST) is True
            wait_until(lambda: not any(map(listens, ports)))
            opened, (_, ports) = owner("reopen_scenes", HOST, [1])
            assert opened and listens(ports[0])
        wait_until(lambda: not listens(ports[0]))  # its owner is gone
        assert listens(port) and server.end() == 0
