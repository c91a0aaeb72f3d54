"""The pages of the ROS and LCM outputs: their examples load, and their tables name every key with its default."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.common import ROOT
from vil_bridge import registry
from vil_bridge.config.base import PluginConfig

BLOCKS = [
    (name, keys)
    for page in ("guides/ros.md", "guides/outputs.md")
    for block in re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    for name, keys in yaml.safe_load(block)["outputs"].items()
    if keys["type"] in ("ros2", "ros-bag", "lcm")
]


@pytest.mark.parametrize(("name", "keys"), BLOCKS)
def test_examples_load(name: str, keys: dict[str, object]) -> None:
    model: type[PluginConfig] = registry.resolve("outputs")[str(keys["type"])]()
    model.model_validate(keys)


@pytest.mark.parametrize(
    ("kind", "page"), [("ros2", "guides/ros.md"), ("ros-bag", "guides/ros.md"), ("lcm", "guides/outputs.md")]
)
def test_every_key_is_told(kind: str, page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    told = {key for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}
    assert set(registry.resolve("outputs")[kind]().model_fields) - {"type", "cameras", "actors"} <= told


def test_all_three_kinds_are_shown() -> None:
    assert {keys["type"] for _, keys in BLOCKS} == {"ros2", "ros-bag", "lcm"}
