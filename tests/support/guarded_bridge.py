"""A bridge with tokens, as a process of its own: who may come in, and what goes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.programs import VIL_BRIDGE, Program
from vil_bridge.runtime.access_tokens import Role, read_token
from vil_bridge.setup.keys import new_tokens

CONFIG: Final = """
version: 1
name: guarded
rooms: {hall: {}}
sources: {flock: {type: simulated, room: hall, step_hz: 240, rate_hz: 20,
    vehicles: {drone: {model: flightgoggles}}}}
actors: {drone: {kind: vehicle, source: flock, subject: drone}}
race: {course: slalom, racers: [drone], arcade: true}
renderers: {absent: {type: flightgoggles, pose_port: 0, image_port: 0}}
cameras: {front: {actor: drone, renderer: absent, width_px: 64, height_px: 48}}
stream: {bind: "tcp://127.0.0.1:0"}
http: {port: 0, token_file: %s}
record: {folder: %s}
simulation: {clock: simulated}
realtime: {fifo_priority: 0}
"""


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
def guarded_bridge(folder: Path, *arguments: str, stdout: int | None = None) -> Iterator[Guarded]:
    """A bridge with tokens, until the block is left.

    Args:
        folder: of its files.
        arguments: further ones of ``vil-bridge run``.
        stdout: descriptor of its standard output; None = the log.
    """
    config, token_file, log = (
        folder / "bridge.yaml",
        folder / "bridge.tokens",
        folder / "bridge.log",
    )
    new_tokens(token_file)
    config.write_text(CONFIG % (token_file, folder / "recordings"))
    with Program(*VIL_BRIDGE, "run", config, *arguments, log=log, stdout=stdout) as child:
        ready = child.await_text(r"status page (https?://\S+)/")
        tokens = {
            role: read_token(token_file, role) for role in (Role.CONTROL, Role.VIEW, Role.METRICS)
        }
        yield Guarded(ready[1], tokens, config, token_file, log)
        assert child.end(limit_s=60.0) == 0, child.text()
