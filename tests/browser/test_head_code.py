"""The counts of the head line, without a browser."""

from __future__ import annotations

import pytest

from tests.browser.in_node import in_node

pytestmark = pytest.mark.browser


CHIPS = """
globalThis.document = { getElementById: () => ({}) };
async function answer(now) {
  const { working } = await import("./panels/head.mjs");
  return working(now);
}"""
NONE: dict[str, object] = {}


def test_a_camera_counts_while_it_has_no_problem() -> None:
    lost = {"age_s": 0.01, "rate_hz": 50, "problem": "actor drone is lost"}
    now = {
        "sources": {"mocap": {"report": {"state": "running"}}},
        "actors": {"drone": {"state": "lost"}, "box": {"state": "coasting"}},
        "renderers": NONE,
        "cameras": {"front": lost, "hall": lost | {"problem": ""}},
        "outputs": NONE,
    }
    counts = {
        "sources": [1, 1],
        "actors": [1, 2],
        "renderers": [0, 0],
        "cameras": [1, 2],
        "outputs": [0, 0],
    }
    assert in_node(CHIPS, now) == counts
