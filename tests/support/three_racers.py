"""Race of three kinds of racers on one course, in real processes.

Two bridges, each with its own log, and a renderer.

The bridge ``near`` plays a real recording of motion capture (racer ``real``), simulates ``own``,
and receives ``far`` from the other bridge. All three fly clockwise around (0.4, 0), the recorded
one as a person walked.
"""

from __future__ import annotations

import gzip
import json
import math
import socket
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from tests.support.common import data_dir, wait_until
from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.assembly.recorded import recorded_config, recording_metadata
from vil_bridge.core.types import FloatArray, SourceFrame
from vil_bridge.recording.actor_poses import Placing
from vil_bridge.recording.reader import Recording
from vil_simulation.demo.child_processes import free_ports

RACERS: Final = ("real", "own", "far")
LAPS: Final = 2
GATES: Final = ("west", "north", "south")
_FIRST_S, _LAST_S = 34.0, 55.0
"""Piece of the recording in which the person walks around the room."""
_LOAD_S: Final = 300.0
_COURSE: Final = f"""
course: ring
laps: {LAPS}
start: {{p_m: [-1.5, -1.0, 1.5], yaw_deg: 90}}
rules: {{clock: first_gate}}
gates:
  - {{name: west, p_m: [-1.9, 0, 1.5], yaw_deg: 90, width_m: 3.6, height_m: 2, bar_m: 0.1}}
  - {{name: north, p_m: [0.4, 2.2, 1.5], yaw_deg: 0, width_m: 3.6, height_m: 2, bar_m: 0.1}}
  - {{name: south, p_m: [0.4, -2.2, 1.5], yaw_deg: 180, width_m: 3.6, height_m: 2, bar_m: 0.1}}
"""
_COMMON: Final = """
version: 1
name: %(name)s
rooms: {hall: {}}
http: {port: %(http)d}
stream: {bind: "tcp://127.0.0.1:%(stream)d"}
realtime: {fifo_priority: 0}
"""
_VEHICLE: Final = """
    type: simulated
    room: hall
    vehicles:
      %s:
        {model: flightgoggles, p_m: %s,
         autopilot: {kind: waypoints, speed_mps: %s, points_m: %s}}
"""
_FAR: Final = (
    _COMMON
    + """
sources:
  sim: %(vehicle)s
actors: {racer: {kind: vehicle, source: sim, subject: racer}}
require_cameras: false
federation: {site: far-hall, zmq: {bind: "tcp://127.0.0.1:%(far)d"}}
"""
)
_NEAR: Final = (
    _COMMON
    + """
sources:
  gym: {type: motion-file, room: hall, path: "%(folder)s/walk.csv", subject: body, loop: false,
      start: first_picture}
  sim: %(vehicle)s
  site: {type: federation, room: hall, site: far-hall, address: "tcp://127.0.0.1:%(far)d"}
actors:
  real: {kind: vehicle, source: gym, subject: body}
  own: {kind: vehicle, source: sim, subject: own}
  far: {kind: vehicle, source: site, subject: racer}
race: {course: "%(folder)s/ring.yaml", racers: [real, own, far]}
renderers: {drawn: {type: flightgoggles, pose_port: %(poses)d, image_port: %(images)d}}
cameras:
%(cameras)s
"""
)
_CAMERA: Final = (
    "  %s: {actor: %s, renderer: drawn, width_px: 320, height_px: 240, fov_y_deg: 90, "
    "rate_hz: 10, max_age_ms: 60000,"
    " modalities: [instance], latency_compensation: none, T_body_camera: {ypr_deg: %s}}"
)
_YPR_DEG: Final = {"real": [170, -25, 0], "own": [90, 0, 0], "far": [-90, 0, 0]}
"""Of the cameras.

With these and the speeds, each sees each for 2 s at least, wherever the racers are at the start.
"""


def _octagon(radius_m: float, z_m: float) -> tuple[list[float], list[list[float]]]:
    """Return the start of a clockwise octagon around (0.4, 0), south-west of it, and its other
    corners from there.
    """
    angles = np.radians(-157.5) - 0.25 * math.pi * np.arange(8)
    corners = radius_m * np.column_stack((np.cos(angles), np.sin(angles), np.zeros(8)))
    start = corners[0] + np.array([0.4, 0.0, z_m])
    return start.round(3).tolist(), (corners[1:] - corners[0]).round(3).tolist()


def _written_walk(path: Path) -> None:
    """Write the piece of the recording, with its own stamps."""
    with gzip.open(data_dir("tumvi_room1") / "dataset-room1_512_16.csv.gz", "rt") as file:
        head, *rows = file.read().splitlines()
    first_ns = int(rows[0].partition(",")[0])
    chosen = [
        row for row in rows if _FIRST_S <= 1e-9 * (int(row.partition(",")[0]) - first_ns) <= _LAST_S
    ]
    path.write_text("\n".join((head, *chosen)) + "\n", encoding="utf-8")


class Poses(NamedTuple):
    """Poses of an actor, with strictly increasing times of capture.

    Attributes:
        t_s, arrival_s: capture and arrival, seconds of the machine's clock, (n,). p_m: positions,
            (n, 3).
    """

    t_s: FloatArray
    arrival_s: FloatArray
    p_m: FloatArray


class ThreeRacers:
    """The processes; a context manager.

    Attributes:
        endpoint: control channel of the bridge ``near``. scene: file of the renderer's scene.
    """

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        ports = free_ports(7, socket.SOCK_STREAM)
        self._http, stream, far_http, far_stream, far, poses, images = ports
        self.endpoint: Final = f"tcp://127.0.0.1:{stream}"
        self._stack: Final = ExitStack()
        self._renderer_ports: Final = poses, images
        _written_walk(folder / "walk.csv")
        (folder / "ring.yaml").write_text(_COURSE, encoding="utf-8")
        self.scene: Final = folder / "scene.yaml"
        self.scene.write_text("scene: ring\ncourse: ring.yaml\n", encoding="utf-8")
        own, other = _octagon(2.6, 1.9), _octagon(3.4, 1.6)
        cameras = "\n".join(_CAMERA % (name, name, _YPR_DEG[name]) for name in RACERS)
        values: dict[str, object] = {"folder": folder, "far": far, "cameras": cameras}
        near = {
            "name": "near",
            "http": self._http,
            "stream": stream,
            "poses": poses,
            "images": images,
        }
        near |= {"vehicle": _VEHICLE % ("own", own[0], 2.8, own[1])}
        there = {"name": "far", "http": far_http, "stream": far_stream}
        there |= {"vehicle": _VEHICLE % ("racer", other[0], 2.0, other[1])}
        (folder / "near.yaml").write_text(_NEAR % (values | near), encoding="utf-8")
        (folder / "far.yaml").write_text(_FAR % (values | there), encoding="utf-8")

    def __enter__(self) -> ThreeRacers:
        try:
            self._far = self._program(
                "far", "run", self._folder / "far.yaml", "--record", self._folder / "far.mcap"
            )
            self._near = self._program(
                "near", "run", self._folder / "near.yaml", "--record", self._folder / "near.mcap"
            )
            # The recording begins with the pictures.
            self._await_states(lambda states: "waiting" not in states)
            poses, images = self._renderer_ports
            scene = "--scene", self.scene
            self._program(
                "renderer", "renderer", "--input-port", poses, "--output-port", images, *scene
            )
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _program(self, name: str, *words: object) -> Program:
        return self._stack.enter_context(
            Program(*VIL_BRIDGE, *words, log=self._folder / f"{name}.log")
        )

    def _await_states(self, are_good: Callable[[set[str]], bool]) -> None:
        """Wait until the racers' states on the board are as wanted."""
        states: dict[str, str] = {}

        def good() -> bool:
            assert self._near.poll() is None, self._near.text()[-2000:]
            try:
                states.update({name: one["state"] for name, one in self.board()["racers"].items()})
            except OSError:
                return False
            return bool(states) and are_good(set(states.values()))

        wait_until(good, _LOAD_S, lambda: (states, self._near.text()[-2000:]), period_s=0.2)

    def board(self) -> dict[str, Any]:
        """Return the race as the bridge ``near`` serves it."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self._http}/api/v1/race", timeout=30.0
        ) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def await_finish(self) -> dict[str, Any]:
        """Wait until all have finished, and return the board."""
        self._await_states(lambda states: not states & {"waiting", "ready", "racing"})
        return self.board()

    def end(self) -> None:
        """End all programs in order, which completes their recordings."""
        assert (self._near.end(), self._far.end()) == (0, 0)

    def poses(self, bridge: str, actor: str) -> Poses:
        """Return an actor's poses from a recording, in the order of capture."""
        rows: list[tuple[float, float, FloatArray]] = []
        with Recording(self._folder / f"{bridge}.mcap") as recording:
            placing = Placing(
                recording_metadata(recorded_config(recording), recording.utc_offset_ns).actors
            )
            for event, _, t_ns in recording.stamped_events():
                if isinstance(event, SourceFrame) and t_ns is not None:
                    of_actor = [one for one in placing.placed(event) if one.actor == actor]
                    rows += [
                        (1e-9 * t_ns, 1e-9 * event.t_arrival_ns, one.T_world_body.p_m)
                        for one in of_actor
                    ]
        t_s, arrival_s, p_m = (np.array(column) for column in zip(*rows, strict=True))
        first = np.diff(np.maximum.accumulate(t_s), prepend=-np.inf) > 0.0
        return Poses(t_s[first], arrival_s[first], p_m[first])


def judged(t_s: FloatArray, p_m: FloatArray, after_s: float) -> FloatArray:
    """Return the times of all gates of the race, of the first pass of ``west`` after a time on.

    It knows no race clock: it looks for roots of splines through the poses, and takes the gates in
    their order.
    """
    splines = CubicSpline(t_s, p_m)
    axes = {"west": (1, 1.0, 0.0, 0), "north": (0, 1.0, 0.4, 1), "south": (0, -1.0, 0.4, 1)}
    passes: dict[str, FloatArray] = {}
    for name, (axis, sign, plane_m, across) in axes.items():
        at_s = CubicSpline(t_s, sign * (p_m[:, axis] - plane_m)).roots(extrapolate=False)
        rising = sign * splines(at_s, 1)[:, axis] > 0.0
        side = {"west": -1.9, "north": 2.2, "south": -2.2}[name]
        passes[name] = at_s[rising & (np.abs(splines(at_s)[:, across] - side) < 1.8)]
    times, now_s = [], after_s
    for name in (*GATES * LAPS, GATES[0]):
        now_s = float(passes[name][passes[name] > now_s][0])
        times.append(now_s)
    return np.array(times)
