"""SIGHUP: the configuration is read again; but a bridge ends with the terminal that it was started in."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import wait_until

PATIENCE_S = 60.0
CONFIG = """
version: 1
rooms: {lab: {}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


@contextmanager
def in_a_terminal(folder: Path, *prefix: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A bridge that runs in a terminal: its process, the terminal's other end, its log."""
    config, log = folder / "bridge.yaml", folder / "bridge.log"
    config.write_text(CONFIG)
    command = ["setsid", "--ctty", *prefix, sys.executable, "-m", "vil_bridge", "run", str(config)]
    ours, theirs = pty.openpty()
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdin=theirs, stdout=out, stderr=out)
    os.close(theirs)
    try:
        wait_until(lambda: "running: stream" in log.read_text(), PATIENCE_S, log.read_text)
        yield child, ours, log
    finally:
        child.terminate()
        child.wait(PATIENCE_S)


def test_a_bridge_ends_with_its_terminal(tmp_path: Path) -> None:
    with in_a_terminal(tmp_path) as (child, terminal, log):
        child.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration read again" in log.read_text(), PATIENCE_S, log.read_text)
        os.close(terminal)
        assert child.wait(PATIENCE_S) == 0, log.read_text()
        assert "stopped: {}" in log.read_text()


def test_nohup_lets_it_live_on(tmp_path: Path) -> None:
    with in_a_terminal(tmp_path, "nohup") as (child, terminal, log):
        os.close(terminal)
        child.send_signal(signal.SIGHUP)
        wait_until(lambda: "configuration read again" in log.read_text(), PATIENCE_S, log.read_text)
        assert child.poll() is None
