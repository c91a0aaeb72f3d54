"""flightlib's client of Flightmare, as strict as the original.

Written after docs/guides/flightmare.md alone; nothing of ours takes part in reading or writing.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import zmq

HWM: Final = 6
LIMIT_S: Final = 10.0
DIALECTS: Final = ("master", "2022", "event_camera", "agile_autonomy", "avoidbench")
YAWED: Final = [0, 0, 1, 0.1, 0, 1, 0, 0.3, -1, 0, 0, 0.2, 0, 0, 0, 1]
UNTURNED: Final = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
_ALWAYS_ANSWERED: Final = 0


def camera(
    name: str, dialect: str, width: int, height: int, layers: Sequence[bool], index: int
) -> dict[str, Any]:
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
        parameters = {
            "Cm": 0.1,
            "Cp": 0.1,
            "sigma_Cp": 0.0,
            "sigma_Cm": 0.0,
            "refractory_period_ns": 0,
        }
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
        dropped: poses that its own socket lost, as one with this high-water mark does on a busy
            computer.
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
        self.gate: dict[str, Any] = {
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
            {"render_offset": [0.0, 0.0, 0.0], "object_csv": "/dev/null"}
            if self.dialect == "2022"
            else {}
        )

    def pose(self, number: int) -> dict[str, Any]:
        """The pose message of the dialect."""
        key = "ntime" if self.dialect == "agile_autonomy" else "frame_id"
        return {key: number, **self._scene()} | (
            {"spawn_new_obj": True} if self.dialect == "avoidbench" else {}
        )

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
        """One exchange in lock-step.

        The pictures of the pose just sent, which is sent again if it was dropped.
        """
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
            self.collision_state = {
                key: state[key] for key in ("get_msg", "if_collision", "new_point")
            }
            return self.handle_output(limit_s)
        header = json.loads(parts[0])
        if "ready" in header:  # the answer to settings that were sent before the first ready came
            return self.handle_output(limit_s)
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
                on = cam.get(
                    "enabledLayers", [i < len(cam.get("post_processing", ())) for i in range(3)]
                )
                for layer in range(4):
                    if layer == 0 or on[layer - 1]:
                        pictures.append(_copied(parts[at], cam, layer == 1))
                        at += 1
            for cam in carrier.get("eventcameras", ()):
                events = json.loads(parts[at + 1])["events"]
                assert all(
                    isinstance(e[k], int)
                    for e in events
                    for k in ("coord_x", "coord_y", "polarity")
                )
                assert all(isinstance(e["time"], int | float) for e in events)
                clock = json.loads(parts[at + 2])
                assert isinstance(clock["current_time"], int) and isinstance(
                    clock["next_timestep"], int
                )
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
