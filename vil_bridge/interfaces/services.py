"""Table of the services of a bridge.

A service is a capability besides moving poses and pictures. What follows from its view, no one
writes by hand: the status, its schema, metrics and rows of ``vil-bridge top``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Final

__all__ = ["SERVICES", "ServicePlugin", "service_views"]


@dataclass(frozen=True, slots=True)
class ServicePlugin:
    """Places of a service.

    Attributes:
        implementation: its class, "module:Class", a :class:`vil_bridge.services.service.Service`.
        view: module of its part of the status, which imports the core alone: ``View``, the type;
            ``LABEL`` of the metrics of its fields, or ``metrics``, which yields them; ``rows`` for
            a terminal. "" = it has none.
        section: of the configuration; "" = its name.
        status: name of its part of the status; "" = its name.
    """

    implementation: str
    view: str = ""
    section: str = ""
    status: str = ""


SERVICES: Final[Mapping[str, ServicePlugin]] = {
    "geofence": ServicePlugin(
        "vil_bridge.services.geofence.service:GeofenceService",
        "vil_bridge.services.geofence.view",
        section="rooms",
        status="warnings",
    ),
    "twins": ServicePlugin(
        "vil_bridge.services.twins.service:TwinService", "vil_bridge.services.twins.view"
    ),
    "airsim": ServicePlugin("vil_simulation.airsim.service:AirsimService"),
}
"""Services by name."""


def service_views() -> dict[str, ModuleType]:
    """Return the modules of the services' views, by their names in the status."""
    return {
        plugin.status or name: import_module(plugin.view)
        for name, plugin in SERVICES.items()
        if plugin.view
    }
