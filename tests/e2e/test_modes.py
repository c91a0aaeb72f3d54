"""REPLAY, FAULTS, REC, PAUSED: the words that say that a bridge is not simply flying."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.bridge_rig import build, drawn_bridge
from tests.support.common import PATIENCE_S
from tests.support.dashboard_rig import CONFIG, draw
from tests.support.record import frame_at, record
from vil_bridge.core.clock import NS_PER_S
from vil_bridge.web.client import BridgeApi

pytestmark = pytest.mark.wire


_MOTION = """
version: 1
rooms: {{room: {{}}}}
sources: {{take: {{type: motion-file, room: room, path: {path}}}}}
actors: {{someone: {{kind: {kind}, source: take, subject: body}}}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
"""
_SIMULATED = """
version: 1
simulation: {{clock: simulated, paused: {paused}}}
stream: {{bind: "tcp://127.0.0.1:0"}}
http: {{port: 0}}
"""


async def test_each_word_comes_and_goes_with_its_cause(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    record(folder / "flight.mcap", [frame_at(i, i * NS_PER_S // 10) for i in range(100)])
    async with drawn_bridge(CONFIG % folder, draw) as bridge:
        await asyncio.to_thread(_change_modes, BridgeApi(bridge.http.url, timeout_s=PATIENCE_S))


def _change_modes(api: BridgeApi) -> None:
    assert api.get_status().modes == ()
    api.put_faults("mocap", "loss=5%")
    assert api.get_status().modes == ("FAULTS",)
    api.start_recording("now")
    assert api.get_status().modes == ("FAULTS", "REC")
    api.start_replay("flight", loop=True)
    assert api.get_status().modes == ("REPLAY", "FAULTS", "REC")
    api.put_faults("mocap", "")
    api.stop_recording()
    assert api.get_status().modes == ("REPLAY",)
    api.stop_replay()
    assert api.get_status().modes == ()


def test_recorded_motion_is_a_replay_only_where_it_moves_a_vehicle(tmp_path: Path) -> None:
    motion = tmp_path / "walk.txt"
    motion.write_text("".join(f"{0.01 * i:.2f} 0 0 1 0 0 0 1\n" for i in range(10)))
    assert _modes(_MOTION.format(path=motion, kind="vehicle")) == ("REPLAY",)
    assert _modes(_MOTION.format(path=motion, kind="prop")) == ()


def test_paused_is_a_simulated_time_that_stands_still() -> None:
    assert _modes(_SIMULATED.format(paused="true")) == ("PAUSED",)
    assert _modes(_SIMULATED.format(paused="false")) == ()


def _modes(config: str) -> tuple[str, ...]:
    bridge = build(config)
    try:
        return bridge.reporter.modes()
    finally:
        bridge.http.stop()
