"""The outputs of a bridge.

Made, connected to their cameras, supervised, exchanged while the bridge runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from vil_bridge import registry
from vil_bridge.config.base import PluginConfig
from vil_bridge.core.errors import SinkError, VilBridgeError
from vil_bridge.interfaces.bulkhead import Bulkhead, describe
from vil_bridge.interfaces.planned_path import PlannedPaths
from vil_bridge.interfaces.ports import (
    CameraInfo,
    CommandedOutput,
    FrameSink,
    MappedOutput,
    Output,
    PathOutput,
    WorldView,
)
from vil_bridge.interfaces.setpoints import FlyActor
from vil_bridge.interfaces.voxels import VoxelMap
from vil_bridge.pipeline.camera_relay import FanOut
from vil_bridge.runtime.supervisor import Status, supervise

logger = logging.getLogger(__name__)

_AS_NOW: Final[Mapping[str, CameraInfo]] = MappingProxyType({})
_SETTLE_S: Final = 1.0
_ENDING: Final = "the bridge is ending: its outputs stay as they are"


@dataclass(slots=True)
class _RunningOutput:
    config: PluginConfig
    output: Output
    bulkhead: Bulkhead
    sinks: list[tuple[FanOut, FrameSink]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class OutputManager:
    """All outputs of a configuration.

    Args:
        configs: of the outputs by name.
        fly: gives a set-point to an actor's vehicle, for outputs that take commands.

    Raises:
        ConfigError: a plug-in or something that it needs is not installed.
    """

    def __init__(self, configs: Mapping[str, PluginConfig], fly: FlyActor) -> None:
        self._fly = fly
        self._maps: Mapping[str, VoxelMap] = {}
        self._paths: PlannedPaths = dict
        self._outputs = {name: _made(name, config, fly) for name, config in configs.items()}
        self._cameras: list[tuple[Callable[[], CameraInfo], FanOut]] = []
        self._run: tuple[asyncio.TaskGroup, WorldView] | None = None
        self._exchanging = asyncio.Lock()
        self._closed = False

    @property
    def outputs(self) -> dict[str, tuple[Output, PluginConfig]]:
        """Each with its configuration, by name; any thread."""
        return {
            name: (running.output, running.config) for name, running in tuple(self._outputs.items())
        }

    def connect(self, camera: Callable[[], CameraInfo], fan: FanOut) -> None:
        """Give a camera's pictures to those that list it, now and later.

        Later ones get its state of then.

        Raises:
            SinkError: an output cannot take them.
        """
        self._cameras.append((camera, fan))
        for running in self._outputs.values():
            _connect(running, camera(), fan)

    def offer_maps(self, maps: Mapping[str, VoxelMap]) -> None:
        """Give maps to the outputs that send them, now and later."""
        self._maps = maps
        self._offer()

    def offer_paths(self, paths: PlannedPaths) -> None:
        """Give planned flights to the outputs that send them, now and later."""
        self._paths = paths
        self._offer()

    def _offer(self) -> None:
        for running in self._outputs.values():
            _offer(running, self._maps, self._paths)

    def start(self, group: asyncio.TaskGroup, world: WorldView) -> None:
        """Run all of them, each started again when it fails, until :meth:`stop`."""
        self._run = group, world
        for name in self._outputs:
            self._start(name)

    def stop(self) -> None:
        """End what runs; nothing starts any more."""
        self._run = None
        for running in self._outputs.values():
            if running.task is not None:
                running.task.cancel()

    async def exchange(
        self, configs: Mapping[str, PluginConfig], coming: Mapping[str, CameraInfo] = _AS_NOW
    ) -> None:
        """Go over to other outputs; those whose configuration stays the same are not touched.

        Loop thread.

        A caller that is cancelled gets the outputs from before back too, once the steps under way
        are done.

        Args:
            configs: of all outputs from now on.
            coming: how cameras will be that are about to change, by name.

        Raises:
            VilBridgeError, OSError: one cannot be made; those before are back, except for those
                that the log names. Or the bridge is ending.
        """
        async with self._exchanging:
            self._check_open()
            before = {name: running.config for name, running in self._outputs.items()}
            change = asyncio.ensure_future(self._change_to(configs, coming))
            try:
                await asyncio.shield(change)
            except BaseException:
                await asyncio.wait([change])
                await self._restore(before)
                raise

    async def settle(self) -> None:
        """No exchange begins any more, and one under way makes no further output.

        Waits for it, but not for long.
        """
        self._closed = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S), self._exchanging:
                pass

    def close(self) -> None:
        """Release what all of them hold, once :meth:`settle` has returned."""
        for running in self._outputs.values():
            _close(running)

    def _check_open(self) -> None:
        """Check that outputs may still be made. Raises SinkError: none is made any more."""
        if self._closed:
            raise SinkError(_ENDING)

    async def _change_to(
        self, configs: Mapping[str, PluginConfig], coming: Mapping[str, CameraInfo]
    ) -> None:
        await self._end_others(configs)
        for name, config in configs.items():
            if name not in self._outputs:
                await self._add(name, config, coming)

    async def _restore(self, configs: Mapping[str, PluginConfig]) -> None:
        """Each by itself: one that cannot be had again takes none with it."""
        await self._end_others(configs)
        for name, config in configs.items():
            if name in self._outputs or self._closed:
                continue
            try:
                await self._add(name, config, _AS_NOW)
            except (VilBridgeError, OSError) as exc:
                logger.error(
                    "output %s is lost: %s; read the configuration again to try once more",
                    name,
                    exc,
                )
                await self._end_others({n: c for n, c in configs.items() if n != name})

    async def _end_others(self, configs: Mapping[str, PluginConfig]) -> None:
        for name in [n for n, running in self._outputs.items() if configs.get(n) != running.config]:
            await self._end(self._outputs.pop(name))

    async def _add(self, name: str, config: PluginConfig, coming: Mapping[str, CameraInfo]) -> None:
        self._check_open()
        # In threads: imports, encoders and a relay in the middle of a picture take their time.
        self._outputs[name] = running = await asyncio.to_thread(_made, name, config, self._fly)
        _offer(running, self._maps, self._paths)
        for camera, fan in self._cameras:
            self._check_open()
            now = camera()
            await asyncio.to_thread(_connect, running, coming.get(now.model.name, now), fan)
        self._check_open()  # the caller closes what was made during the end
        self._start(name)

    async def _end(self, running: _RunningOutput) -> None:
        for fan, sink in running.sinks:
            await asyncio.to_thread(fan.remove, sink)
        if running.task is not None:
            running.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running.task
        for _, sink in running.sinks:
            await asyncio.to_thread(sink.close)
        await asyncio.to_thread(_close, running)

    def _start(self, name: str) -> None:
        if self._run is not None:
            group, world = self._run
            running = self._outputs[name]
            work = _run_supervised(running, world)
            try:
                running.task = group.create_task(work, name=name)
            # The group ends, by a failure or from outside: nothing starts any more.
            except RuntimeError:
                work.close()
                self._run = None


def _made(name: str, config: PluginConfig, fly: FlyActor) -> _RunningOutput:
    """Make an output. Raises VilBridgeError, OSError: it cannot be had; or it has a bug."""
    try:
        output: Output = registry.create("outputs", name, config)
        if isinstance(output, CommandedOutput):
            output.accept_commands(fly)
    except (VilBridgeError, OSError, KeyboardInterrupt):
        raise
    except BaseException as exc:  # a library's panic is not an Exception
        raise _bug(name, exc) from exc
    return _RunningOutput(config, output, Bulkhead(f"output {name}"))


def _offer(running: _RunningOutput, maps: Mapping[str, VoxelMap], paths: PlannedPaths) -> None:
    if isinstance(running.output, MappedOutput):
        running.output.accept_maps(maps)
    if isinstance(running.output, PathOutput):
        running.output.accept_paths(paths)


def _connect(running: _RunningOutput, camera: CameraInfo, fan: FanOut) -> None:
    """Give a camera's pictures to an output.

    Raises VilBridgeError, OSError: it cannot take them; or it has a bug.
    """
    if camera.model.name not in getattr(running.config, "cameras", ()):
        return
    try:
        sink = running.bulkhead.owned(running.output.frame_sink, camera)
    except (VilBridgeError, OSError, KeyboardInterrupt):
        raise
    except BaseException as exc:
        raise _bug(running.output.name, exc) from exc
    if sink is not None:
        guarded = running.bulkhead.sink(sink)
        running.sinks.append((fan, guarded))
        fan.add(guarded)


def _close(running: _RunningOutput) -> None:
    """Release what an output holds; a bug in that is logged and holds up nothing."""
    try:
        running.output.close()
    except BaseException:
        logger.exception("output %s has a bug in its end", running.output.name)


def _bug(name: str, error: BaseException) -> SinkError:
    logger.error("output %s has a bug", name, exc_info=error)
    return SinkError(
        f"output {name} has a bug: {describe(error)}. Report it with the traceback in the log"
    )


async def _run_supervised(running: _RunningOutput, world: WorldView) -> None:
    """Run an output, and again after each failure; a bug of its own ends nothing else."""

    async def run(_status: Status) -> None:
        await running.bulkhead.run(lambda: running.output.run(world))

    await supervise(run, running.output.status)
