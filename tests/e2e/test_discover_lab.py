"""discover finds an emulated lab, and what it prints passes check."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.programs import VIL_BRIDGE, Program, run
from vil_bridge.cli.main import main
from vil_bridge.runtime.exit_codes import Exit
from vil_simulation.demo.child_processes import free_ports


class Lab(NamedTuple):
    motive: int
    person: int
    vrpn: int


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A drone's Motive, a person's Motive and a VRPN server."""
    udp, (vrpn,) = free_ports(4, socket.SOCK_DGRAM), free_ports(1, socket.SOCK_STREAM)
    words = (
        "--motive",
        f"{udp[0]},{udp[1]}",
        "--motive",
        f"actor@{udp[2]},{udp[3]}",
        "--vrpn",
        vrpn,
    )
    with Program(*VIL_BRIDGE, "lab", *words, "--imu", tmp_path / "imu") as child:
        child.await_text("^running")
        yield Lab(udp[0], udp[2], vrpn)


def vil_bridge(*words: str) -> subprocess.CompletedProcess[str]:
    return run(*VIL_BRIDGE, *words, env={"COLUMNS": "200"})


@pytest.mark.process
@pytest.mark.long
def test_what_discover_prints_passes_check(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [f"127.0.0.1:{port}" for port in lab]
    found = vil_bridge("discover", *places, "--timeout", "6")
    assert found.returncode == Exit.OK, found.stderr
    path = tmp_path / "lab.yaml"
    path.write_text(found.stdout)
    monkeypatch.setattr(sys, "argv", ["vil-bridge", "check", str(path)])
    with pytest.raises(SystemExit) as end:
        main()
    checked = capsys.readouterr()
    assert end.value.code in (None, Exit.OK), checked.err
    assert "sources: optitrack (optitrack), optitrack-2 (optitrack), vrpn (vrpn)" in checked.out
    assert "drone (vehicle)" in checked.out and "actor (human)" in checked.out
    rates = [
        line
        for line in found.stdout.splitlines()
        if line.startswith("#   ") and line.endswith(" Hz")
    ]
    assert {tuple(line.split()[1:3]) for line in rates} >= {
        ("body", "drone"),
        ("skeleton", "Actor"),
    }


@pytest.mark.process
def test_nobody_there_is_said_with_what_was_tried() -> None:
    (port,) = free_ports(1, socket.SOCK_DGRAM)
    done = vil_bridge("discover", f"127.0.0.1:{port}", "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (Exit.CHECK_FAILED, "")
    assert "no mocap server answered within 0.5 s" in done.stderr
    assert (
        "optitrack" in done.stderr
        and "vrpn" in done.stderr
        and f"asked: 127.0.0.1:{port}" in done.stderr
    )
    assert "from:  127.0.0.1 (lo)" in done.stderr
    assert "next:" in done.stderr
    assert f"127.0.0.1:{port}: refused: that computer is up" in done.stderr


@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("127.0.0.1:lab", Exit.CONFIG, "'127.0.0.1:lab': write HOST or HOST:PORT"),
        ("127.0.0.1:99999", Exit.CONFIG, "'127.0.0.1:99999': write HOST or HOST:PORT"),
        (":1510", Exit.CONFIG, "':1510': write HOST or HOST:PORT"),
        (
            "no-such-host.invalid",
            Exit.CHECK_FAILED,
            "left out: no-such-host.invalid: its name is unknown",
        ),
    ],
)
def test_a_computer_that_cannot_be_asked(
    word: str,
    code: Exit,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["vil-bridge", "discover", word])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert said in capsys.readouterr().err
