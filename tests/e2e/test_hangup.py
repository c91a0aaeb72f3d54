"""SIGHUP: the configuration is read again.

But a bridge ends with the terminal that it was started in.
"""

from __future__ import annotations

import os
import pty
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs import VIL_BRIDGE, Program

pytestmark = pytest.mark.process


PATIENCE_S = 180.0
CONFIG = """
version: 1
rooms: {lab: {}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0}
realtime: {fifo_priority: 0}
"""


@contextmanager
def in_a_terminal(folder: Path, *prefix: str) -> Iterator[tuple[Program, int]]:
    """A bridge that runs in a terminal: its process and the terminal's other end."""
    config = folder / "bridge.yaml"
    config.write_text(CONFIG)
    ours, theirs = pty.openpty()
    with Program("setsid", "--ctty", *prefix, *VIL_BRIDGE, "run", config, stdin=theirs) as child:
        os.close(theirs)
        child.await_text("running: stream")
        yield child, ours


def test_a_bridge_ends_with_its_terminal(tmp_path: Path) -> None:
    with in_a_terminal(tmp_path) as (child, terminal):
        child.send_signal(signal.SIGHUP)
        child.await_text("configuration read again")
        os.close(terminal)
        assert child.wait(PATIENCE_S) == 0, child.text()
        assert child.said(r"stopped: \{\}")


def test_nohup_lets_it_live_on(tmp_path: Path) -> None:
    with in_a_terminal(tmp_path, "nohup") as (child, terminal):
        os.close(terminal)
        child.send_signal(signal.SIGHUP)
        child.await_text("configuration read again")
        assert child.poll() is None
