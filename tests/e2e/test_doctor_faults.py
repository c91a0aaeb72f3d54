"""doctor names the cause of faults planted on real sockets, all of them in one bad laboratory."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.programs import VIL_BRIDGE, run
from vil_adapters.motions.drone import DroneMotion
from vil_adapters.optitrack.config import MotiveEmulatorConfig
from vil_adapters.optitrack.emulator import MotiveEmulator
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.cli.main import main
from vil_bridge.config.load import load
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import MotionFrame, SkeletonModel
from vil_bridge.interfaces.ports import MocapMotion
from vil_bridge.protocols.natnet.codec import ServerInfo, encode_server_info
from vil_bridge.registry import resolve
from vil_bridge.runtime.exit_codes import Exit
from vil_bridge.setup.doctor.examine import examine
from vil_bridge.setup.doctor.finding import Finding, State
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.process


MULTICAST = ServerInfo(
    "Motive", (3, 1, 0, 0), (4, 1, 0, 0), 10_000_000, 1511, True, "239.255.42.99"
)


class Frozen:
    """A paused take: the same pose for ever (implements ``MocapMotion``)."""

    subjects = ("still",)
    skeleton_models: tuple[SkeletonModel, ...] = ()

    def at(self, t_ns: int) -> MotionFrame:
        return MotionFrame(
            self.subjects, np.ones((1, 3)), np.array([[0.0, 0.0, 0.0, 1.0]]), np.array([True])
        )


class MulticastOnly(asyncio.DatagramProtocol):
    """A server that says it multicasts, and whose frames never come here."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if data[:2] == b"\0\0":
            self.transport.sendto(encode_server_info(MULTICAST), addr)


def motive(motion: MocapMotion, up_axis: str = "y") -> MotiveEmulator:
    keys = {"command_port": 0, "data_port": 0, "rate_hz": 60.0, "up_axis": up_axis}
    return MotiveEmulator(MotiveEmulatorConfig.model_validate(keys), motion, now_ns())


def natnet(port: int, **keys: object) -> dict[str, object]:
    return {"type": "optitrack", "room": "lab", "command_port": port, **keys}


def write(folder: Path, sections: dict[str, Any]) -> Path:
    path = folder / "lab.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "rooms": {"lab": {}}, **sections}))
    return path


async def test_the_planted_causes_are_named(tmp_path: Path) -> None:
    closed, nobody = free_ports(2, socket.SOCK_DGRAM)
    (pose_port,) = free_ports(1, socket.SOCK_STREAM)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(MulticastOnly, ("127.0.0.1", 0))
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
    images, page, poses, keys = (one.getsockname()[1] for one in taken)
    crazyflie, still, walker = (
        motive(DroneMotion("CF1", imu_rate_hz=100)),
        motive(Frozen()),
        motive(WalkMotion(), "z"),
    )
    try:
        silent.bind(("127.0.0.1", 0))
        async with crazyflie, still, walker:
            sources = {
                "refused": natnet(closed),
                "silent": natnet(silent.getsockname()[1]),
                "multicast": natnet(transport.get_extra_info("sockname")[1]),
                "elsewhere": natnet(nobody, interface="203.0.113.9"),
                "crazyflie": natnet(crazyflie.command_port),
                "still": natnet(still.command_port),
                "walker": natnet(walker.command_port, up_axis="y"),
                "imu": {"type": "mavlink-imu", "device": str(tmp_path / "ttyACM0")},
            }
            actor = {"kind": "vehicle", "source": "crazyflie", "subject": "cf1"}
            renderer = {"type": "flightgoggles", "pose_port": pose_port, "image_port": images}
            sections = {
                "sources": sources,
                "actors": {"drone": actor},
                "renderers": {"unity": renderer},
                "http": {"port": page},
                "stream": {"bind": "tcp://127.0.0.1:0"},
                "federation": {
                    "zmq": {"bind": f"tcp://127.0.0.1:{poses}"},
                    "zenoh": {"listen": f"tcp/127.0.0.1:{keys}"},
                },
            }
            config = load(write(tmp_path, sections), env={}, resolve=resolve)
            # Sources say after three seconds of silence why; a busy machine takes longer.
            findings = {f.name: f for f in await asyncio.to_thread(examine, config, seconds=10.0)}
    finally:
        transport.close()
        silent.close()
        for one in taken:
            one.close()

    def says(name: str, state: State, *words: str) -> None:
        found: Finding = findings[name]
        assert found.state is state, found
        assert all(word in f"{found.text} -> {found.cure}" for word in words), found
        assert found.state is State.OK or found.cure, found

    says(
        "port of http", State.FAIL, "is taken by", f"(pid {os.getpid()})", "configure another port"
    )
    says("port of federation.zmq", State.FAIL, "is taken by")
    says("port of federation.zenoh", State.FAIL, "is taken by")
    says("port of unity (image_port)", State.FAIL, "is taken by")
    says("port of unity (pose_port)", State.OK)
    says(
        "source refused",
        State.FAIL,
        f"127.0.0.1:{closed}",
        "refused: that computer is up, but nothing listens there",
    )
    says("source silent", State.FAIL, "no answer from 127.0.0.1", "is 'Enable' on")
    says(
        "source multicast", State.FAIL, "answers, but no frames of 239.255.42.99:1511", "multicast"
    )
    says(
        "route of elsewhere",
        State.FAIL,
        "203.0.113.9 is none of this computer's",
        "`interface: auto`",
    )
    says("actor drone", State.FAIL, "config wants 'cf1'; stream has 'CF1'")
    says("motion of still", State.WARN, "equal to the last bit", "paused")
    says(
        "up axis of walker",
        State.WARN,
        "along x, y, z: it lies, or the up axis is wrong",
        "(now y)",
    )
    says("serial line of imu", State.FAIL, "does not exist", "serial lines here")
    assert "Motive" in findings["source crazyflie"].text
    says("motion of crazyflie", State.OK)


def doctor(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run(*VIL_BRIDGE, "doctor", *words, env=env)


def test_a_missing_extra_and_a_missing_gl_library_end_with_3(tmp_path: Path) -> None:
    (tmp_path / "qtm_rt.py").write_text("raise ModuleNotFoundError(name='qtm_rt')\n")
    (tmp_path / "moderngl.py").write_text(
        "raise OSError('libEGL.so.1: cannot open shared object file')\n"
    )
    sections = {"sources": {"qtm": {"type": "qualisys", "room": "lab", "server": "127.0.0.1"}}}
    done = doctor(str(write(tmp_path, sections)), "--json", "--report", PYTHONPATH=str(tmp_path))
    assert done.returncode == Exit.CHECK_FAILED, done.stderr
    told = json.loads(done.stdout)
    assert told["vil-bridge"] and told["packages"]["numpy"]
    failed = [
        f"{f['name']}: {f['text']} -> {f['cure']}" for f in told["findings"] if f["state"] == "fail"
    ]
    assert any("qtm" in line and "pip install '.[qualisys]'" in line for line in failed), failed
    assert any(line.startswith("OpenGL: ") and "libEGL.so.1" in line for line in failed), failed


def test_a_file_with_a_mistake_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, {"sources": {"m": {"type": "optitrak", "room": "lab"}}})
    monkeypatch.setattr(sys, "argv", ["vil-bridge", "doctor", str(path)])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().out
    assert end.value.code == Exit.CHECK_FAILED
    assert "FAIL  configuration" in said and "did you mean 'optitrack'?" in said
    assert "ok    JPEG codec" in said, "the rest is looked at all the same"
