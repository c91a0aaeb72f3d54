"""One bridge and one browser for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.rig import PageRig, chromium, needs_page


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageRig]:
    needs_page()
    with PageRig(tmp_path_factory.mktemp("rig")) as rig:
        rig.start_all()
        yield rig


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    needs_page()
    with chromium() as browser:
        yield browser
