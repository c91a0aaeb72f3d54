"""No socket uses ZeroMQ's own heartbeats: libzmq aborts the process by them (its issue 4364)."""

from __future__ import annotations

import re

from tests.support.common import ROOT

_OPTION = re.compile(r"heartbeat_(ivl|ttl|timeout)", re.IGNORECASE)
_SOURCES = {".py", ".c", ".cc", ".cpp", ".h", ".hpp"}
_FOLDERS = ("vil_bridge", "adapters", "renderer", "examples", "deploy", "scripts")


def test_no_source_sets_zeromq_heartbeats() -> None:
    sources = [
        path
        for folder in _FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in _SOURCES
    ]
    assert ROOT / "vil_bridge/protocols/federation/zmq_link.py" in sources
    assert [str(path) for path in sources if _OPTION.search(path.read_text())] == []
