"""A whole bridge with the emulated lab, a renderer, readers and a visitor of its pages around it,
in one process.

What goes wrong is drawn from the seed: loss, jitter, order and silence of the motion capture, its
restarts and clocks, how long the renderer takes, when readers leave, hang and come back, how slow
the disk is, when it breaks and when it is full, and what ends or hangs besides
(:mod:`tests.virtual.interruptions`). The rest is the product, unchanged. :class:`World` checks each
picture's header as it comes, all actors each second, and the whole at the end; what does not hold
becomes a line of ``failures``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.virtual import disk
from tests.virtual.interruptions import Autopilot, Interruptions, end_source, hang_http
from tests.virtual.motions import SwayingBodies
from tests.virtual.recording import check_recording
from vil_adapters.lab.motions import LabMotions, RoomMotion
from vil_adapters.lab.run import LabConfig, run_lab
from vil_adapters.lab.servers import ServerSpec
from vil_bridge import client, registry
from vil_bridge.bodies.walking_human import WalkMotion
from vil_bridge.config.load import load_text
from vil_bridge.core.types import (
    FloatArray,
    ImageArray,
    RenderedImage,
    TrackingState,
    View,
    WorldSnapshot,
)
from vil_bridge.daemon.bridge import Bridge
from vil_bridge.interfaces.faults import Faults
from vil_bridge.runtime.supervisor import ComponentState
from vil_renderer.flightgoggles.convert_renderer import RenderedRequest
from vil_renderer.flightgoggles.server import FlightGogglesServerConfig, serve

_CAMERAS: Final = ("front", "left", "right", "down")
_BODIES: Final = {"flight": ("drone", "gate", "cart"), "actor": ("crate", "ladder")}
_ENDPOINT: Final = "tcp://127.0.0.1:31600"
_HTTP_PORT: Final = 31_080
_AUTOPILOT_PORT: Final = 31_700
_CONFIG: Final = """
version: 1
rooms: {flight: {}, actor: {T_world_room: {p_m: [4, 0, 0], ypr_deg: [120, 0, 0]}}}
sources:
  flight: {type: optitrack, room: flight, server: 127.0.0.1, command_port: 31510, data_port: 31511}
  actor: {type: optitrack, room: actor, server: 127.0.0.1, command_port: 31520, data_port: 31521}
actors:
  drone: {kind: vehicle, source: flight, subject: drone}
  gate: {kind: prop, source: flight, subject: gate}
  cart: {kind: prop, source: flight, subject: cart}
  human: {kind: human, source: actor, subject: Actor}
  crate: {kind: prop, source: actor, subject: crate}
  ladder: {kind: prop, source: actor, subject: ladder}
renderers: {hall: {type: flightgoggles, pose_port: 31001, image_port: 31002}}
cameras:
%s
stream: {bind: "tcp://127.0.0.1:31600"}
outputs:
  autopilot: {type: mavlink-pose, actors: [drone], message: vision-position, rate_hz: 10,
      port: 31701, peer_port: 31700}
record: {folder: recordings}
http: {port: 31080}
realtime: {fifo_priority: 0}
"""
_CAMERA: Final = "  %s: {actor: drone, renderer: hall, width_px: 32, height_px: 24, rate_hz: 10}"
_SERVERS: Final = ("flight@31510,31511", "actor@31520,31521")
_ROOM_HZ: Final = 60.0
_STAMPS: Final = ("capture", "arrival", "request", "image", "warp", "encode", "send")
_SETTLED_S: Final = 3.0
"""Files and threads are those of a running bridge from then on."""
_LEAVING_S: Final = 1.0
"""A reader that leaves and the one that follows it both have files for less time than that."""
_RECORDED_SHARE: Final = 0.25
_FARTHEST_M: Final = 0.1
"""Greatest distance of a measured pose from the true one at the same instant."""
_LONGEST_GAP_S: Final = 2.5
"""Between two pictures of a bridge that says that it is ready.

It waits a second, and is asked each second.
"""
_CAMERA_HZ: Final = 10.0
_FEWEST_PICTURES: Final = 0.5
"""Share of a camera's pictures that come in any case, but for the seconds in which readers and
renderer are away.
"""
_AWAY_S: Final = 8.0
_AGAIN_S: Final = 4.0
"""Length of the second recording."""
_NOTICED_S: Final = 3.2
"""From then on the bridge says that its HTTP server hangs."""
_FEWEST_POSES_HZ: Final = 4.0
"""Of the ten a second that the autopilot gets while all is well."""


class World:
    """A bridge and what is around it, the trace that they leave and what is wrong with it.

    Args:
        folder: empty, for recordings. It is the current one, so that its name is in no file.

    Attributes:
        trace: lines of the bridge's events and of the headers of pictures, in their order.
        failures: what did not hold, a line each.
        pictures: number received, of each camera.
        recording: bytes of the recording, as far as it went.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.trace: list[str] = []
        self.failures: list[str] = []
        self.pictures: Counter[str] = Counter()
        self.recording = b""
        self._folder = folder
        self._random = random.Random(seed)
        self._slowest_picture_s = self._random.choice((0.005, 0.03, 0.2))
        self._full_bytes = self._random.choice((None, None, 200_000))
        self._breaks = self._random.random() < 0.25
        self._visits = 0
        self._has_hung = False
        self._has_broken = False
        self._restless_s = 0.0
        self._stop = threading.Event()
        self._last_t_ns = dict.fromkeys(_CAMERAS, 0)
        self._read_ns = dict.fromkeys(_CAMERAS, 0)
        self._ready_since_ns: int | None = None
        self._epoch_ns = time.monotonic_ns()
        self._motions = {
            "flight": SwayingBodies(*_BODIES["flight"]),
            "actor": SwayingBodies(*_BODIES["actor"], human=WalkMotion("Actor").at(0).skeletons[0]),
        }

    async def run(self, seconds: float) -> None:
        """Run for so many seconds of the machine's time. Raises what a part of it raises."""
        plan = self._plan = Interruptions.draw(self._random, _SETTLED_S, seconds)
        disk.install(random.Random(self._random.random()), self._full_bytes, self._breaks)
        end_source(self._passed_s, plan.source_s)
        hang_http(self._passed_s, plan.http_s, plan.http_hang_s)
        cameras = "\n".join(_CAMERA % name for name in _CAMERAS)
        bridge = Bridge(load_text(_CONFIG % cameras, "world.yaml", resolve=registry.resolve))
        events = _Events(self.trace)
        logging.getLogger("vil_bridge").addHandler(events)
        rooms = {name: RoomMotion(motion, _ROOM_HZ) for name, motion in self._motions.items()}
        motions = LabMotions(rooms["flight"], rooms["actor"], None)
        servers = tuple(
            replace(ServerSpec.parse("motive", text), faults=self._faults()) for text in _SERVERS
        )
        tasks = [
            asyncio.create_task(
                run_lab(motions, LabConfig(servers=servers, epoch_ns=self._epoch_ns)), name="lab"
            ),
            asyncio.create_task(bridge.run(), name="bridge"),
            asyncio.create_task(self._hang(), name="hang"),
            asyncio.create_task(self._watch_http(bridge), name="watch"),
            asyncio.create_task(self._visit(bridge, seconds), name="visitor"),
        ]
        autopilot = Autopilot(_AUTOPILOT_PORT, self._fail)
        away = plan.autopilot_s, plan.autopilot_away_s
        threads = [
            threading.Thread(target=self._render, daemon=True),
            threading.Thread(target=autopilot.run, args=(self._stop, *away), daemon=True),
        ]
        threads += [
            threading.Thread(target=self._read, args=(name, seconds), daemon=True)
            for name in _CAMERAS
        ]
        for thread in threads:
            thread.start()
        await asyncio.sleep(_SETTLED_S)
        settled = _held()
        await asyncio.sleep(seconds - _SETTLED_S - _LEAVING_S)
        await tasks.pop()
        held = await _least_held(_LEAVING_S)
        self._check_end(bridge, seconds, settled, held)
        self._check_parts(bridge, seconds, autopilot)
        logging.getLogger("vil_bridge").removeHandler(events)
        self._stop.set()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    # --- what goes wrong -----------------------------------------------------------------------

    def _faults(self) -> Faults:
        """Draw what goes wrong with a server."""
        chance = self._random
        texts = [
            f"loss={chance.choice((0, 1, 4))}%",
            f"jitter={chance.choice((0, 1, 4))}ms",
            f"reorder={chance.choice((0, 1))}%",
            f"duplicate={chance.choice((0, 1))}%",
        ]
        episodes = ("halfopen=2s", "burst=500ms", "restart=1s", "drift=50ppm", "step=100ms")
        episode = chance.choice((*episodes, ""))
        at_s = chance.randrange(5, 40)
        if episode.startswith("drift"):
            texts.append(episode)
        elif episode:
            texts.append(f"{episode}@{at_s}s")
            self._restless_s = max(self._restless_s, at_s + 2.0)
        return Faults.parse(",".join([*texts, f"seed={chance.randrange(1 << 30)}"]))

    def _render(self) -> None:
        """Run the renderer, which ends once for seconds and starts again, as a program that is
        killed, or hangs.
        """
        plan = self._plan
        config = FlightGogglesServerConfig(pose_port=31001, image_port=31002)
        if not plan.renderer_hangs:
            ended = threading.Event()
            end = threading.Timer(plan.renderer_s, ended.set)
            end.daemon = True
            end.start()
            serve(self._drawn, config, ended)
            self._stop.wait(plan.renderer_away_s)
        if not self._stop.is_set():
            serve(self._drawn, config, self._stop)

    def _drawn(self, views: tuple[View, ...], _snapshot: WorldSnapshot) -> RenderedRequest:
        """Draw noise, which takes a while that differs from picture to picture."""
        plan = self._plan
        time.sleep(self._random.uniform(0.001, self._slowest_picture_s))
        if plan.renderer_hangs and not self._has_hung and self._passed_s() >= plan.renderer_s:
            self._has_hung = True
            time.sleep(plan.renderer_away_s)
        images = tuple(RenderedImage(view, self._noise(view)) for view in views if view.due)
        return RenderedRequest(images, info={"renderer": "virtual"})

    async def _hang(self) -> None:
        """Let the bridge's loop hang once, as when its machine is busy with something else."""
        await asyncio.sleep(self._plan.loop_s)
        time.sleep(self._plan.loop_hang_s)  # noqa: ASYNC251 - the loop hangs

    def _noise(self, view: View) -> ImageArray:
        shape = view.camera.height_px, view.camera.width_px, 3
        return np.frombuffer(self._random.randbytes(math.prod(shape)), np.uint8).reshape(shape)

    # --- what is looked at ---------------------------------------------------------------------

    def _read(self, camera: str, seconds: float) -> None:
        """Read a camera's pictures as an onboard computer does, which starts again now and then."""
        while not self._stop.is_set():
            leaves_ns = time.monotonic_ns() + round(1e9 * self._random.uniform(0.3, 1.0) * seconds)
            hangs_ns = time.monotonic_ns() + round(1e9 * self._random.uniform(0.1, 2.0) * seconds)
            with client.Receiver(_ENDPOINT, camera) as receiver:
                while not self._stop.is_set() and time.monotonic_ns() < leaves_ns:
                    if time.monotonic_ns() >= hangs_ns:
                        time.sleep(self._random.uniform(0.2, 1.5))
                        hangs_ns = leaves_ns
                    frame = receiver.next(timeout=0.2)
                    if frame is not None and not self._stop.is_set():
                        self.pictures[camera] += 1
                        self.trace.append(json.dumps(frame.metadata, sort_keys=True))
                        self._check(camera, frame.metadata)
            self._read_ns[camera] = 0

    def _check(self, camera: str, header: Mapping[str, Any]) -> None:
        """Check one header: its camera and instants, and its pose against the true motion."""
        now_ns = time.monotonic_ns()
        self._read_ns[camera] = now_ns
        if header["camera"] != camera:
            self._fail(f"{camera}: a picture of {header['camera']} came")
        shown_ns = header["t_display_ns"]
        if shown_ns <= self._last_t_ns[camera]:
            self._fail(
                f"{camera}: a picture of {shown_ns} comes after one of {self._last_t_ns[camera]}"
            )
        self._last_t_ns[camera] = shown_ns
        stamps = [header["stamps_ns"][name] for name in _STAMPS]
        if any(before > after for before, after in zip(stamps, [*stamps[1:], now_ns], strict=True)):
            self._fail(f"{camera}: stamps go back: {header['stamps_ns']}, read at {now_ns}")
        measured = (header["motion"] or {}).get("measured")
        if measured is None or header["tracking"] != "tracked":
            return
        if measured["t_ns"] > now_ns:
            self._fail(f"{camera}: a pose of the future: {measured['t_ns']}, read at {now_ns}")
        self._check_place("drone", "flight", measured["t_ns"], np.array(measured["p_m"]))

    def _check_place(self, subject: str, room: str, t_ns: int, p_m: FloatArray) -> None:
        """Check where a subject was seen in its room, metres."""
        truth_m = self._motions[room].truth(subject, t_ns - self._epoch_ns)
        if np.linalg.norm(truth_m - p_m) > _FARTHEST_M:
            self._fail(
                f"{subject}: seen at {p_m.round(3).tolist()} of its room, it was at "
                f"{truth_m.round(3).tolist()}"
            )

    def _check_actors(self, bridge: Bridge) -> None:
        """Check the newest pose of each body: the rooms' places in the world are turned back."""
        world = bridge.context.world
        for room, bodies in _BODIES.items():
            for body in bodies:
                newest = world.newest(body)
                if newest is None or world.state_of(body) is not TrackingState.TRACKED:
                    continue
                pose, t_ns, _ = newest
                self._check_actor(body, room, t_ns, pose.p_m)
        human = world.newest_skeleton("human")
        if human is not None and world.state_of("human") is TrackingState.TRACKED:
            skeleton, t_ns = human
            self._check_actor("Actor", "actor", t_ns, skeleton.p_m[0])

    def _check_actor(self, subject: str, room: str, t_ns: int, p_world_m: FloatArray) -> None:
        if t_ns > time.monotonic_ns():
            self._fail(f"{subject}: its newest pose is of the future")
        self._check_place(subject, room, t_ns, _in_room(room, p_world_m))

    def _check_readiness(self, status: str) -> None:
        """Check that no camera has been silent for long while the bridge says that it is ready."""
        now_ns = time.monotonic_ns()
        if status != "200":
            self._ready_since_ns = None
            return
        self._ready_since_ns = now_ns if self._ready_since_ns is None else self._ready_since_ns
        for camera in _CAMERAS:
            heard_ns = max(self._read_ns[camera], self._ready_since_ns)
            if self._read_ns[camera] and now_ns - heard_ns > _LONGEST_GAP_S * 1e9:
                self._fail(
                    f"{camera}: no picture for {(now_ns - heard_ns) / 1e9:.1f} s, and "
                    "/readyz answers 200"
                )

    def _check_end(
        self, bridge: Bridge, seconds: float, settled: tuple[int, int], held: tuple[int, int]
    ) -> None:
        if (
            self._visits
            < seconds - 2.0 * _SETTLED_S - self._plan.http_hang_s - self._plan.loop_hang_s
        ):
            self._fail(f"/readyz answered {self._visits} times in {seconds} s")
        for camera, runner in bridge.context.cameras.items():
            expected = max(1, round(_FEWEST_PICTURES * _CAMERA_HZ * (seconds - _AWAY_S)))
            if self.pictures[camera] < expected:
                self._fail(
                    f"{camera}: {self.pictures[camera]} pictures came in {seconds} s, "
                    f"expected {expected} or more"
                )
            if self.pictures[camera] > runner.sink.sent:
                self._fail(
                    f"{camera}: {self.pictures[camera]} pictures came, {runner.sink.sent} were sent"
                )
        readers = sum(len(found) for found in bridge.context.hub.report().values())
        if readers > len(_CAMERAS):
            self._fail(f"{readers} readers have a seat, {len(_CAMERAS)} are there")
        for what, before, after in zip(("descriptors", "threads"), settled, held, strict=True):
            if after > before + 2:
                self._fail(f"{what} grow: {before} after {_SETTLED_S} s, {after} at the end")

    def _check_parts(self, bridge: Bridge, seconds: float, autopilot: Autopilot) -> None:
        """Check that what ended runs again, where it had the time."""
        plan = self._plan
        sent_s = seconds - plan.autopilot_away_s - _AWAY_S
        if autopilot.poses < _FEWEST_POSES_HZ * sent_s:
            self._fail(f"the autopilot got {autopilot.poses} poses in {seconds} s")
        ended_s = plan.source_s if plan.source_s < seconds else 0.0
        if seconds - max(self._restless_s, ended_s, plan.loop_s) < _AWAY_S:
            return
        for name, runner in bridge.context.sources.items():
            if runner.status.state is not ComponentState.RUNNING:
                self._fail(
                    f"source {name} is {runner.status.state}, although nothing is wrong "
                    "with it any more"
                )
        for actor in bridge.context.world.actors:
            state = bridge.context.world.state_of(actor.name)
            if state is not TrackingState.TRACKED:
                self._fail(f"{actor.name} is {state}, although its motion capture works again")

    async def _watch_http(self, bridge: Bridge) -> None:
        """Check that the bridge says when its HTTP server hangs, and no longer once it serves
        again.
        """
        plan = self._plan
        await asyncio.sleep(plan.http_s + _NOTICED_S)
        if plan.http_hang_s > _NOTICED_S and "hung" not in bridge.http.trouble:
            self._fail(
                f"the HTTP server has hung for {_NOTICED_S} s, and its trouble is "
                f"{bridge.http.trouble!r}"
            )
        await asyncio.sleep(max(0.0, plan.http_hang_s - _NOTICED_S) + 1.0 + plan.loop_hang_s)
        if bridge.http.trouble:
            self._fail(f"the HTTP server serves again, and its trouble is {bridge.http.trouble!r}")

    # --- the pages -----------------------------------------------------------------------------

    async def _visit(self, bridge: Bridge, seconds: float) -> None:
        """Ask for the state each second, as a monitor does, and record a part of the run."""
        begins_s = self._random.uniform(0.1, 0.6) * seconds
        until_s = begins_s + _RECORDED_SHARE * seconds
        recorded = asyncio.create_task(self._record(begins_s, until_s, seconds), name="recording")
        while self._passed_s() < seconds - _LEAVING_S - 0.5:
            await asyncio.sleep(1.0)
            status, _ = await self._ask("GET", "/readyz")
            self._visits += 1
            if status not in ("200", "503"):
                self._fail(f"/readyz answers {status}")
            self._check_readiness(status)
            self._check_actors(bridge)
        await recorded

    async def _record(self, begins_s: float, until_s: float, seconds: float) -> None:
        """Record between two instants of the run, and once more where there is time."""
        await asyncio.sleep(begins_s)
        await self._record_for("world", until_s - begins_s)
        if seconds - self._passed_s() > 2.0 * _AGAIN_S:
            await self._record_for("again", _AGAIN_S)

    async def _record_for(self, name: str, seconds: float) -> None:
        """Record for a while and check the file: a recorder that failed starts again."""
        status, answer = await self._ask("PUT", "/api/v1/recording", json.dumps({"name": name}))
        if status != "200":
            self._fail(f"the recording {name} does not begin: {status}: {answer}")
            return
        await asyncio.sleep(seconds)
        _, answer = await self._ask("DELETE", "/api/v1/recording")
        file = self._folder / "recordings" / f"{name}.mcap"
        self.recording += await asyncio.to_thread(file.read_bytes)
        may_fail = self._full_bytes is not None or (self._breaks and not self._has_broken)
        view = json.loads(answer)
        self._has_broken = self._has_broken or view["state"] == "failed"
        for failure in check_recording(file, view, may_fail=may_fail):
            self._fail(f"{name}: {failure}")

    async def _ask(self, method: str, path: str, body: str = "") -> tuple[str, str]:
        """Return status and body of an answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", _HTTP_PORT)
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        sizes = [
            int(line.partition(":")[2])
            for line in lines
            if line.lower().startswith("content-length:")
        ]
        answer = await reader.readexactly(sizes[0])
        writer.close()
        return status.split()[1], answer.decode()

    def _passed_s(self) -> float:
        return (time.monotonic_ns() - self._epoch_ns) / 1e9

    def _fail(self, text: str) -> None:
        self.failures.append(f"{self._passed_s():.3f} s: {text}")


class _Events(logging.Handler):
    """Writes the bridge's events into the trace."""

    def __init__(self, trace: list[str]) -> None:
        super().__init__(logging.INFO)
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.append(f"{time.monotonic_ns()} {record.name} {record.getMessage()}")


def _in_room(room: str, p_world_m: FloatArray) -> FloatArray:
    """Return a place of the world in its room, metres.

    The actor room is 4 m away and turned by 120 degrees.
    """
    if room == "flight":
        return p_world_m
    x, y, z = p_world_m - np.array((4.0, 0.0, 0.0))
    cosine = math.cos(math.radians(120.0))
    sine = math.sin(math.radians(120.0))
    return np.array((cosine * x + sine * y, cosine * y - sine * x, z))


def _held() -> tuple[int, int]:
    """Return how many descriptors and threads this process has."""
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


async def _least_held(seconds: float) -> tuple[int, int]:
    """Return the fewest descriptors and threads that this process has within so many seconds."""
    counts = [_held()]
    for _ in range(5):
        await asyncio.sleep(seconds / 5)
        counts.append(_held())
    return min(descriptors for descriptors, _ in counts), min(threads for _, threads in counts)
