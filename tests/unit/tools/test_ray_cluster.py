"""The connection with Ray says what is missing."""

from __future__ import annotations

import sys

import pytest

from vil_bridge.core.errors import VilBridgeError
from vil_simulation.learning.ray_cluster import ray_cluster


def test_without_ray_the_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(VilBridgeError, match=r"pip install '\.\[ray\]'"), ray_cluster("auto"):
        pass
