"""A bridge with tokens, as a process of its own: who may come in, and what goes out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support import ROOT, wait_until
from vil_bridge.dashboard.tokens import Role, read_token
from vil_bridge.keys import new_tokens

CONFIG: Final = """
version: 1
name: guarded
rooms: {hall: {}}
sources: {flock: {type: simulated, room: hall, vehicles: {drone: {model: flightgoggles}}}}
actors: {drone: {kind: vehicle, source: flock, subject: drone}}
renderers: {absent: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: drone, renderer: absent, width_px: 64, height_px: 48}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0, token_file: %s}
record: {folder: %s}
simulation: {clock: simulated}
realtime: {fifo_priority: 0}
"""
_READY: Final = re.compile(r"status page (https?://\S+)/")
_PREFIX: Final = ("setpriv", "--pdeathsig", "KILL")  # nobody outlives a test run that is killed


@dataclass
class Guarded:
    """A running bridge.

    Attributes:
        url: of its status page, without a slash at the end.
        tokens: by role.
        config, token_file, log: its files.
    """

    url: str
    tokens: Mapping[Role, str]
    config: Path
    token_file: Path
    log: Path

    def headers(self, role: Role) -> dict[str, str]:
        """What who has a role sends."""
        return {"Authorization": f"Bearer {self.tokens[role]}"}


@contextmanager
def guarded_bridge(folder: Path, *arguments: str) -> Iterator[Guarded]:
    """A bridge with tokens, until the block is left; further arguments are those of ``vil-bridge run``."""
    config, token_file, log = folder / "bridge.yaml", folder / "bridge.tokens", folder / "bridge.log"
    new_tokens(token_file)
    config.write_text(CONFIG % (token_file, folder / "recordings"))
    command = [*_PREFIX, sys.executable, "-m", "vil_bridge", "run", str(config), *arguments]
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT, env=_environment()
        )
    try:
        wait_until(lambda: _READY.search(log.read_text()) or child.poll() is not None, 60.0, log.read_text)
        ready = _READY.search(log.read_text())
        assert ready, log.read_text()
        tokens = {role: read_token(token_file, role) for role in (Role.CONTROL, Role.VIEW, Role.METRICS)}
        yield Guarded(ready[1], tokens, config, token_file, log)
    finally:
        child.terminate()
        try:
            child.wait(60.0)
        finally:
            child.kill()
            child.wait()
    assert child.returncode == 0, log.read_text()


def _environment() -> dict[str, str]:
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
