"""Unity's side of the Flightmare protocol as the original program plays it.

States, time-outs, computed sizes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import zmq

from tests.support.flightmare import depth_m, painted
from tests.support.flightmare_original import HWM

_OBJECTS_STEP: Final = 3
"""Scene, window, then the objects with those of the list."""


@dataclass(slots=True)
class Unity:
    """What the stand-in of the Unity program does, and what happened to it.

    Attributes:
        timeout_s: silence after which it reloads (5 s in the original). reload_s: how long that
            takes.
        lost_readies: ready messages that get lost. lost: whether the pose of a number gets lost.
        steps: set-up steps, each of which costs one settings message.
        died: why it cannot make its scene, as the program of 2022 says when ``object_csv`` cannot
            be opened.
    """

    dialect: str = "master"
    timeout_s: float = 5.0
    reload_s: float = 0.05
    frame_s: float = 0.002
    lost_readies: int = 0
    lost: Callable[[int], bool] = lambda _number: False
    steps: int = 5
    settings_seen: int = 0
    readies: int = 0
    reloads: int = 0
    drawn: list[int] = field(default_factory=list)
    scene_ids: list[int] = field(default_factory=list)
    cameras: dict[tuple[int, str], Any] = field(default_factory=dict)
    newest: dict[str, Any] = field(default_factory=dict)
    died: str = ""
    failures: list[Exception] = field(default_factory=list)


@contextmanager
def unity(client_ports: tuple[int, int], **options: Any) -> Iterator[Unity]:
    """The program in a thread, dialling the client's (pose, image) ports."""
    program, stop = Unity(**options), threading.Event()
    thread = threading.Thread(target=_run, args=(program, client_ports, stop))
    thread.start()
    try:
        yield program
    finally:
        stop.set()
        thread.join(60.0)
        assert not thread.is_alive()
        for failure in program.failures:
            raise failure


def _run(program: Unity, ports: tuple[int, int], stop: threading.Event) -> None:
    context: Any = zmq.Context()
    try:
        while not stop.is_set():
            poses, images = context.socket(zmq.SUB), context.socket(zmq.PUB)
            for topic in (b"Pose", b"PointCloud"):
                poses.subscribe(topic)
            poses.rcvhwm = images.sndhwm = HWM
            for socket, port in zip((poses, images), ports, strict=True):
                socket.linger = 0
                socket.connect(f"tcp://127.0.0.1:{port}")
            _Life(program, poses, images, stop).live()
            poses.close()
            images.close()
            if not stop.is_set():
                program.reloads += 1
                stop.wait(program.reload_s)
    except Exception as exc:
        program.failures.append(exc)
    finally:
        context.destroy(linger=0)


class _Life:
    """From one load of the start scene to the next."""

    def __init__(self, program: Unity, poses: Any, images: Any, stop: threading.Event) -> None:
        self._program, self._poses, self._images, self._stop = program, poses, images, stop
        self._settings: dict[str, Any] | None = None
        self._skip, self._step, self._ready = 1, 0, False

    def live(self) -> None:
        """One turn is one engine frame; ends by the time-out once something was heard."""
        heard_s: float | None = None
        while not self._stop.is_set():
            if not self._poses.poll(20):
                if heard_s is not None and time.monotonic() - heard_s > self._program.timeout_s:
                    return
                continue
            heard_s = time.monotonic()
            body = b""
            while self._poses.poll(0):
                topic, body = self._poses.recv_multipart()
                assert topic == b"Pose"
            message = json.loads(body)
            if self._ready:
                self._pose(message)
            else:
                self._set_up(message)
            self._stop.wait(self._program.frame_s)

    def _set_up(self, message: dict[str, Any]) -> None:
        program = self._program
        _check_settings(message, program.dialect)
        program.settings_seen += 1
        self._skip = max(0, self._skip - 1)
        if self._skip == 0 and self._step < program.steps:
            self._settings = self._settings or message
            self._step += 1
            self._skip += 1
        if program.dialect == "2022" and self._step == _OBJECTS_STEP:
            program.died = _unopened(message["object_csv"])
            if program.died:
                self._stop.wait()
                return
        if self._step == program.steps and self._skip == 0:
            self._ready = True
            program.readies += 1
            program.scene_ids.append(message["scene_id"])
            if program.lost_readies > 0:
                program.lost_readies -= 1
            else:
                self._images.send_multipart([b'{"ready":true}'])

    def _pose(self, message: dict[str, Any]) -> None:
        program, settings = self._program, self._settings
        assert settings is not None
        key = "ntime" if program.dialect == "agile_autonomy" else "frame_id"
        number = message.get(key, 0)
        if program.lost(number):
            return
        _check_pose(message, settings, program.dialect)
        program.newest = message
        parts = [json.dumps({key: number, "pub_vehicles": _states(settings)}).encode()]
        main = settings["vehicles"][len(settings["vehicles"]) // 2]["cameras"][0]
        for fixed, live in zip(settings["vehicles"], message["vehicles"], strict=True):
            for cam, moved in zip(fixed["cameras"], live["cameras"], strict=True):
                program.cameras[number, cam["ID"]] = _world(live, moved)
                parts += _drawn(cam, main, number)
        program.drawn.append(number)
        self._images.send_multipart(parts)


def _unopened(path: str) -> str:
    """Why a StreamReader cannot open this path; empty when it can."""
    if not path:
        return "ArgumentException: Empty path name is not legal."
    try:
        with Path(path).open(encoding="utf-8") as rows:
            rows.readline()
    except OSError as exc:
        return f"IOException: {exc}"
    return ""


def _check_settings(message: dict[str, Any], dialect: str) -> None:
    assert isinstance(message["scene_id"], int) and message["vehicles"]
    if dialect == "2022":
        assert isinstance(message["static_objects"], list) and isinstance(
            message["dynamic_objects"], list
        )
        assert len(message["render_offset"]) == 3 and isinstance(message["object_csv"], str)
    else:
        assert isinstance(message["objects"], list)
    for carrier in message["vehicles"]:
        assert [len(carrier[k]) for k in ("position", "rotation", "size")] == [3, 4, 3]
        assert isinstance(carrier["lidars"], list) and isinstance(
            carrier["hasCollisionCheck"], bool
        )
        for cam in carrier["cameras"]:
            assert len(cam["T_BC"]) == 16 and cam["channels"] == 3 and 0 < cam["fov"] < 180
            if dialect == "agile_autonomy":
                assert isinstance(cam["post_processing"], list)
            else:
                assert (
                    len(cam["nearClipPlane"]) == len(cam["farClipPlane"]) == 4
                    and len(cam["enabledLayers"]) == 3
                )
    names = [cam["ID"] for carrier in message["vehicles"] for cam in carrier["cameras"]]
    assert len(set(names)) == len(names)


def _check_pose(message: dict[str, Any], settings: dict[str, Any], dialect: str) -> None:
    def ids(of: dict[str, Any]) -> Any:
        return [(v["ID"], [c["ID"] for c in v["cameras"]]) for v in of["vehicles"]]

    assert ids(message) == ids(settings), "IDs and order of the settings"
    if dialect == "2022":
        known = {thing["ID"] for thing in settings["dynamic_objects"]}
        assert {thing["ID"] for thing in message["dynamic_objects"]} <= known, "an unknown object"


def _states(settings: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"collision": carrier["hasCollisionCheck"], "lidar_ranges": []}
        for carrier in settings["vehicles"]
    ]


def _world(carrier: dict[str, Any], cam: dict[str, Any]) -> Any:
    """TRS(position, rotation, 1) T_BC, Unity's world from the camera (x right, y up, z forward),
    (4, 4).
    """
    x, y, z, w = np.array(carrier["rotation"]) / np.linalg.norm(carrier["rotation"])
    world = np.eye(4)
    world[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    world[:3, 3] = carrier["position"]
    return world @ np.array(cam["T_BC"]).reshape(4, 4)


def _drawn(cam: dict[str, Any], main: dict[str, Any], number: int) -> list[bytes]:
    parts = [painted(number, cam["ID"], cam["width"], cam["height"])[::-1].tobytes()]
    layers = cam.get("enabledLayers", [i < len(cam.get("post_processing", ())) for i in range(3)])
    far_m = cam["farClipPlane"][1] if "farClipPlane" in cam else 1000.0
    size = (main["height"], main["width"])
    if layers[0]:
        depth = np.full(size, depth_m(number) / far_m, "<f4")
        depth[0] = 1.0
        parts.append(depth[::-1].tobytes())
    parts += [bytes(3 * size[0] * size[1]) for on in layers[1:] if on]
    return parts
