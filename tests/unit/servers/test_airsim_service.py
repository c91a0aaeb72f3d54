"""AirSim's service of a bridge, before it serves."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from vil_bridge.config.root import BridgeConfig
from vil_bridge.core.errors import ConfigError
from vil_bridge.daemon.scene_rays import SceneLibrary
from vil_bridge.services.service import ServiceHost
from vil_simulation.airsim.config import AirsimConfig
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
    parts: dict[str, Any] = dict.fromkeys(field.name for field in fields(ServiceHost))
    parts |= {"config": BridgeConfig(version=1), "scene_of": SceneLibrary().of}
    host = ServiceHost(**parts)
    with pytest.raises(ConfigError, match=problem):
        AirsimService(AirsimConfig(**section), host)
