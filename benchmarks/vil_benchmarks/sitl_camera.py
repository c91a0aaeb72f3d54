"""A vehicle with a camera that a PX4 peer flies in a whole bridge, which waits for its pictures."""

from __future__ import annotations

import importlib.util
import socket
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from vil_benchmarks import peers
from vil_benchmarks.poses import status
from vil_benchmarks.report import Row
from vil_benchmarks.sitl_peers import px4_peer
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.core.errors import VilBridgeError
from vil_simulation.demo.child_processes import ProcessGroup, child, free_ports, stop_and_report
from vil_simulation.sitl.options import SitlOptions
from vil_simulation.sitl.world import sitl_data

_CAMERA_HZ: Final = 30
_SAMPLES_HZ: Final = 250
_SAMPLE_NS: Final = NS_PER_S // _SAMPLES_HZ
_FASTEST: Final = 100.0
_LIMIT_S: Final = 180.0
_LOOK_S: Final = 0.1
_LEAST: Final = 20
_ROWS: Final = {"rtf_px4_camera_320x240": "ratio", "picture_behind_sample_ms_max": "ms"}
_SKIPPED: Final = ("renderer_busy", "tick_missed", "tracking_lost")


class ReadPicture(NamedTuple):
    """A picture that a client has, ns.

    Attributes:
        t_ns: bridge time that it shows. t_pose_ns: of the newest pose of its vehicle.
            t_received_ns: machine's clock.
    """

    t_ns: int
    t_pose_ns: int
    t_received_ns: int


def camera_rows(seconds: float) -> list[Row]:
    """Measure for so much simulated time; the rows have no value without the extra ``gl``.

    Raises:
        VilBridgeError: the renderer or the bridge does not work, or a picture is missing or not of
            its time.
    """
    if importlib.util.find_spec("moderngl") is None:
        return [Row(name, None, unit, 0) for name, unit in _ROWS.items()]
    pose, image, port, stream, http = free_ports(5, socket.SOCK_STREAM)
    with tempfile.TemporaryDirectory() as folder, ProcessGroup(Path(folder)) as processes:
        processes.start(
            "renderer", "renderer", "--input-port", str(pose), "--output-port", str(image)
        )
        file = Path(folder) / "bench.yaml"
        file.write_text(yaml.safe_dump(_bridge(pose, image, port, stream, http)), encoding="utf-8")
        with (
            child(peers.bridge, file) as bridge,
            child(px4_peer, port),
            child(picture_reader, f"tcp://127.0.0.1:{stream}") as reader,
        ):
            bridge.recv()
            skipped, t_ns = _look(http, processes, 0)
            skipped_later, _ = _look(http, processes, t_ns + round(seconds * NS_PER_S))
            read = [ReadPicture(*picture) for picture in stop_and_report(reader)]
    return picture_rows(
        [picture for picture in read if picture.t_ns >= t_ns], skipped_later - skipped
    )


def picture_rows(read: Sequence[ReadPicture], skipped: int) -> list[Row]:
    """Return the rows of the pictures that a client read; the bridge may draw more than it reads.

    Raises:
        VilBridgeError: the bridge skipped a picture, or shows a vehicle earlier than its sensors'
            newest sample.
    """
    if skipped or len(read) < _LEAST:
        raise VilBridgeError(f"{skipped} pictures were skipped, and {len(read)} were read")
    ages_ns = [picture.t_ns - picture.t_pose_ns for picture in read]
    if not 0 <= min(ages_ns) <= max(ages_ns) < _SAMPLE_NS:
        shown = f"{min(ages_ns) / 1e6:.1f} to {max(ages_ns) / 1e6:.1f} ms"
        raise VilBridgeError(
            f"pictures show poses of {shown} before them: that is not the sensors' newest sample"
        )
    simulated_ns = read[-1].t_ns - read[0].t_ns
    wall_ns = read[-1].t_received_ns - read[0].t_received_ns
    values = simulated_ns / wall_ns, max(ages_ns) / 1e6
    return [
        Row(name, value, unit, len(read))
        for (name, unit), value in zip(_ROWS.items(), values, strict=True)
    ]


def picture_reader(conn: Connection, endpoint: str) -> None:
    """Run the onboard client, raw RGB; report its pictures as tuples of :class:`ReadPicture`."""
    from vil_bridge.client import Receiver

    read: list[tuple[int, int, int]] = []
    with Receiver(endpoint, "front", color="rgb", variant="raw", encoding="raw") as receiver:
        while not conn.poll():
            frame = receiver.next(timeout=0.05)
            if frame is not None:
                read.append((frame.stamps["request"], frame.stamps["capture"], time.monotonic_ns()))
    conn.send(read)


def _look(port: int, processes: ProcessGroup, t_ns: int) -> tuple[int, int]:
    """Return how many pictures were skipped, and bridge time, once it has reached an instant and
    pictures come.

    Raises:
        VilBridgeError: that takes too long, or the renderer has ended.
    """
    end_s = time.monotonic() + _LIMIT_S
    while time.monotonic() < end_s:
        processes.check()
        found = status(port)
        camera = found["cameras"]["front"]
        now_ns = int(found["simulation"]["t_ns"])
        if camera["frames"].get("rgb/raw", 0) >= _CAMERA_HZ and now_ns >= t_ns:
            return sum(camera["dropped"].get(reason, 0) for reason in _SKIPPED), now_ns
        time.sleep(_LOOK_S)
    raise VilBridgeError(
        f"pictures of {t_ns / NS_PER_S:.1f} s of bridge time did not come within {_LIMIT_S:g} s"
    )


def _bridge(pose: int, image: int, port: int, stream: int, http: int) -> dict[str, object]:
    """Return the configuration of ``vil-bridge sitl px4`` with a camera, whose poses come with
    each sample.
    """
    data = sitl_data(SitlOptions("px4", speed=_FASTEST, rate_hz=_SAMPLES_HZ, http_port=http))
    (source,) = data["sources"].values()
    source["rate_hz"] = _SAMPLES_HZ
    source["vehicles"]["px4"]["autopilot"]["port"] = port
    camera = {
        "actor": "px4",
        "renderer": "drawn",
        "width_px": 320,
        "height_px": 240,
        "rate_hz": _CAMERA_HZ,
    }
    return data | {
        "simulation": data["simulation"] | {"wait_for_cameras": True},
        "renderers": {"drawn": {"type": "flightgoggles", "pose_port": pose, "image_port": image}},
        "cameras": {"front": camera | {"latency_compensation": "none"}},
        "stream": {"bind": f"tcp://127.0.0.1:{stream}"},
        "realtime": {"fifo_priority": 0},
    }
