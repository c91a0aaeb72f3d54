"""Occupancy maps as a service of a running bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from vil_bridge.services.maps.config import OccupancyConfig
from vil_bridge.services.maps.runner import MapRunner
from vil_bridge.services.maps.view import View
from vil_bridge.services.service import Service, ServiceHost

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = ["MapService"]


class MapService(Service):
    """Let all maps grow, and offer them to the outputs.

    Attributes:
        maps: by name.
    """

    def __init__(self, section: Mapping[str, OccupancyConfig], host: ServiceHost) -> None:
        self.maps: Final = {
            name: MapRunner(name, config, host.cameras) for name, config in section.items()
        }
        host.outputs.offer_maps({name: runner.map for name, runner in self.maps.items()})

    def view(self) -> View:
        """Return the states of the maps. Any thread."""
        return {name: runner.view() for name, runner in self.maps.items()}

    def routes(self) -> Sequence[APIRouter]:
        """Return the routes of states and files, and the feeds."""
        from vil_bridge.services.maps.feed import map_feed_router
        from vil_bridge.services.maps.routes import map_router

        live = {name: runner.map for name, runner in self.maps.items()}
        return map_router(self.maps), map_feed_router(live)
