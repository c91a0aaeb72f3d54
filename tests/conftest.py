"""What every test gets."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.layers import Layers


def pytest_configure(config: pytest.Config) -> None:
    """Add the layers."""
    config.pluginmanager.register(Layers())


@pytest.fixture(autouse=True)
def normal_priority() -> Iterator[None]:
    """A bridge that runs in a test's process makes it a real-time one, before which all others stand back."""
    yield
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
