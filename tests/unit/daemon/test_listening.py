"""Listening to configured sources without the rest of the bridge."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.common import PATIENCE_S
from vil_adapters.motions.drone import DroneMotion
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.clock import now_ns
from vil_bridge.core.types import SourceEvent, SourceFrame
from vil_bridge.daemon.source_session import listening
from vil_bridge.registry import resolve

pytestmark = pytest.mark.wire


async def test_what_a_source_says_on_its_way_out_is_not_heard() -> None:
    """QTM's client tells of a reset when it is stopped, which would undo the clock that was
    found.
    """
    pytest.importorskip("qtm_rt", reason="the vendor's client is not installed (extra qualisys)")
    from vil_adapters.qualisys.config import QtmEmulatorConfig
    from vil_adapters.qualisys.emulator import QtmEmulator

    async with QtmEmulator(
        QtmEmulatorConfig(port=0, discovery_port=0), DroneMotion("drone"), now_ns()
    ) as qtm:
        source = {"type": "qualisys", "room": "lab", "port": qtm.port}
        sections = {"version": 1, "rooms": {"lab": {}}, "sources": {"qtm": source}}
        config = BridgeConfig.model_validate(sections, context={"resolve": resolve})
        heard: list[SourceEvent] = []
        enough = asyncio.Event()

        def take(event: SourceEvent) -> None:
            heard.append(event)
            if len(heard) >= 5:
                enough.set()

        async with listening(config, ["qtm"], take) as statuses:
            async with asyncio.timeout(PATIENCE_S):
                await enough.wait()
            count = len(heard)
        assert len(heard) == count
        assert all(isinstance(event, SourceFrame) for event in heard)
        assert statuses["qtm"].report().state == "stopped"
