"""The scene server of the AirVLN family.

Worlds on demand, each with its own port, which end with their owner.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.support.airsim_scenes import HOST, client, listens, pid_of
from tests.support.common import needs_gl, wait_until
from tests.support.network_namespaces import in_namespace, two_namespaces
from tests.support.programs import VIL_BRIDGE, Program
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.process

REQUEST = {"camera_name": "0", "image_type": 0, "pixels_as_float": False, "compress": False}


def test_worlds_open_are_used_and_end_with_their_owner(tmp_path: Path) -> None:
    needs_gl()
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with Program(
        *VIL_BRIDGE, "airsim", "--scene-server", port, "--scene", "empty", log=tmp_path / "log"
    ) as server:
        server.await_text(rf"scene server on .* port {port}")
        with client(port) as owner:
            assert owner("ping") is True
            opened, (address, ports) = owner("reopen_scenes", HOST, [[3, 0], [7, 0]])
            assert (
                opened and address == HOST and len(set(ports)) == 2 and all(p > port for p in ports)
            )
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


@pytest.mark.long
def test_four_worlds_live_and_die_for_themselves(tmp_path: Path) -> None:
    needs_gl()
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with Program(
        *VIL_BRIDGE, "airsim", "--scene-server", port, "--scene", "empty", log=tmp_path / "log"
    ) as server:
        server.await_text(rf"scene server on .* port {port}")
        with client(port) as owner:
            opened, (_, ports) = owner("reopen_scenes", HOST, [[number, 0] for number in range(4)])
            assert opened and len(set(ports)) == 4
            pids = {world: pid_of(world) for world in ports}
            os.kill(pids[ports[0]], signal.SIGKILL)
            wait_until(lambda: not listens(ports[0]))
            for world in ports[1:]:
                with client(world) as call:
                    assert call("simGetImages", [REQUEST], "")[0]["width"] == 256
            assert owner("reopen_scene_from_port", ports[0]) is True and listens(ports[0])
        wait_until(lambda: not any(map(listens, ports)))  # the owner is gone
        assert server.end() == 0


@pytest.mark.long
def test_worlds_end_when_their_server_is_killed(tmp_path: Path) -> None:
    needs_gl()
    (port,) = free_ports(1, socket.SOCK_STREAM)
    with Program(
        *VIL_BRIDGE, "airsim", "--scene-server", port, "--scene", "empty", log=tmp_path / "log"
    ) as server:
        server.await_text(rf"scene server on .* port {port}")
        with client(port) as owner:
            _, (_, (world,)) = owner("reopen_scenes", HOST, [0])
            os.kill(server.pid, signal.SIGKILL)
            wait_until(lambda: not listens(world))


@pytest.mark.long
def test_hosts_own_their_worlds(tmp_path: Path) -> None:
    """The server on one host, programs on this one and on another.

    Worlds end with the programs of their own host.
    """
    needs_gl()
    with two_namespaces() as (here, there):
        words = (
            "airsim",
            "--scene-server",
            30000,
            "--scene",
            "empty",
            "--bind",
            "10.213.7.1",
            "--insecure",
        )
        inside = ("ip", "netns", "exec", here)
        with Program(*inside, *VIL_BRIDGE, *words, log=tmp_path / "log") as server:
            server.await_text("scene server on 10.213.7.1 port 30000")
            in_namespace(here, lambda: use_from_two_hosts(there))
            assert server.end() == 0


def use_from_two_hosts(there: str) -> None:
    """Open a world from each of two hosts; the worlds of the one that goes end, and no others."""
    host = "10.213.7.1"
    with client(30000, host) as near:
        opened, (address, (own,)) = near("reopen_scenes", host, [[0, 0]])
        assert opened and address == host

        def use_from_there() -> int:
            with client(30000, host) as far:
                opened, (_, (world,)) = far("reopen_scenes", host, [[0, 0]])
                assert opened and world != own
                with client(world, host) as call:
                    assert call("listVehicles") == ["SimpleFlight"]
            return int(world)

        world = in_namespace(there, use_from_there)
        wait_until(lambda: not listens(world, host))
        with client(own, host) as call:
            assert call("listVehicles") == ["SimpleFlight"]
    wait_until(lambda: not listens(own, host))
