"""Occupancy maps of a replay, filled as the running bridge fills them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.frame_header import FrameHeader
from vil_bridge.core.types import ImageArray
from vil_bridge.interfaces.ports import FrameSink
from vil_bridge.offline.files import write_whole
from vil_bridge.pipeline.camera import BridgeCamera
from vil_bridge.services.maps.runner import DepthInserter, depth_kind, make_live_map
from vil_bridge.world.occupancy.live_map import LiveMap
from vil_bridge.world.occupancy.map_file import map_bytes


class MapWriter:
    """Writer of ``maps/NAME.ot`` of each map of a configuration that the chosen cameras see.

    Attributes:
        sinks: what takes the depth pictures, by camera.
    """

    def __init__(self, config: BridgeConfig, cameras: Sequence[BridgeCamera]) -> None:
        self.sinks: Final[dict[str, list[FrameSink]]] = {camera.name: [] for camera in cameras}
        self._maps: dict[str, LiveMap] = {}
        for name, section in config.section("maps").items():
            for camera in cameras:
                if camera.name in section.cameras:
                    found = self._maps.setdefault(name, make_live_map(section))
                    self.sinks[camera.name].append(
                        _MapSink(camera, DepthInserter(found, camera.model, section.rate_hz))
                    )

    def write(self, folder: Path) -> None:
        """Write the maps.

        Raises:
            OSError: the disk is full.
        """
        for name, found in self._maps.items():
            write_whole(folder / "maps" / f"{name}.ot", map_bytes(found.occupancy_map(), ".ot"))


class _MapSink(FrameSink):
    def __init__(self, camera: BridgeCamera, insert: DepthInserter) -> None:
        self._kind = depth_kind(camera.modalities)
        self._insert = insert

    def wanted(self, modality: str, variant: str) -> bool:
        return (modality, variant) == self._kind

    def offer(self, header: FrameHeader, pixels: ImageArray) -> None:
        if header.kind == self._kind:
            self._insert(header, pixels)
