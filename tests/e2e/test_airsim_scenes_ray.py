"""The scene server over a Ray cluster of two hosts: its worlds run on both and end on both."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from typer.testing import CliRunner

from tests.support.airsim_scenes import client, listens, pid_of
from tests.support.common import PATIENCE_S, needs_gl, needs_program, wait_until
from tests.support.network_namespaces import in_namespace, two_namespaces
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.cli.main import app

pytestmark = pytest.mark.process

HOME: Final = "10.213.7.1"
"""Address of the host with Ray's head and the scene server."""
AWAY: Final = "10.213.7.2"
PORT: Final = 30000
CLUSTER: Final = f"{HOME}:6379"
START_S: Final = 120.0
REQUEST: Final = {"camera_name": "0", "image_type": 0, "pixels_as_float": False, "compress": False}
YAW: Final = {"is_rate": True, "yaw_or_rate": 0.0}


class WorldProcess(NamedTuple):
    """A world: its process, and where it listens."""

    host: str
    port: int
    pid: int

    def runs(self) -> bool:
        return Path(f"/proc/{self.pid}").exists()


@contextlib.contextmanager
def ray_node(namespace: str, name: str, *words: object) -> Iterator[Program]:
    """Run a Ray node with two CPUs in a namespace; skips where it does not start."""
    # Ray keeps a token in the home folder, and its sockets want a short path.
    with tempfile.TemporaryDirectory(
        prefix="vil-ray-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        command = (
            "ip",
            "netns",
            "exec",
            namespace,
            needs_program("ray", "ray"),
            "start",
            *words,
            "--block",
        )
        limits = ("--num-cpus", 2, "--object-store-memory", 80_000_000, "--temp-dir", folder)
        env = {"RAY_USAGE_STATS_ENABLED": "0", "HOME": folder}
        with Program(*command, *limits, env=env) as node:
            try:
                node.await_text("Ray runtime started", START_S)
            except AssertionError as exc:
                pytest.skip(f"the Ray node {name} did not start within {START_S:.0f} s here: {exc}")
            yield node


@pytest.mark.long
def test_worlds_run_on_two_hosts(tmp_path: Path) -> None:
    needs_gl()
    if find_spec("ray") is None:
        pytest.skip("Ray is absent: pip install '.[ray]'")
    head = ("--head", "--port", 6379, "--node-ip-address", HOME, "--include-dashboard", "false")
    words = ("airsim", "--scene-server", PORT, "--scene", "empty", "--bind", HOME, "--ray", CLUSTER)
    with (
        two_namespaces() as (here, there),
        ray_node(here, "head", *head),
        ray_node(there, "other", "--address", CLUSTER, "--node-ip-address", AWAY),
    ):
        inside = ("ip", "netns", "exec", here, *VIL_BRIDGE, *words)
        with Program(*inside) as refused:
            assert refused.wait(PATIENCE_S) and refused.said("Add --insecure")
        with Program(*inside, "--insecure", log=tmp_path / "log") as server:
            use_both_hosts(server, {HOME: here, AWAY: there})


def use_both_hosts(server: Program, spaces: dict[str, str]) -> None:
    """Open worlds from the host without the scene server.

    All end, with their owner and with the server.
    """
    server.await_text(f"scene server on {HOME} port {PORT}")
    worlds = in_namespace(spaces[AWAY], lambda: fly_in_four_worlds(server, spaces))
    wait_until(lambda: not any(world.runs() for world in worlds))  # their owner is gone
    assert server.poll() is None
    in_namespace(spaces[AWAY], lambda: kill_the_server(server, spaces))


def fly_in_four_worlds(server: Program, spaces: dict[str, str]) -> list[WorldProcess]:
    """Fly in each of four worlds; one is killed and opened again, the others go on.

    Returns all that were open.
    """
    with client(PORT, HOME) as owner:
        opened, (address, ports) = owner(
            "reopen_scenes", HOME, [[number, 0] for number in range(4)]
        )
        assert opened and address == HOME and len(set(ports)) == 4
        worlds = {port: process_of(server, port, spaces) for port in ports}
        assert sorted(world.host for world in worlds.values()) == [HOME, HOME, AWAY, AWAY]
        with contextlib.ExitStack() as clients:
            calls = {port: clients.enter_context(client(port, HOME)) for port in ports}
            for call in calls.values():
                assert (
                    call("enableApiControl", True, "") is None
                    and call("armDisarm", True, "") is True
                )
                assert call("takeoff", 20.0, "") is True
                assert call("simGetImages", [REQUEST], "")[0]["width"] == 256
            victim = next(port for port, world in worlds.items() if world.host == AWAY)
            os.kill(worlds[victim].pid, signal.SIGKILL)
            wait_until(lambda: not listens(victim, HOME))
            del calls[victim]
            for call in calls.values():
                height_m = -call("getMultirotorState", "")["kinematics_estimated"]["position"][
                    "z_val"
                ]
                assert (
                    height_m > 1.0 and call("moveToZ", -5.0, 2.0, 20.0, YAW, -1.0, 1.0, "") is True
                )
        assert owner("reopen_scene_from_port", victim) is True
        return [*worlds.values(), process_of(server, victim, spaces)]


def kill_the_server(server: Program, spaces: dict[str, str]) -> None:
    """Kill the scene server with worlds on both hosts: all end."""
    with client(PORT, HOME) as owner:
        opened, (_, ports) = owner("reopen_scenes", HOME, [[number, 0] for number in range(3)])
        assert opened
        worlds = [process_of(server, port, spaces) for port in ports]
        assert {world.host for world in worlds} == {HOME, AWAY}
        server.kill()
        wait_until(lambda: not any(world.runs() for world in worlds))


def process_of(server: Program, port: int, spaces: dict[str, str]) -> WorldProcess:
    """Return the process of the newest world of a port, by the server's log."""
    host, inner = re.findall(rf"the world of port {port} is on (\S+) port (\d+)", server.text())[-1]
    return WorldProcess(host, int(inner), in_namespace(spaces[host], lambda: pid_of(int(inner))))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ray", "auto"], "Add --scene-server PORT"),
        (
            ["--scene-server", "0", "--ray", "auto", "--scene", "room.yaml"],
            "other hosts lack this file",
        ),
        (["--scene-server", "0", "--ray", "ray://192.0.2.7:10001"], "Start it there, --ray auto"),
    ],
)
def test_options_that_do_not_suit_a_cluster_are_refused(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["airsim", *words])
    assert done.exit_code and message in f"{done.output} {done.exception}"
