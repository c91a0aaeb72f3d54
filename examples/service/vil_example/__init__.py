"""Service ``example`` of VIL Bridge."""

from __future__ import annotations

from vil_bridge.interfaces.services import ServicePlugin

__all__ = ["PLUGIN"]

PLUGIN = ServicePlugin(
    "vil_example.service:ExampleService", config="vil_example.config", view="vil_example.view"
)
