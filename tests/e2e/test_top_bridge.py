"""top watches a running bridge's status page, and ends when the bridge does."""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from rich.console import Console

from tests.support.programs import VIL_BRIDGE, Program
from tests.support.sample_snapshot import sample_snapshot
from tests.support.web_server import web_server
from vil_bridge.cli.main import main
from vil_bridge.cli.top import rows_of, table_of
from vil_bridge.config.simulation import SimulationConfig
from vil_bridge.daemon.simulation_clock import SimulationClock
from vil_bridge.monitoring.snapshot import BridgeSnapshot, SimulationView
from vil_bridge.runtime.exit_codes import Exit
from vil_bridge.services.geofence.view import WarningView
from vil_bridge.web.app import create_app
from vil_bridge.web.server import HttpServer
from vil_bridge.world.world import World
from vil_simulation.demo.child_processes import free_ports

pytestmark = pytest.mark.wire


def serving(snapshot: BridgeSnapshot) -> AbstractContextManager[HttpServer]:
    """A status page that always tells the same."""
    app = create_app(
        lambda: snapshot,
        CollectorRegistry(),
        preview=lambda _camera: None,
        light=World({}, []),
        clock=SimulationClock(SimulationConfig()),
    )
    return web_server(app)


@pytest.fixture
def bridge() -> Iterator[HttpServer]:
    """The status page of a bridge in full flight."""
    with serving(sample_snapshot()) as server:
        yield server


def status_of(bridge: HttpServer) -> dict[str, Any]:
    with urllib.request.urlopen(f"{bridge.url}api/v1/status", timeout=60.0) as answer:
        status: dict[str, Any] = json.load(answer)
    return status


def top(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["vil-bridge", "top", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_one_sample_as_lines_and_as_json(
    bridge: HttpServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert top(monkeypatch, bridge.url, "--once") == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    shown = sample_snapshot()
    assert lines[0].startswith(f"{shown.name}, up {shown.uptime_s:.0f} s, ")
    for kind, names in (
        ("source", shown.sources),
        ("actor", shown.actors),
        ("camera", shown.cameras),
    ):
        for name in names:
            assert any(line.split()[:2] == [kind, name] for line in lines), (kind, name)
    assert top(monkeypatch, bridge.url, "--once", "--json") == Exit.OK
    told = json.loads(capsys.readouterr().out)
    rows = {(row["kind"], row["name"]): row for row in told["rows"]}
    for name, source in shown.sources.items():
        row = rows["source", name]
        assert (row["state"], row["rate_hz"]) == (str(source.report.state), source.rate_hz)
        assert row["age_ms"] == (
            None if source.age_s is None else pytest.approx(1e3 * source.age_s)
        )
    for name, camera in shown.cameras.items():
        whole = camera.latency.get("capture_to_received")
        assert rows["camera", name]["p50_ms"] == (None if whole is None else whole.last_10_s.p50_ms)
        assert rows["camera", name]["lost"] == sum(camera.dropped.values())


def test_what_is_wrong_is_in_the_rows() -> None:
    shown = sample_snapshot()
    name, actor = next(iter(shown.actors.items()))
    warning = WarningView(
        "collision", ("drone", "person"), ("flight", "actor"), 0.2, 0.1, "they come within 0.20 m"
    )
    wrong = replace(actor, problem="config wants 'cf1'; stream has 'CF1'")
    parts: dict[str, Any] = {"actors": {name: wrong}, "warnings": (warning,)}
    with serving(replace(shown, **parts)) as bridge:
        rows = {(row["kind"], row["name"]): row for row in rows_of(status_of(bridge))}
    assert rows["actor", name]["note"] == wrong.problem
    row = rows["warning", "drone and person"]
    assert (row["state"], row["note"]) == ("collision", "they come within 0.20 m")


@pytest.mark.parametrize(
    ("paused", "said"),
    [(True, "; simulated time is paused"), (False, "; simulated time at 0.25 of 1 s per second")],
)
def test_simulated_time_is_said(
    paused: bool, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = sample_snapshot()
    with serving(
        replace(shown, simulation=SimulationView("simulated", paused, 1.0, 0.25, shown.t_ns))
    ) as bridge:
        assert top(monkeypatch, bridge.url, "--once") == Exit.OK
    assert capsys.readouterr().out.splitlines()[0].endswith(said)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("127.0.0.1:PORT", "no bridge answers at http://127.0.0.1:PORT"),
        (
            "any.yaml",
            "any.yaml leaves the choice of the port to the system: give the address that "
            "`run` printed",
        ),
    ],
)
def test_other_ways_to_name_the_bridge(
    word: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("any.yaml").write_text("version: 1\nhttp: {port: 0}\n")
    (port,) = free_ports(1, socket.SOCK_STREAM)
    assert top(monkeypatch, word.replace("PORT", str(port)), "--once") != Exit.OK
    assert said.replace("PORT", str(port)) in capsys.readouterr().err


def test_the_table_shows_every_row(bridge: HttpServer) -> None:
    status = status_of(bridge)
    page = io.StringIO()
    Console(file=page, width=200).print(table_of(status))
    for row in rows_of(status):
        assert any(
            line.split()[:2] == [row["kind"], row["name"]] for line in page.getvalue().splitlines()
        ), row


def test_the_address_comes_from_a_configuration(
    bridge: HttpServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(f"version: 1\nhttp: {{port: {bridge.url.rstrip('/').rpartition(':')[2]}}}\n")
    assert top(monkeypatch, str(path), "--once") == Exit.OK
    assert capsys.readouterr().out.startswith(sample_snapshot().name)


@pytest.mark.process
def test_it_ends_when_the_bridge_ends(bridge: HttpServer) -> None:
    with Program(*VIL_BRIDGE, "top", bridge.url, "--json", split=True) as child:
        child.await_text(r"(.+\n){3}")
        bridge.stop()
        assert child.wait(60.0) == Exit.OK
        assert all(json.loads(line)["rows"] for line in child.text().splitlines()[:3])
        assert child.error_text() == f"the bridge at {bridge.url.rstrip('/')} has ended\n"


def test_nobody_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1, socket.SOCK_STREAM)
    assert top(monkeypatch, f"http://127.0.0.1:{port}") == Exit.CHECK_FAILED
    assert f"no bridge answers at http://127.0.0.1:{port}" in capsys.readouterr().err


def test_something_else_is_no_bridge(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-hello\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert (
            top(monkeypatch, f"http://127.0.0.1:{server.getsockname()[1]}", "--once")
            == Exit.CHECK_FAILED
        )
        thread.join(60.0)
    assert "no bridge answers" in capsys.readouterr().err
