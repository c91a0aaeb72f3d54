"""Beginning of the demo: its options, its ports, and the renderer, which takes longest to load.

The renderer starts before the demo imports what it needs itself, so this module imports little.
"""

from __future__ import annotations

import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from vil_bridge.core.bridge_time import now_ns
from vil_simulation.demo.child_processes import ProcessGroup, free_ports


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the user.

    Attributes:
        seconds: whole length of the demo, evaluation included, where the programs start within 5 s;
            the flight begins when they are ready, however long that takes. 0 = until Ctrl-C.
        out: folder of pictures and logs. json_path: file of the summary.
        recording: folder of a real flight instead of the simulated one.
        http_port: of the status page; 0 = any free one.
        record: file to record everything into, None = nothing is recorded.
    """

    seconds: float
    out: Path
    json_path: Path
    recording: Path | None = None
    http_port: int = 0
    record: Path | None = None


@dataclass(frozen=True, slots=True)
class DemoStart:
    """TCP ports of the demo's programs on loopback, and its end.

    Attributes:
        pose, image: of the renderer. stream: of the onboard client. http: of the status page.
        spawned_ns: bridge time at which the first program was started.
        stop: set by SIGINT and SIGTERM.
    """

    pose: int
    image: int
    stream: int
    http: int
    spawned_ns: int
    stop: threading.Event

    @property
    def url(self) -> str:
        """Address of the status page."""
        return f"http://127.0.0.1:{self.http}/"


def start_renderer(options: DemoOptions, processes: ProcessGroup) -> DemoStart:
    """Find free ports, and start the renderer; SIGINT and SIGTERM end the demo from now on."""
    stop = threading.Event()
    for sig in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sig, lambda *_: stop.set())
    pose, image, stream, http = free_ports(4, socket.SOCK_STREAM)
    begun = DemoStart(pose, image, stream, options.http_port or http, now_ns(), stop)
    processes.start("renderer", "renderer", "--input-port", str(pose), "--output-port", str(image))
    return begun
