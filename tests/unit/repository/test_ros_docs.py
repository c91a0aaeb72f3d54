"""The pages of the ROS and LCM outputs name every key; test_examples.py loads their examples."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.support.common import ROOT
from tests.support.examples import examples
from vil_bridge import registry

PAGES = ("docs/guides/ros.md", "docs/guides/outputs.md")


@pytest.mark.parametrize(
    ("kind", "page"), [("ros2", PAGES[0]), ("ros-bag", PAGES[0]), ("lcm", PAGES[1])]
)
def test_every_key_is_named(kind: str, page: str) -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / page).read_text(), re.MULTILINE)
    named = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert (
        set(registry.resolve("outputs")[kind]().model_fields) - {"type", "cameras", "actors"}
        <= named
    )


def test_all_three_kinds_have_an_example() -> None:
    blocks = [
        yaml.safe_load(example.text)
        for page in PAGES
        for example in examples(page)
        if example.kind == "yaml"
    ]
    shown = {output["type"] for block in blocks for output in block["outputs"].values()}
    assert {"ros2", "ros-bag", "lcm"} <= shown
