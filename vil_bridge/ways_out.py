"""The outputs of a running bridge: made from the configuration, given their cameras, kept alive."""

from __future__ import annotations

from collections.abc import Mapping

from vil_bridge import registry
from vil_bridge.config.base import PluginConfig
from vil_bridge.core.ports import CameraInfo, FrameSink, Output, WorldView
from vil_bridge.core.supervisor import Status, supervise

__all__ = ["WaysOut"]


class WaysOut:
    """All outputs of a configuration.

    Raises:
        ConfigError: a plug-in or something that it needs is not installed.
    """

    def __init__(self, configs: Mapping[str, PluginConfig]) -> None:
        self.outputs: dict[str, Output] = {n: registry.create("outputs", n, c) for n, c in configs.items()}
        self._cameras_of = {name: frozenset(getattr(c, "cameras", ())) for name, c in configs.items()}

    def sinks_of(self, camera: CameraInfo) -> list[FrameSink]:
        """Where a camera's pictures go.

        Raises:
            SinkError: an output cannot take them.
        """
        takers = [o for n, o in self.outputs.items() if camera.model.name in self._cameras_of[n]]
        return [sink for output in takers if (sink := output.frame_sink(camera)) is not None]

    async def keep(self, name: str, world: WorldView) -> None:
        """Run one output and start it again when it fails; ends by cancellation only."""
        output = self.outputs[name]

        async def run(_status: Status) -> None:
            await output.run(world)

        await supervise(run, output.status)

    def close(self) -> None:
        """Release what all of them hold."""
        for output in self.outputs.values():
            output.close()
