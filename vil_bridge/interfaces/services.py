"""Table of the services of a bridge: built-ins by strings, third parties by entry points.

A service is a capability besides moving poses and pictures. What follows from its section and its
view, no one writes by hand: the key of the configuration, the status, its schema, metrics and rows
of ``vil-bridge top``.

A third party declares, in the group ``vil_bridge.services``, an entry point named after the service
that leads to a :class:`ServicePlugin`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Final

from vil_bridge.core.errors import ConfigError

__all__ = [
    "BUILT_IN_SERVICES",
    "ServicePlugin",
    "broken_services",
    "service_views",
    "services",
]


@dataclass(frozen=True, slots=True)
class ServicePlugin:
    """Places of a service.

    Attributes:
        implementation: its class, "module:Class", a :class:`vil_bridge.services.service.Service`.
        config: module of its section of the configuration, which has ``SECTION``, a
            :class:`vil_bridge.config.sections.Section`. "" = another part declares it.
        view: module of its part of the status, which imports the core alone: ``View``, the type;
            ``LABEL`` of the metrics of its fields, or ``metrics``, which yields them; ``rows`` for
            a terminal. "" = it has none.
        section: of the configuration; "" = its name.
        status: name of its part of the status; "" = its name.
        always: it is made without a section too, for people who ask for it while the bridge runs.
    """

    implementation: str
    config: str = ""
    view: str = ""
    section: str = ""
    status: str = ""
    always: bool = False


BUILT_IN_SERVICES: Final[Mapping[str, ServicePlugin]] = {
    "geofence": ServicePlugin(
        "vil_bridge.services.geofence.service:GeofenceService",
        view="vil_bridge.services.geofence.view",
        section="rooms",
        status="warnings",
    ),
    "twins": ServicePlugin(
        "vil_bridge.services.twins.service:TwinService",
        "vil_bridge.services.twins.config",
        "vil_bridge.services.twins.view",
    ),
    "race": ServicePlugin(
        "vil_bridge.services.race.service:RaceService",
        "vil_bridge.services.race.config",
        "vil_bridge.services.race.view",
        always=True,
    ),
    "maps": ServicePlugin(
        "vil_bridge.services.maps.service:MapService",
        "vil_bridge.services.maps.config",
        "vil_bridge.services.maps.view",
        always=True,
    ),
    "flights": ServicePlugin("vil_bridge.services.flights.service:FlightService", always=True),
    "recording": ServicePlugin(
        "vil_bridge.services.recording.service:RecordingService",
        "vil_bridge.services.recording.config",
        section="record",
        always=True,
    ),
    "airsim": ServicePlugin(
        "vil_simulation.airsim.service:AirsimService", "vil_simulation.airsim.config"
    ),
}
"""Services of this project by name."""


def services() -> dict[str, ServicePlugin]:
    """Return all services by name, those of installed distributions too.

    One of a distribution that cannot be used is in :func:`broken_services` instead.
    """
    return _found()[0]


def broken_services() -> Mapping[str, str]:
    """Return why services of installed distributions cannot be used, by name."""
    return _found()[1]


@functools.cache
def _found() -> tuple[dict[str, ServicePlugin], dict[str, str]]:
    found = dict(BUILT_IN_SERVICES)
    broken: dict[str, str] = {}
    for entry in entry_points(group="vil_bridge.services"):
        try:
            plugin = _loaded(entry, found)
        except Exception as exc:  # a fault of another distribution
            found.pop(entry.name, None)
            broken[entry.name] = f"{type(exc).__name__}: {exc}. Mend or uninstall {entry.value}"
        else:
            found[entry.name] = plugin
    return found, broken


def _loaded(entry: EntryPoint, found: Mapping[str, ServicePlugin]) -> ServicePlugin:
    """Return a service of a distribution, whose section and view can be imported.

    Raises:
        ConfigError: another service has its name, or the entry point leads to something else.
        Exception: whatever its modules raise.
    """
    if entry.name in found:
        raise ConfigError(f"two services are named {entry.name!r}")
    plugin = entry.load()
    if not isinstance(plugin, ServicePlugin):
        raise ConfigError("it is not a vil_bridge.interfaces.services.ServicePlugin")
    for module in (plugin.config, plugin.view):
        if module:
            import_module(module)
    return plugin


def service_views() -> dict[str, ModuleType]:
    """Return the modules of the services' views, by their names in the status."""
    return {
        plugin.status or name: import_module(plugin.view)
        for name, plugin in services().items()
        if plugin.view
    }
