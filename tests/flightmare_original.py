"""The original Flightmare programs, as strict as they are: flightlib's client and Unity's state machine.

Written after docs/flightmare.md alone; nothing of ours takes part in reading or writing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import zmq

from tests.flightmare_support import depth_m, painted

HWM: Final = 6
LIMIT_S: Final = 10.0
DIALECTS: Final = ("master", "2022", "event_camera", "agile_autonomy", "avoidbench")
YAWED: Final = [0, 0, 1, 0.1, 0, 1, 0, 0.3, -1, 0, 0, 0.2, 0, 0, 0, 1]
UNTURNED: Final = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
_ALWAYS_ANSWERED: Final = 0


# --- flightlib's client -----------------------------------------------------------------------------


def camera(name: str, dialect: str, width: int, height: int, layers: Sequence[bool], index: int) -> dict[str, Any]:
    """A camera as the client of a dialect writes it."""
    made: dict[str, Any] = {
        "ID": name,
        "channels": 3,
        "width": width,
        "height": height,
        "fov": 70.0,
        "T_BC": YAWED,
        "isDepth": False,
        "depthScale": 0.2,
        "outputIndex": index,
    }
    if dialect == "agile_autonomy":
        names = ("depth", "object_segment", "optical_flow")
        return made | {"post_processing": [n for n, on in zip(names, layers, strict=True) if on]}
    made |= {"enabledLayers": list(layers)}
    if dialect != "event_camera":
        made |= {"nearClipPlane": [0.01] * 4, "farClipPlane": [1000.0, 100.0, 1000.0, 1000.0]}
    return made


def vehicle(name: str, dialect: str, cameras: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A vehicle as the client of a dialect writes it."""
    made: dict[str, Any] = {
        "ID": name,
        "position": [0.0, 1.0, 0.0],
        "rotation": [0.0, 0.0, 0.0, 1.0],
        "size": [1.0, 1.0, 1.0],
        "cameras": list(cameras),
        "lidars": [],
        "hasCollisionCheck": True,
    }
    if dialect == "agile_autonomy":
        made["lidars"] = [
            {
                "ID": "lidar",
                "num_beams": 3,
                "max_distance": 10.0,
                "start_angle": -0.5,
                "end_angle": 0.5,
                "T_BS": UNTURNED,
            }
        ]
    if dialect == "event_camera":
        event = camera(f"{name}_event_0", dialect, 16, 8, (False,) * 3, 0)
        del event["enabledLayers"]
        parameters = {"Cm": 0.1, "Cp": 0.1, "sigma_Cp": 0.0, "sigma_Cm": 0.0, "refractory_period_ns": 0}
        made["eventcameras"] = [event | parameters | {"log_eps": 1e-4}]
    return made


CLUTTER: Final = {
    "name": "Tree",
    "bounding_area": [10.0, 10.0],
    "bounding_origin": [0.0, 0.0],
    "radius": 2.0,
    "seed": 3,
    "scale_min": [0.5, 0.5, 1.3],
    "scale_max": [1.0, 1.0, 1.8],
}


class DeadlockError(AssertionError):
    """The client waits for a frame that does not come; the original one has no time-out."""


class OldClient:
    """The bridge class of flightlib: KeyError and assertions stand for its exceptions and overruns.

    Attributes:
        taken: the ports, (poses, frames).
        vehicles: settings and pose alike.
        dropped: poses that its own socket lost, as one with this high-water mark does on a busy computer.
    """

    def __init__(
        self,
        dialect: str,
        cameras: int = 1,
        layers: Sequence[bool] = (True, False, False),
        taken: tuple[int, int] = (0, 0),
        hwm: int = HWM,
    ) -> None:
        """Bind the ports ``taken`` (0 = any).

        With the original ``hwm`` libzmq may drop what is sent out of step, without a word.
        """
        self.dialect = dialect
        self._context: Any = zmq.Context()
        self._pub, self._sub = self._context.socket(zmq.PUB), self._context.socket(zmq.SUB)
        self._pub.sndhwm = hwm
        self._sub.rcvhwm = HWM
        self._sub.subscribe(b"")
        self.taken = _bound(self._pub, taken[0]), _bound(self._sub, taken[1])
        made = [camera(f"quadrotor0_{i}", dialect, 16, 8, layers, i) for i in range(cameras)]
        self.vehicles = [vehicle("quadrotor0", dialect, made)]
        self.gate = {
            "ID": "gate",
            "prefabID": "rpg_gate",
            "position": [3.0, 0.5, 1.0],
            "rotation": [0.0, 0.0, 0.0, 1.0],
            "size": [1.0, 1.0, 1.0],
        }
        if dialect == "avoidbench":
            self.gate["opacity"] = 1.0
        self.collision_state: dict[str, Any] | None = None
        self.point_cloud_state = {"get_pc_msg": False, "save_pc_success": False}
        self.states: list[dict[str, Any]] = []
        self.dropped = 0

    def close(self) -> None:
        self._context.destroy(linger=0)

    def __enter__(self) -> OldClient:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def settings(self) -> dict[str, Any]:
        """The settings message of the dialect."""
        return {"scene_id": 1, **self._scene()} | (
            {"render_offset": [0.0, 0.0, 0.0], "object_csv": ""} if self.dialect == "2022" else {}
        )

    def pose(self, number: int) -> dict[str, Any]:
        """The pose message of the dialect."""
        key = "ntime" if self.dialect == "agile_autonomy" else "frame_id"
        return {key: number, **self._scene()} | ({"spawn_new_obj": True} if self.dialect == "avoidbench" else {})

    def _scene(self) -> dict[str, Any]:
        if self.dialect == "2022":
            return {"vehicles": self.vehicles, "static_objects": [self.gate], "dynamic_objects": []}
        made: dict[str, Any] = {"vehicles": self.vehicles, "objects": [self.gate]}
        if self.dialect == "avoidbench":
            made |= {"object_message": CLUTTER | {"opacity": 0.5}, "tree_message": CLUTTER}
        return made

    def send(self, topic: str, message: dict[str, Any]) -> None:
        """Without waiting, as the original."""
        self._pub.send_multipart([topic.encode(), json.dumps(message).encode()], zmq.NOBLOCK)

    def connect(self, limit_s: float = LIMIT_S) -> int:
        """Repeat the settings until ready comes; returns how often they were sent."""
        period_s = 0.05 if self.dialect == "2022" else 0.02
        deadline = time.monotonic() + limit_s
        sent = 0
        while time.monotonic() < deadline:
            self.send("Pose", self.settings())
            sent += 1
            if self._handle_settings():
                return sent
            threading.Event().wait(period_s)
        raise DeadlockError("no ready came")

    def _handle_settings(self) -> bool:
        try:
            parts = self._sub.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return False
        answer = json.loads(parts[0])
        if len(answer) > 1:
            return False
        done: bool = answer["ready"]
        return done

    def render(self, number: int, move: bool = True, topic: str = "Pose") -> None:
        """Ask for a frame."""
        if move:
            self.vehicles[0]["position"] = [0.01 * (number % 100), 1.0, 0.0]
        self.send(topic, self.pose(number))

    def frame(self, number: int, **how: Any) -> list[Any]:
        """One exchange in lock-step: the pictures of the pose just sent, which is sent again if it was dropped."""
        self.render(number, **how)
        try:
            got, pictures = self.handle_output(1.0)
        except DeadlockError:
            self.dropped += 1
            self.render(number, **how)
            got, pictures = self.handle_output()
        assert got == number, "a stale frame"
        return pictures

    def handle_output(self, limit_s: float = LIMIT_S) -> tuple[int, list[Any]]:
        """The next frame: its number and pictures (top row first), as the original unpacks it."""
        if not self._sub.poll(round(1000 * limit_s)):
            raise DeadlockError("no frame came")
        parts = self._sub.recv_multipart()
        if parts[0] == b"CollisionState":
            state = json.loads(parts[1])
            self.collision_state = {key: state[key] for key in ("get_msg", "if_collision", "new_point")}
            return self.handle_output(limit_s)
        header = json.loads(parts[0])
        number = header["ntime" if self.dialect == "agile_autonomy" else "frame_id"]
        self.states = header["pub_vehicles"]
        for index in range(len(self.vehicles)):
            assert isinstance(self.states[index]["collision"], bool)
            assert all(isinstance(r, int | float) for r in self.states[index]["lidar_ranges"])
        assert len(self.states) == len(self.vehicles)
        at = 1
        if self.dialect == "avoidbench":
            assert isinstance(header["scene_change_feedback"], bool)
            state = json.loads(parts[1])
            self.point_cloud_state = {key: state[key] for key in ("get_pc_msg", "save_pc_success")}
            at = 2
        pictures, at = self._pictures(parts, at)
        assert at == len(parts), "parts that nobody reads"
        return number, pictures

    def _pictures(self, parts: Sequence[bytes], at: int) -> tuple[list[Any], int]:
        pictures = []
        for carrier in self.vehicles:
            for cam in carrier["cameras"]:
                on = cam.get("enabledLayers", [i < len(cam.get("post_processing", ())) for i in range(3)])
                for layer in range(4):
                    if layer == 0 or on[layer - 1]:
                        pictures.append(_copied(parts[at], cam, layer == 1))
                        at += 1
            for cam in carrier.get("eventcameras", ()):
                events = json.loads(parts[at + 1])["events"]
                assert all(isinstance(e[k], int) for e in events for k in ("coord_x", "coord_y", "polarity"))
                assert all(isinstance(e["time"], int | float) for e in events)
                clock = json.loads(parts[at + 2])
                assert isinstance(clock["current_time"], int) and isinstance(clock["next_timestep"], int)
                assert isinstance(clock["rgb_frame"], bool)
                pictures += [_copied(parts[at], cam, False), events]
                at += 3
        return pictures, at


def _bound(socket: Any, port: int) -> int:
    socket.bind(f"tcp://127.0.0.1:{port or '*'}")
    return int(socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0").rpartition(":")[2])


def _copied(part: bytes, cam: dict[str, Any], is_depth: bool) -> Any:
    """The original copies as many bytes as it computes, without a look at how many there are."""
    shape = (cam["height"], cam["width"]) if is_depth else (cam["height"], cam["width"], 3)
    pixels = np.frombuffer(part, "<f4" if is_depth else np.uint8)
    assert pixels.size == np.prod(shape), "copied beyond the end, or not all"
    return np.flipud(pixels.reshape(shape))


# --- Unity's state machine --------------------------------------------------------------------------


@dataclass(slots=True)
class Unity:
    """What the stand-in of the Unity program does, and what happened to it.

    Attributes:
        timeout_s: silence after which it reloads (5 s in the original). reload_s: how long that takes.
        lost_readies: ready messages that get lost. lost: whether the pose of a number gets lost.
        steps: set-up steps, each of which costs one settings message.
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
        thread.join(5.0)
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


def _check_settings(message: dict[str, Any], dialect: str) -> None:
    assert isinstance(message["scene_id"], int) and message["vehicles"]
    if dialect == "2022":
        assert isinstance(message["static_objects"], list) and isinstance(message["dynamic_objects"], list)
        assert len(message["render_offset"]) == 3 and isinstance(message["object_csv"], str)
    else:
        assert isinstance(message["objects"], list)
    for carrier in message["vehicles"]:
        assert [len(carrier[k]) for k in ("position", "rotation", "size")] == [3, 4, 3]
        assert isinstance(carrier["lidars"], list) and isinstance(carrier["hasCollisionCheck"], bool)
        for cam in carrier["cameras"]:
            assert len(cam["T_BC"]) == 16 and cam["channels"] == 3 and 0 < cam["fov"] < 180
            if dialect == "agile_autonomy":
                assert isinstance(cam["post_processing"], list)
            else:
                assert len(cam["nearClipPlane"]) == len(cam["farClipPlane"]) == 4 and len(cam["enabledLayers"]) == 3
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
    return [{"collision": carrier["hasCollisionCheck"], "lidar_ranges": []} for carrier in settings["vehicles"]]


def _world(carrier: dict[str, Any], cam: dict[str, Any]) -> Any:
    """TRS(position, rotation, 1) T_BC, Unity's world from the camera (x right, y up, z forward), (4, 4)."""
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
