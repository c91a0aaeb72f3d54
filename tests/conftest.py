"""Setup of every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import anyio
import pytest
from hypothesis import HealthCheck, settings

from tests.layers import Layers
from tests.support import fork_server
from tests.support.shared_schemas import share_schemas
from tests.support.shared_trust import share_trust

# A lazy import. In the thread of a server pytest would rewrite it while another thread parses:
# CPython 3.11 fails then.
anyio.open_file  # noqa: B018

# Before the tests are imported, whose settings start from these. How long an example takes is the
# machine's business.
settings.register_profile(
    "short", max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", settings.get_profile("short"), max_examples=500)
settings.load_profile("short")


def pytest_configure(config: pytest.Config) -> None:
    """Add the layers, let tests fork our programs, and build once in this process what never
    changes.
    """
    config.pluginmanager.register(Layers())
    if not hasattr(config, "workerinput"):
        fork_server.begin_counts()
    fork_server.install()
    share_trust()
    share_schemas()


@pytest.fixture(autouse=True)
def normal_priority() -> Iterator[None]:
    """A bridge that runs in a test's process makes it a real-time one, before which all others
    stand back.
    """
    yield
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
