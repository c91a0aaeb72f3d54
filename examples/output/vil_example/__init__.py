"""Output ``example`` of VIL Bridge."""

from __future__ import annotations

from vil_bridge.registry import Plugin

__all__ = ["PLUGIN"]

PLUGIN = Plugin("vil_example.config:ExampleConfig", "vil_example.output:ExampleOutput")
