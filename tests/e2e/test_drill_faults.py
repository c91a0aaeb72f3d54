"""Fault drills on real processes; ``VIL_DRILLS=all`` runs those that take longer too."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.soak.drills import DRILLS, Drill
from tests.soak.site import Site

_CHOSEN = [d for d in DRILLS if d.quick or os.environ.get("VIL_DRILLS") == "all"]

pytestmark = [pytest.mark.process, pytest.mark.long]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("drills")) as made:
        made.start_all()
        yield made


@pytest.mark.parametrize("drill", _CHOSEN, ids=lambda d: d.name)
def test_a_fault_is_told_and_all_is_well_afterwards(drill: Drill, site: Site) -> None:
    daemon = site.pid("daemon")
    seen = drill.run(site)
    assert seen.words
    assert site.alive("daemon")
    if drill.name != "wall_time":
        assert site.pid("daemon") == daemon, "the bridge had to be restarted"
    assert "Traceback" not in site.log("daemon")
