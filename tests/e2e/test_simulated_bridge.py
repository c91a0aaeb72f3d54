"""Simulated vehicles in a whole bridge.

Commands over REST and the control channel, walls that the renderer tells.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.bridge_rig import build, drawn_bridge, running
from tests.support.common import ROOT, needs_gl
from tests.support.events import until
from tests.support.programs import VIL_BRIDGE, Program, run
from vil_bridge.core.types import RenderedImage, View, WorldSnapshot
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.vehicle_commands import VehicleCommand, VehicleState
from vil_bridge.outputs.stream.vehicle_client import VehicleClient
from vil_renderer.flightgoggles.client import FlightGogglesClient
from vil_renderer.flightgoggles.server import RenderedRequest
from vil_simulation.race import piloting

pytestmark = pytest.mark.process


LOAD_S = 300.0
STEP_HZ = 240
CONFIG = """
version: 1
rooms: {hall: {T_world_room: {p_m: [%s]}}}
sources:
  sim:
    type: simulated
    room: hall
    step_hz: %d
    rate_hz: 100
    vehicles:
      drone: {model: flightgoggles, p_m: [%s], command_timeout_ms: 60000, %s}
actors:
  drone: {kind: vehicle, source: sim, subject: drone}
%s
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""
CAMERA = """
renderers: {drawn: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: drone, renderer: drawn, width_px: 32, height_px: 24, rate_hz: 30,
    collision: true}}
"""
WAITING = "simulation: {clock: simulated, wait_for_cameras: true}"


def written(
    vehicle: str = "", camera: str = "", room: str = "0, 0, 0", start: str = "0, 4, 1.5"
) -> str:
    return CONFIG % (room, STEP_HZ, start, vehicle, camera)


def drone(bridge: Bridge) -> VehicleState:
    return bridge.context.for_sources.vehicles.of("drone").state("drone")


async def flying(bridge: Bridge) -> None:
    """Wait until the vehicle is simulated."""
    vehicles = bridge.context.for_sources.vehicles
    await until(lambda: vehicles.names() == ["drone"] and drone(bridge).steps > 10, LOAD_S)


@asynccontextmanager
async def bare_bridge() -> AsyncIterator[Bridge]:
    async with running(written()) as bridge:
        await flying(bridge)
        await asyncio.to_thread(httpx.get, f"{bridge.http.url}healthz", timeout=LOAD_S)
        yield bridge


# --- commands -------------------------------------------------------------------------------------


async def test_rest_tells_commands_and_refuses() -> None:
    async with (
        bare_bridge() as bridge,
        httpx.AsyncClient(base_url=bridge.http.url, timeout=60.0) as web,
    ):
        assert (await web.get("/api/v1/vehicles")).json() == ["drone"]
        state = (await web.get("/api/v1/vehicles/drone")).json()
        assert (state["model"], state["mode"], state["pilot"], state["armed"]) == (
            "flightgoggles",
            "rates",
            "autopilot",
            True,
        )
        assert state["modes"]["velocity"][0] == {"name": "v_world_mps", "size": 3, "unit": "m/s"}
        url = "/api/v1/vehicles/drone/command"
        body = {"mode": "position", "values": {"p_world_m": [0, 4, 2.5], "yaw_rad": 0.5}}
        assert (await web.post(url, json=body)).status_code == 200
        await until(lambda: drone(bridge).p_world_m[2] > 2.3)
        for wrong, status, told in (
            (
                {"mode": "position", "values": [1.0]},
                422,
                "mode 'position' takes p_world_m (3, m), yaw_rad (1, rad)",
            ),
            ({"mode": "loop"}, 422, "drone has no mode 'loop'"),
            (
                {"action": "explode"},
                422,
                "action: Input should be 'fly', 'arm', 'disarm' or 'reset'",
            ),
            ({"values": ["fast"]}, 422, "values"),
        ):
            answer = await web.post(url, json=wrong)
            assert (answer.status_code, told in answer.json()["detail"]) == (status, True), (
                answer.text
            )
        assert (await web.post("/api/v1/vehicles/dron/command", json={})).status_code == 404
        assert "known: drone" in (await web.get("/api/v1/vehicles/dron")).json()["detail"]
        assert (await web.post(url, json={"action": "reset"})).status_code == 200
        await until(lambda: drone(bridge).p_world_m[2] < 1.6)
        assert (
            "/api/v1/vehicles/{name}/command"
            in (await web.get("/api/v1/openapi.json")).json()["paths"]
        )
        status = (await web.get("/api/v1/sources/sim")).json()
        assert status["report"]["counters"]["steps"] > 0
        assert status["clock"]["method"] == "two-way"
        assert abs(status["clock"]["offset_ns"]) < 1000


async def test_the_control_channel_commands_too() -> None:
    async with bare_bridge() as bridge:

        def talk() -> dict[str, Any]:
            with VehicleClient(bridge.context.hub.endpoint, timeout_s=20.0) as client:
                assert client.names() == ["drone"]
                client.fly("drone", "velocity", {"v_world_mps": [0.0, 0.0, 1.0], "yaw_radps": 0.0})
                for subject, mode, values, told in (
                    (
                        "dron",
                        "velocity",
                        [0.0],
                        "no simulated vehicle is named 'dron'; known: drone",
                    ),
                    ("drone", "velocity", [0.0], "takes v_world_mps"),
                    ("drone", "velocity", "fast", "values"),
                    (7, "velocity", [0.0], "subject"),
                ):
                    with pytest.raises(ValueError, match=told):
                        client.fly(subject, mode, values)  # type: ignore[arg-type]
                with pytest.raises(ValueError, match="no simulated vehicle"):
                    client.state("dron")
                return client.state("drone")

        state = await asyncio.to_thread(talk)
        assert (state["model"], state["source"]) == ("flightgoggles", "sim")
        await until(lambda: drone(bridge).v_world_mps[2] > 0.8)

        def disarm() -> None:
            with VehicleClient(bridge.context.hub.endpoint, timeout_s=20.0) as client:
                client.arm("drone", armed=False)

        await asyncio.to_thread(disarm)
        await until(lambda: not drone(bridge).armed)


def test_a_client_without_a_bridge_says_so() -> None:
    with (
        VehicleClient("tcp://127.0.0.1:1", timeout_s=0.05) as client,
        pytest.raises(TimeoutError, match=r"0\.05 s"),
    ):
        client.names()


# --- walls ----------------------------------------------------------------------------------------


def embedded(link: FlightGogglesClient) -> Program:
    """The embedded renderer for a bridge's connection."""
    ports = ("-input-port", link.pose_port, "-output-port", link.image_port)
    return Program(
        sys.executable,
        "-m",
        "vil_renderer.embedded.servers.main",
        "-client-ip",
        "127.0.0.1",
        *ports,
    )


@pytest.mark.gl
@pytest.mark.long
async def test_a_wall_of_the_renderer_is_never_passed() -> None:
    """The hall's banner hangs at x = 9.95 m.

    The room's frame is shifted, as the vehicle must not notice. Time waits for the pictures: at
    1.5 m/s a renderer that is away for a second would report the banner too late.
    """
    needs_gl()
    contact = "contact: {radius_m: 0.2, reach_m: 1.5}"
    bridge = build(written(contact, CAMERA + WAITING, "0, 0.5, 0", "8.8, -1, 2.5"))
    (link,) = bridge.context.pool.renderers.values()
    assert isinstance(link, FlightGogglesClient)
    with embedded(link):
        async with running(bridge):
            await flying(bridge)
            await until(lambda: bridge.context.cameras["front"].relay.newest is not None, LOAD_S)
            deepest = [0.0]
            emitted = bridge.context.world

            def look() -> bool:
                bridge.context.for_sources.vehicles.send(
                    "drone", VehicleCommand(mode="velocity", values=[1.5, 0.0, 0.0, 0.0])
                )
                newest = emitted.newest("drone")
                assert newest is not None
                deepest.append(float(newest[0].p_m[0]))
                if not drone(bridge).collisions:
                    touched[0] = drone(bridge).steps
                return drone(bridge).steps > touched[0] + 2 * STEP_HZ

            touched = [drone(bridge).steps]
            await until(look, 60.0)
            assert drone(bridge).collisions
    assert 9.6 < max(deepest) <= 9.95 - 0.2 + 0.01


async def test_a_renderer_that_tells_only_hits_sends_the_vehicle_back() -> None:
    def draw(views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        images = tuple(
            RenderedImage(v, np.zeros((v.camera.height_px, v.camera.width_px, 3), np.uint8))
            for v in views
        )
        return RenderedRequest(
            images, collision=any(view.T_world_camera.p_m[1] > 4.6 for view in views)
        )

    async with drawn_bridge(written("", CAMERA), draw) as bridge:
        await flying(bridge)
        bridge.context.for_sources.vehicles.send(
            "drone", VehicleCommand(mode="velocity", values=[0.0, 1.5, 0.0, 0.0])
        )
        await until(lambda: drone(bridge).collisions)
        await until(lambda: not drone(bridge).armed)
        assert drone(bridge).p_world_m[1] < 4.1
        assert drone(bridge).pilot == "autopilot"


# --- by hand --------------------------------------------------------------------------------------


class Cockpit:
    """``vil-bridge fly`` on a terminal of its own."""

    def __init__(self, url: str, *options: str) -> None:
        self.master, slave = pty.openpty()
        self.seen = b""
        self.process = Program(*VIL_BRIDGE, "fly", url, *options, stdin=slave, stdout=slave)
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self.seen += os.read(self.master, 4096)
            except OSError:
                return

    async def flies(self) -> None:
        """Wait until it shows the vehicle."""
        await self.process.until(lambda: b"drone:" in self.seen, "drone:", LOAD_S)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    async def typing(self, keys: bytes, condition: Callable[[], object]) -> None:
        """Hold keys down until something happens."""

        def held() -> object:
            self.type(keys)
            return condition()

        await until(held)

    def end(self) -> int:
        try:
            return self.process.wait(60.0)
        finally:
            self.process.kill()
            self._reader.join(60.0)
            os.close(self.master)


async def test_keys_fly_disarm_reset_and_quit() -> None:
    async with bare_bridge() as bridge:
        cockpit = Cockpit(bridge.http.url)
        await cockpit.flies()
        assert b"arm or disarm" in cockpit.seen
        await cockpit.typing(b"\x1b[A", lambda: drone(bridge).v_world_mps[2] > 0.5)
        await cockpit.typing(b"w", lambda: drone(bridge).v_world_mps[0] > 0.5)
        await cockpit.typing(b"\x1b[D", lambda: drone(bridge).w_body_radps[2] > 0.3)
        assert (drone(bridge).mode, drone(bridge).pilot) == ("velocity", "command")
        cockpit.type(b"m")
        await until(lambda: not drone(bridge).armed)
        await until(lambda: b"DISARMED" in cockpit.seen)
        cockpit.type(b"0")
        await until(lambda: drone(bridge).armed)
        cockpit.type(b"h")
        await until(lambda: cockpit.seen.count(b"arm or disarm") == 2)
        cockpit.type(b"q")
        assert await asyncio.to_thread(cockpit.end) == 0


async def test_a_gamepad_flies(tmp_path: Path) -> None:
    """A pipe stands for the device: its events are the same eight bytes."""
    pad = tmp_path / "js0"
    os.mkfifo(pad)
    device = os.open(pad, os.O_RDWR)
    async with bare_bridge() as bridge:
        cockpit = Cockpit(bridge.http.url, "--gamepad", str(pad), "--axes", "1,0,3,2")
        await cockpit.flies()
        whole = struct.pack("<IhBB", 1, -32767, 2, 3) + struct.pack("<IhBB", 2, 1000, 2 | 0x80, 1)
        os.write(device, whole[:5])
        os.write(device, whole[5:])
        await until(lambda: drone(bridge).v_world_mps[2] > 1.5)
        assert abs(drone(bridge).v_world_mps[0]) < 0.2, "a stick that hardly moves is at rest"
        os.write(device, struct.pack("<IhBB", 3, 0, 2, 3) + struct.pack("<IhBB", 4, 32767, 2, 0))
        await until(lambda: drone(bridge).v_world_mps[1] < -1.0)
        os.write(device, struct.pack("<IhBB", 5, 1, 1, 0))
        await until(lambda: not drone(bridge).armed)
        cockpit.type(b"q")
        assert await asyncio.to_thread(cockpit.end) == 0
    os.close(device)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--subject", "plane"), "no simulated vehicle is named 'plane'; known: drone"),
        (
            ("--gamepad", "/nowhere/js0"),
            "gamepad /nowhere/js0: No such file or directory; `ls /dev/input/js*`",
        ),
        (
            (),
            "flying with keys needs a terminal, and standard input is not one. Start "
            "`vil-bridge fly` in a terminal",
        ),
    ],
)
async def test_what_cannot_be_flown_is_told(options: tuple[str, ...], told: str) -> None:
    async with bare_bridge() as bridge:
        command = [sys.executable, "-m", "vil_bridge", "fly", bridge.http.url, *options]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LOAD_S,
        )
        assert done.returncode == 3
        assert told in done.stderr


def test_nobody_there_is_told() -> None:
    begun_s = time.monotonic()
    command = [sys.executable, "-m", "vil_bridge", "fly", "127.0.0.1:1"]
    done = run(*command, limit_s=LOAD_S)
    assert done.returncode == 3
    assert "no bridge answers at http://127.0.0.1:1: is `vil-bridge run` up?" in done.stderr
    assert time.monotonic() - begun_s < LOAD_S


class Late(BaseHTTPRequestHandler):
    """Bridge that takes its time for the first answer and gives no second one."""

    protocol_version = "HTTP/1.1"
    answered = threading.Event()

    def do_GET(self) -> None:
        if self.answered.is_set():
            self.rfile.read()
            return
        threading.Event().wait(1.0)
        self.answered.set()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


def test_a_bridge_that_starts_is_given_time_and_one_that_has_answered_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(piloting, "_START_S", LOAD_S)
    monkeypatch.setattr(piloting, "_TIMEOUT_S", 0.2)
    with ThreadingHTTPServer(("127.0.0.1", 0), Late) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        link = piloting.HttpVehicleClient(f"http://127.0.0.1:{server.server_port}/", "drone")
        assert link.state() == {}
        with pytest.raises(OSError, match="timed out"):
            link.state()
        link.close()
        server.shutdown()


# --- the page -------------------------------------------------------------------------------------


async def test_the_pages_commands_work() -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl: apt-get install curl")
    page = (ROOT / "docs" / "guides" / "simulated.md").read_text(encoding="utf-8")
    curls = [shlex.split(line) for line in page.splitlines() if line.startswith("curl ")]
    assert len(curls) >= 4
    code, _moves = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    async with bare_bridge() as bridge:
        for words in curls:
            here = [word.replace("http://127.0.0.1:8080/", bridge.http.url) for word in words]
            done = await asyncio.to_thread(
                subprocess.run, [*here, "--fail-with-body"], capture_output=True, timeout=60
            )
            assert done.returncode == 0, done
        local = code.replace(
            '"tcp://127.0.0.1:5560"', f'"{bridge.context.hub.endpoint}", timeout_s=20.0'
        )
        await asyncio.to_thread(exec, compile(local, "simulated.md", "exec"), {})
        await until(lambda: drone(bridge).pilot == "autopilot")
