"""Operations of planning: occupancy maps and planned flights."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from vil_bridge.interfaces.services import service_views
from vil_bridge.web.client.connection import HttpConnection, path_of
from vil_bridge.web.client.live import MapReader
from vil_bridge.web.schemas.flights import FlightBody, FlightOut


class PlanningApi:
    """Part of :class:`~vil_bridge.web.client.BridgeApi`."""

    _bridge: HttpConnection

    def get_flights(self) -> dict[str, FlightOut]:
        """Return the newest planned flight of each actor that has one."""
        return self._bridge.get(dict[str, FlightOut], path_of("flights"))

    def get_flight(self, actor: str) -> FlightOut:
        """Return the newest planned flight of one actor."""
        return self._bridge.get(FlightOut, path_of("flights", actor))

    def put_flight(self, actor: str, flight: FlightBody) -> FlightOut:
        """Let a simulated vehicle fly along a trajectory, or offer it to the pilot of a real
        one.
        """
        return self._bridge.put(FlightOut, path_of("flights", actor), flight)

    def cancel_flight(self, actor: str) -> FlightOut:
        """End a flight."""
        return self._bridge.put(FlightOut, path_of("flights", actor), None, "DELETE")

    def get_maps(self) -> dict[str, Any]:
        """Return the occupancy maps by name, as in the status."""
        found: dict[str, Any] = self._bridge.get(_view().View, path_of("maps"))
        return found

    def get_map(self, name: str) -> Any:
        """Return the state of one occupancy map, as in the status."""
        return self._bridge.get(_view().MapView, path_of("maps", name))

    def get_map_file(self, name: str, form: str = "bt") -> bytes:
        """Return an occupancy map as OctoMap's ``bt`` or ``ot``, or its occupied voxels as
        ``ply``.
        """
        return self._bridge.ask("GET", path_of("maps", name, f"map.{form}"))

    def reset_map(self, name: str) -> Any:
        """Forget all voxels of an occupancy map; return its state."""
        return self._bridge.put(_view().MapView, path_of("maps", name, "reset"), None, "POST")

    def map_changes(self, name: str) -> MapReader:
        """Return a reader of an occupancy map: the whole of it, then changed voxels.

        Raises:
            RestError: the bridge refuses.
        """
        bridge = self._bridge
        url = "ws" + bridge.url.removeprefix("http") + path_of("maps", name, "live")
        return MapReader(url, bridge.headers, bridge.tls, bridge.timeout_s)


def _view() -> ModuleType:
    """Return the module of the types of maps in the status."""
    return service_views()["maps"]
