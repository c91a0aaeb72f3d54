"""`vil-bridge bench dashboard`: what ten pages that watch everything cost the pipeline.

Phases with and without the pages alternate in one run of one bridge: an emulated lab with a drone,
its IMU and a human, a stand-in renderer, and an onboard client. The frame ledger holds the
latencies, so that the measurement itself costs nothing while it runs. The camera has 30 Hz: all of
them and the pages have to find room on one computer, otherwise the latencies measure the scheduler
only.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from vil_benchmarks import peers
from vil_benchmarks.dashboard_clients import CLIENTS, pages
from vil_benchmarks.report import Row, percentile_row, ratio_row
from vil_bridge.core.clock import NS_PER_MS, now_ns
from vil_bridge.monitoring.frame_records import STAGES, FrameRow, stage_ns
from vil_bridge.monitoring.snapshot import BridgeSnapshot
from vil_bridge.web.client import BridgeApi
from vil_simulation.demo.child_processes import ProcessGroup, child, free_ports

_CAMERA: Final = "front"
_SIZE_PX: Final = (640, 480)
_REPETITIONS: Final = 8
_PHASE_S: Final = 3.0
_SETTLE_S: Final = 1.0
_WARM_UP_S: Final = 4.0
_PATIENCE_S: Final = 120.0
_CONFIG: Final = """
version: 1
rooms:
  flight: {{}}
  actor: {{T_world_room: {{p_m: [4, 0, 0], ypr_deg: [120, 0, 0]}}}}
sources:
  motive_flight: {{type: optitrack, room: flight, server: 127.0.0.1, command_port: {flight}}}
  motive_actor: {{type: optitrack, room: actor, server: 127.0.0.1, command_port: {actor}}}
  imu: {{type: mavlink-imu, device: "{imu}", baud: 921600}}
actors:
  drone: {{kind: vehicle, source: motive_flight, subject: drone, imu: imu}}
  human: {{kind: human, source: motive_actor, subject: Actor}}
renderers: {{unity: {{type: flightgoggles, pose_port: {pose}, image_port: {image}}}}}
cameras: {{front: {{actor: drone, renderer: unity, rate_hz: 30}}}}
stream: {{bind: "tcp://127.0.0.1:{stream}"}}
http: {{port: {http}}}
"""


@dataclass(slots=True)
class _Phases:
    """Measurements with the pages, or without them.

    Attributes:
        spans_ns: from when to when. drops: pictures dropped, by edge. cpu_ms: of the bridge, per
            second.
    """

    spans_ns: list[tuple[int, int]] = field(default_factory=list)
    drops: Counter[str] = field(default_factory=Counter)
    cpu_ms: list[float] = field(default_factory=list)
    received: Counter[str] = field(default_factory=Counter)


def bench_dashboard() -> list[Row]:
    """Run it; about 2 minutes."""
    udp = free_ports(4, socket.SOCK_DGRAM)
    pose, image, stream, http = free_ports(4, socket.SOCK_STREAM)
    with tempfile.TemporaryDirectory() as folder, ProcessGroup(Path(folder)) as processes:
        path = Path(folder) / "bench.yaml"
        imu = Path(folder) / "imu"
        path.write_text(
            _CONFIG.format(
                flight=udp[0],
                actor=udp[2],
                imu=imu,
                pose=pose,
                image=image,
                stream=stream,
                http=http,
            )
        )
        rooms = ("--flight-ports", f"{udp[0]},{udp[1]}", "--actor-ports", f"{udp[2]},{udp[3]}")
        processes.start("lab", "lab", *rooms, "--imu", str(imu), "--epoch-ns", str(now_ns()))
        url = f"http://127.0.0.1:{http}/"
        with (
            child(peers.bridge, path) as bridge,
            child(peers.standin_renderer, pose, image, _SIZE_PX, 0.0),
            child(_onboard, f"tcp://127.0.0.1:{stream}"),
            child(pages, url, _CAMERA) as clients,
        ):
            bridge.recv()
            return _measured(BridgeApi(url, timeout_s=_PATIENCE_S), bridge, clients)


def _onboard(conn: Connection, endpoint: str) -> None:
    """Read the default stream, as the vehicle's computer does."""
    from vil_bridge.client import Receiver

    with Receiver(endpoint, _CAMERA) as receiver:
        while not conn.poll():
            receiver.next(timeout=0.05)


def _measured(api: BridgeApi, bridge: Connection, clients: Connection) -> list[Row]:
    """Alternate phases with and without the pages, and return the rows."""
    end_s = time.monotonic() + _PATIENCE_S
    while (
        not api.get_latency_by_name(_CAMERA)["send_to_received"].since_start.count
        and time.monotonic() < end_s
    ):
        time.sleep(0.1)
    time.sleep(_WARM_UP_S)
    alone = _Phases()
    watched = _Phases()
    for _ in range(_REPETITIONS):
        for order, phases in (("off", alone), ("on", watched)):
            clients.send(order)
            clients.recv()
            time.sleep(_SETTLE_S)
            _phase(api, bridge, phases)
            clients.send("count")
            phases.received.update(clients.recv())
    return _rows(api.get_ledger(_CAMERA).rows, alone, watched)


def _phase(api: BridgeApi, bridge: Connection, phases: _Phases) -> None:
    """Add the drops and the CPU time of one phase."""
    before = api.get_status()
    cpu_before = _cpu_ms(bridge)
    begin_ns = now_ns()
    time.sleep(_PHASE_S)
    phases.spans_ns.append((begin_ns, now_ns()))
    phases.cpu_ms.append((_cpu_ms(bridge) - cpu_before) / _PHASE_S)
    after = _drops(api.get_status())
    drops = _drops(before)
    phases.drops.update({edge: after[edge] - drops[edge] for edge in after})


def _drops(now: BridgeSnapshot) -> Mapping[str, int]:
    """Return the pictures dropped so far, by edge."""
    camera = now.cameras[_CAMERA]
    stream = now.streams[_CAMERA]
    return {"render": sum(camera.dropped.values()), "stream": sum(stream.dropped.values())}


def _cpu_ms(bridge: Connection) -> float:
    bridge.send("cpu")
    cpu_ns: dict[str, int] = bridge.recv()
    return sum(cpu_ns.values()) / NS_PER_MS


def _rows(frames: list[FrameRow], alone: _Phases, watched: _Phases) -> list[Row]:
    rows = []
    for stage in STAGES:
        ours, reference = (_latencies_ms(frames, stage, phases) for phases in (watched, alone))
        rows.append(ratio_row(f"p50_ratio_{stage}", ours, reference))
        rows.append(percentile_row(f"p50_ms_alone_{stage}", reference, 50, "ms"))
    for edge in ("render", "stream"):
        rows.append(
            Row(f"drops_{edge}_with_pages", watched.drops[edge], "1", len(watched.spans_ns))
        )
        rows.append(Row(f"drops_{edge}_alone", alone.drops[edge], "1", len(alone.spans_ns)))
    seconds = len(watched.spans_ns) * (_PHASE_S + _SETTLE_S) * (CLIENTS - 1)
    rows += [
        Row(
            f"{kind}_per_page_and_s",
            watched.received[kind] / seconds,
            "1/s",
            watched.received[kind],
        )
        for kind in ("poses", "previews", "plots", "updates")
    ]
    rows.append(percentile_row("bridge_cpu_ms_per_s_with_pages", watched.cpu_ms, 50, "ms/s"))
    rows.append(percentile_row("bridge_cpu_ms_per_s_alone", alone.cpu_ms, 50, "ms/s"))
    return rows


def _is_inside(frame: FrameRow, phases: _Phases) -> bool:
    request_ns = frame.stamps.request or 0
    return any(begin <= request_ns < end for begin, end in phases.spans_ns)


def _latencies_ms(frames: list[FrameRow], stage: str, phases: _Phases) -> list[float]:
    inside = (f for f in frames if _is_inside(f, phases))
    return [value / NS_PER_MS for f in inside if (value := stage_ns(f, stage)) is not None]
