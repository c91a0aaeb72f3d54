"""``vil-bridge bench poses``.

What the bridge adds to poses that it serves as a mocap system, for each client of them.

An emulated Motive films 20 bodies at 240 Hz. A client reads the bridge that tracks these bodies,
and its twin, another process of the same program, the lab at the same time: the direct path. A
frame is known by its poses.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import tempfile
import time
import urllib.request
from collections.abc import Collection, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NamedTuple

from vil_benchmarks import peers, poses_peers
from vil_benchmarks.report import Row, percentile_row
from vil_bridge.core.errors import VilBridgeError
from vil_simulation.demo.child_processes import child, free_ports, stop_and_report

_PHASE_S: Final = 10.0
"""As long as the loop's own lag looks back."""
_WARM_UP_S: Final = 1.0
_ARRIVE_S: Final = 0.3
_START_S: Final = 60.0
_LEAST_READ: Final = 0.95

_CONFIG: Final = """
version: 1
rooms: {{hall: {{}}}}
sources: {{motive: {{type: optitrack, room: hall, server: 127.0.0.1, interface: 127.0.0.1,
    command_port: {lab}}}}}
actors: {{cf: {{kind: vehicle, source: motive, subject: cf, count: {bodies}}}}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: {http}}}
realtime: {{fifo_priority: 0}}
outputs: {{poses: {output}}}
"""
_OUTPUTS: Final = {
    "natnet": "{{type: natnet, command_port: {}, data_port: {}, transport: multicast, version: "
    '"3.1", up_axis: y}}',
    "vrpn": "{{type: vrpn, port: {}}}",
}


class PosePorts(NamedTuple):
    """Ports of the lab and of the bridge, each of NatNet (command, data) and of VRPN.

    Attributes:
        lab, bridge: by the protocol's name. http: of the bridge.
    """

    lab: dict[str, tuple[int, ...]]
    bridge: dict[str, tuple[int, ...]]
    http: int

    @classmethod
    def free(cls) -> PosePorts:
        """Return ports that were free a moment ago."""
        udp = free_ports(4, socket.SOCK_DGRAM)
        tcp = free_ports(3, socket.SOCK_STREAM)
        lab, bridge = (
            {"natnet": (udp[2 * i], udp[2 * i + 1]), "vrpn": (tcp[i],)} for i in range(2)
        )
        return cls(lab, bridge, tcp[2])

    def configuration(self, protocol: str) -> str:
        """Return the bridge that tracks the lab's bodies and serves them."""
        output = _OUTPUTS[protocol].format(*self.bridge[protocol])
        lab = self.lab["natnet"][0]
        return _CONFIG.format(lab=lab, http=self.http, bodies=poses_peers.BODIES, output=output)


class PoseClient(NamedTuple):
    """A client of served poses.

    Attributes:
        protocol: that it reads of the bridge. direct: that its twin reads of the lab. program: that
            both run.
        polls: it hands on the newest frame every 10 ms, not each.
    """

    protocol: str
    program: str
    direct: str = "natnet"
    polls: bool = False

    @property
    def name(self) -> str:
        """Return the name in rows."""
        return f"{self.protocol}/{self.program}"

    @property
    def there(self) -> bool:
        """Return whether the program is installed."""
        return self.program == "source" or importlib.util.find_spec(self.program) is not None


CLIENTS: Final = (
    PoseClient("natnet", "source"),
    PoseClient("natnet", "motioncapture"),
    PoseClient("natnet", "natnet"),
    PoseClient("vrpn", "source"),
    PoseClient("vrpn", "motioncapture", "vrpn", polls=True),
)


class PosePhase(NamedTuple):
    """A client's phase.

    Attributes:
        filmed: numbers of the lab's frames. direct, served: when the twin and the client had each
            that was whole, ns.
        loop_lag_ms: of the bridge, its p99; None = not known.
    """

    filmed: Collection[int]
    direct: dict[int, int]
    served: dict[int, int]
    loop_lag_ms: float | None

    def share(self, read: dict[int, int]) -> float:
        """Return the part of the filmed frames that was read; 0 where none was filmed."""
        return (
            sum(number in read for number in self.filmed) / len(self.filmed) if self.filmed else 0.0
        )


def bench_poses(seconds: float = _PHASE_S) -> list[Row]:
    """Measure each client for so long; about 80 s in all."""
    ports = PosePorts.free()
    phases: dict[str, PosePhase] = {}
    with child(poses_peers.lab, *ports.lab["natnet"], *ports.lab["vrpn"]) as lab:
        lab.recv()
        for protocol in _OUTPUTS:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "bench.yaml"
                file.write_text(ports.configuration(protocol), encoding="utf-8")
                with child(peers.bridge, file) as bridge:
                    bridge.recv()
                    for client in CLIENTS:
                        if client.protocol == protocol and client.there:
                            phases[client.name] = _phase(client, ports, lab, seconds)
    return [row for client in CLIENTS for row in pose_rows(client, phases.get(client.name))]


def _phase(client: PoseClient, ports: PosePorts, lab: Connection, seconds: float) -> PosePhase:
    """Let a client read the lab and the bridge at once.

    Raises:
        VilBridgeError: it reads nothing.
    """
    readers = poses_peers.READERS
    with (
        child(readers[client.direct, client.program], False, *ports.lab[client.direct]) as direct,
        child(
            readers[client.protocol, client.program], False, *ports.bridge[client.protocol]
        ) as served,
    ):
        for conn, what in ((direct, "the lab"), (served, "the bridge")):
            if not conn.poll(_START_S):
                raise VilBridgeError(f"{client.name} read no frame of {what} in {_START_S:g} s")
            conn.recv()
        time.sleep(_WARM_UP_S)
        _ask(lab)
        time.sleep(seconds)
        filmed = _ask(lab)
        time.sleep(_ARRIVE_S)
        lag_s = status(ports.http)["loop_lag_s"]
        twins, clients = (dict(stop_and_report(conn)) for conn in (direct, served))
    return PosePhase(frozenset(filmed), twins, clients, None if lag_s is None else 1e3 * lag_s)


def pose_rows(client: PoseClient, phase: PosePhase | None) -> list[Row]:
    """Return a client's rows.

    A frame that the client did not read is late for ever. Rows of time have no value where the
    client or its twin missed more than 5 % of the frames, and none has where the program is not
    installed. A client that polls has none of time: they would show its own pauses.
    """
    whole = (
        phase is not None
        and min(phase.share(phase.direct), phase.share(phase.served)) >= _LEAST_READ
    )
    seen = phase or PosePhase((), {}, {}, None)
    numbers = [n for n in seen.filmed if n in seen.direct] if whole else []
    added_ms = [(seen.served[n] - seen.direct[n]) / 1e6 for n in numbers if n in seen.served]
    lost = len(numbers) - len(added_ms)
    count = len(seen.filmed)
    times = [
        _late_row(f"added_ms_p{percent}/{client.name}", added_ms, lost, percent)
        for percent in (50, 99)
    ]
    times.append(Row(f"loop_lag_ms_p99/{client.name}", seen.loop_lag_ms, "ms", count))
    shares = [
        Row(f"{row}/{client.name}", seen.share(read) if count else None, "share", count)
        for row, read in (("read_share", seen.served), ("read_share_direct", seen.direct))
    ]
    return shares if client.polls else times + shares


def _late_row(name: str, added_ms: Sequence[float], lost: int, percent: int) -> Row:
    """Return a percentile of measurements and of ``lost`` ones behind all of them, which have no
    value.
    """
    if percent / 100 * (len(added_ms) + lost - 1) > len(added_ms) - 1:
        return Row(name, None, "ms", len(added_ms))
    return percentile_row(name, [*added_ms, *[max(added_ms)] * lost], percent, "ms")


def _ask(conn: Connection) -> Any:
    conn.send("read")
    return conn.recv()


def status(port: int) -> dict[str, Any]:
    """Return the status of the bridge at a port of this computer."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/status", timeout=10.0) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
