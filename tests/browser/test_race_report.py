"""The report of races in a browser.

Nothing is wider than a phone, texts are legible, dark, printed, no requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.rig import watched
from tests.support.race_runs import group_of, line_course, straight_run
from vil_simulation.race.report import race_page

pytestmark = pytest.mark.browser

LEAST_PX = 7.5
SMALLEST = """() => Math.min(...[...document.querySelectorAll('svg text')].map(text => {
  const svg = text.ownerSVGElement;
  return parseFloat(getComputedStyle(text).fontSize)
      * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}))"""
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups on a course of 14 gates, one run of which ends at a pole."""
    course = line_course(gates=14)
    runs = [straight_run(f"seed {k}", course, 2.0 + k, 0.1 * k, far_m=72.0) for k in range(4)]
    crashed = straight_run("seed 9", line_course(gates=14, pole_m=33.0), 3.0, far_m=72.0)
    file = tmp_path_factory.mktemp("report") / "race.html"
    file.write_text(
        race_page([group_of("one", *runs[:2]), group_of("two", *runs[2:], crashed)]),
        encoding="utf-8",
    )
    return file


@pytest.mark.parametrize("width_px", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_is_readable_on_phones_and_screens(
    browser: Browser, page: Path, width_px: int, scheme: Any
) -> None:
    look = {"viewport": {"width": width_px, "height": 844}, "color_scheme": scheme}
    with watched(browser, page.as_uri(), **look) as seen:
        seen.until("() => document.querySelectorAll('svg').length > 20")
        assert seen.page.evaluate("() => document.documentElement.scrollWidth") == width_px
        assert seen.page.evaluate(SMALLEST) >= LEAST_PX
        assert (seen.page.evaluate(BACKGROUND) == "rgb(255, 255, 255)") == (scheme == "light")
        assert (seen.errors, seen.requests) == ([], [page.as_uri()])


def test_the_printed_report_is_light_and_shows_whole_tables(browser: Browser, page: Path) -> None:
    with watched(
        browser, page.as_uri(), viewport={"width": 718, "height": 1000}, color_scheme="dark"
    ) as seen:
        seen.page.emulate_media(media="print")
        assert seen.page.evaluate(BACKGROUND) == "rgb(255, 255, 255)"
        tables = (
            "() => [...document.querySelectorAll('table')].map(table => "
            "table.getBoundingClientRect().right)"
        )
        assert max(seen.page.evaluate(tables)) <= 718.5
        assert seen.page.evaluate(SMALLEST) >= LEAST_PX
        assert len(seen.page.pdf(format="A4")) > 10_000
