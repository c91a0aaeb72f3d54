"""Outputs are exchanged in flight: wholly, or not at all."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import ClassVar, Literal, cast

import pytest

from tests.support.outputs import no_vehicles
from vil_bridge import registry
from vil_bridge.config.base import OutputConfigBase
from vil_bridge.core.errors import SinkError
from vil_bridge.daemon.output_manager import OutputManager
from vil_bridge.interfaces.ports import CameraInfo, FrameSink, WorldView
from vil_bridge.runtime.supervisor import Status


class TriedConfig(OutputConfigBase):
    type: Literal["tried"] = "tried"
    slow: bool = False
    fails: bool = False
    occupied: bool = False


class TriedOutput:
    """An output of a third party, which may take its time or fail."""

    begun, go_on = threading.Event(), threading.Event()
    alive: ClassVar[list[str]] = []
    occupied: ClassVar[bool] = False

    def __init__(self, name: str, config: TriedConfig) -> None:
        self.name, self.status = name, Status(name)
        if config.slow:
            self.begun.set()
            assert self.go_on.wait(60.0)
        if config.fails:
            raise OSError(98, "the port is taken")
        if config.occupied and self.occupied:
            raise OSError(24, "too many open files")
        self.alive.append(name)

    def frame_sink(self, camera: CameraInfo) -> FrameSink | None:
        return None

    async def run(self, world: WorldView) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        self.alive.remove(self.name)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    here = f"{__name__}:"
    plugin = registry.Plugin(f"{here}TriedConfig", f"{here}TriedOutput")
    monkeypatch.setitem(registry.BUILT_IN["outputs"], "tried", plugin)
    TriedOutput.begun.clear()
    TriedOutput.go_on.clear()
    TriedOutput.alive.clear()


async def test_who_waits_no_longer_leaves_the_outputs_as_they_were() -> None:
    ways = OutputManager({"old": TriedConfig()}, no_vehicles)
    exchange = asyncio.create_task(ways.exchange({"new": TriedConfig(slow=True)}))
    assert await asyncio.to_thread(TriedOutput.begun.wait, 10.0)
    exchange.cancel()
    TriedOutput.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await exchange
    assert list(ways.outputs) == TriedOutput.alive == ["old"]
    await ways.exchange({"new": TriedConfig()})
    assert list(ways.outputs) == TriedOutput.alive == ["new"]
    ways.close()


async def test_whatever_fails_those_before_are_back() -> None:
    ways = OutputManager({"old": TriedConfig()}, no_vehicles)
    with pytest.raises(OSError, match="the port is taken"):
        await ways.exchange({"new": TriedConfig(fails=True)})
    assert list(ways.outputs) == TriedOutput.alive == ["old"]
    ways.close()


async def test_what_cannot_be_had_again_takes_none_with_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = {"a": TriedConfig(occupied=True), "b": TriedConfig(), "same": TriedConfig()}
    ways = OutputManager(before, no_vehicles)
    monkeypatch.setattr(TriedOutput, "occupied", True)
    with pytest.raises(OSError, match="the port is taken"):
        await ways.exchange({"same": TriedConfig(), "new": TriedConfig(fails=True)})
    assert sorted(ways.outputs) == sorted(TriedOutput.alive) == ["b", "same"]
    assert "output a is lost: [Errno 24] too many open files" in caplog.text
    monkeypatch.setattr(TriedOutput, "occupied", False)
    await ways.exchange(before)
    assert sorted(TriedOutput.alive) == ["a", "b", "same"]
    ways.close()


async def test_a_bridge_that_ends_in_the_midst_of_an_exchange_closes_what_it_made() -> None:
    """Without an error, and without outputs that nobody runs or closes."""
    ways, ending = OutputManager({}, no_vehicles), asyncio.Event()

    async def bridge() -> None:
        async with asyncio.TaskGroup() as group:
            ways.start(group, cast("WorldView", None))
            await ending.wait()

    running = asyncio.create_task(bridge())
    exchange = asyncio.create_task(
        ways.exchange({"new": TriedConfig(slow=True), "more": TriedConfig()})
    )
    assert await asyncio.to_thread(TriedOutput.begun.wait, 10.0)
    running.cancel()
    await asyncio.wait([running])
    settling = asyncio.create_task(ways.settle())
    await asyncio.sleep(0)
    TriedOutput.go_on.set()
    with pytest.raises(SinkError, match="the bridge is ending"):
        await exchange
    await settling
    ways.close()
    assert TriedOutput.alive == []
    gc.collect()  # a coroutine that nobody awaited would be told here
    with pytest.raises(SinkError, match="the bridge is ending"):
        await ways.exchange({"new": TriedConfig()})
    assert TriedOutput.alive == []
