"""AirSim's service of a bridge, before it serves."""

from __future__ import annotations

from typing import Any

import pytest

from vil_bridge.config.airsim import AirsimConfig
from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.services.service import ServiceHost
from vil_simulation.airsim.service import AirsimService


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"vehicles": {"A": "drone"}}, "no vehicle is named 'drone'"),
        ({"settings": "{"}, "not JSON"),
    ],
)
def test_a_wrong_section_is_refused_before_the_bridge_runs(
    section: dict[str, Any], problem: str
) -> None:
    nothing: Any = None
    host = ServiceHost(BridgeConfig(version=1), nothing, nothing, nothing, nothing, None)
    with pytest.raises(ConfigError, match=problem):
        AirsimService(AirsimConfig(**section), host)
