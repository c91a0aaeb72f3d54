"""Answers of a bridge to a flight, and what `plan --send` makes of them."""

from __future__ import annotations

import socketserver
import threading
from http.server import BaseHTTPRequestHandler

import msgspec
import numpy as np
import pytest
import typer

from vil_bridge.runtime.exit_codes import Exit
from vil_simulation.cli.plan_bridge import bridge_flight, give
from vil_simulation.planning.smoothing import PlannedFlight
from vil_simulation.vehicles.trajectories.waypoints import minimum_snap

pytestmark = pytest.mark.wire


class Peer(BaseHTTPRequestHandler):
    state = ""

    def do_PUT(self) -> None:
        flight = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {
            "state": self.state,
            "reason": "low battery",
            "begins_t_ns": 1,
            "duration_s": 1.0,
            "flown_s": 0.0,
        }
        body = msgspec.json.encode(answer | {"rows": flight["rows"]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Quiet."""


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("flying", "drone flies it"),
        ("offered", "drone is a real vehicle: its pilot decides"),
        ("failed", "drone does not fly it: failed, low battery"),
        ("cancelled", "drone does not fly it: cancelled, low battery"),
    ],
)
def test_every_answer_to_a_flight_is_said(
    state: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 1.0]])
    flight = PlannedFlight(ends, ends, minimum_snap(ends), smooth=True)
    handler = type("Answering", (Peer,), {"state": state})
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        server.timeout = 10.0
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        bridge = bridge_flight(f"http://127.0.0.1:{server.server_address[1]}/drone", None)
        try:
            give(bridge, flight, 0.0)
            assert state in ("flying", "offered")
        except typer.Exit as exc:
            assert state in ("failed", "cancelled")
            assert exc.exit_code == Exit.CHECK_FAILED
        thread.join(10.0)
    assert capsys.readouterr().out.strip() == text
