"""One bridge and one browser for all tests of the folder.

Its end lets asynchronous tests run again.

The bridge rests during files that do not use it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.rig import PageRig, chromium, needs_page


@pytest.fixture(scope="package")
def only_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageRig]:
    needs_page()
    with PageRig(tmp_path_factory.mktemp("rig")) as rig:
        yield rig


@pytest.fixture(scope="module")
def shared_rig(only_rig: PageRig) -> Iterator[PageRig]:
    yield only_rig
    only_rig.stop_all()


@pytest.fixture
def rig(shared_rig: PageRig) -> PageRig:
    """The bridge at full work, even where the test before killed a part of it."""
    shared_rig.start_all()
    return shared_rig


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    needs_page()
    with chromium() as browser:
        yield browser
