"""Every page in both themes: axe finds nothing, nothing is cut off, keys reach everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import Browser, Page

from tests.browser.rig import WEB, PageRig, watched
from tests.support.common import wait_until
from tests.support.sample_snapshot import sample_snapshot
from vil_bridge.web.auth.access import Access
from vil_bridge.web.auth.middleware import SecurityMiddleware
from vil_bridge.web.pages import PLAIN, add_pages
from vil_bridge.web.routes.status import api_router
from vil_bridge.web.server import HttpServer, bind_http

pytestmark = pytest.mark.browser


THEMES = ("dark", "light")
SCREEN = {"width": 1280, "height": 720}
SIZES = (SCREEN, {"width": 390, "height": 844}, {"width": 2560, "height": 1440})
ENDS_PX = """() => {
  const world = document.querySelector('#world');
  const reasons = document.querySelector('#reasons');
  reasons.hidden = false;
  for (let n = 0; n < 30; n++) reasons.append(document.createElement('li'));
  for (const line of reasons.children)
      line.textContent = 'camera front: 12.0 of 30 pictures a second. '.repeat(3);
  return world.offsetTop + world.offsetHeight;
}"""
# The stages are drawn while they are in sight; what comes later above them pushes them out.
READY = {
    "": """() => {
      document.querySelector('#latency').scrollIntoView();
      const ready = /^(ready|degraded)$/.test(document.getElementById('ready').textContent);
      return ready && document.querySelector('.stage');
    }""",
    "vr": "() => document.querySelector('canvas')",
}


def complaints(page: Page) -> list[dict[str, Any]]:
    """What axe has against the page as it is now, every group of controls unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach(group => group.open = true)")
    page.evaluate((WEB / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        {"rule": violation["id"], "where": [node["target"] for node in violation["nodes"]]}
        for violation in found["violations"]
    ]


@pytest.fixture(scope="module")
def reading(shared_rig: PageRig) -> Iterator[PageRig]:
    """With an onboard reader, so that there are latencies of the whole way."""
    shared_rig.start_all()
    shared_rig.start("client")
    wait_until(shared_rig.received, 60.0, lambda: shared_rig.log("client"))
    yield shared_rig
    shared_rig.kill("client")


@pytest.mark.parametrize("path", ["", pytest.param("vr", marks=pytest.mark.long)])
@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing(reading: PageRig, browser: Browser, path: str, theme: Any) -> None:
    with watched(browser, reading.url + path, color_scheme=theme, viewport=SCREEN) as seen:
        seen.page.wait_for_selector("main")
        seen.until(READY[path])
        assert complaints(seen.page) == []
        assert seen.errors == []


@pytest.fixture(scope="module")
def plain_url() -> Iterator[str]:
    app = FastAPI(openapi_url=None)
    app.include_router(api_router(sample_snapshot, lambda _: None))
    add_pages(app, PLAIN)
    app.add_middleware(SecurityMiddleware, access=Access())
    server = HttpServer(lambda: app, bind_http("127.0.0.1", 0))
    server.start()
    yield server.url
    server.stop()


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_on_the_plain_page(plain_url: str, browser: Browser, theme: Any) -> None:
    with watched(browser, plain_url, color_scheme=theme, viewport=SCREEN) as seen:
        seen.page.wait_for_selector("main")
        assert complaints(seen.page) == []
        assert seen.errors == []
        for size in SIZES:
            seen.page.set_viewport_size({"width": size["width"], "height": size["height"]})
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_it_fits_a_phone_and_a_wall(reading: PageRig, browser: Browser) -> None:
    for size in SIZES:
        with watched(browser, reading.url, viewport=size) as seen:
            seen.page.wait_for_selector("main")
            seen.until(READY[""])
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert seen.page.evaluate(f"({ENDS_PX})()") <= size["height"], (
                "the world is seen, whatever is wrong"
            )


def test_the_theme_can_be_chosen_and_is_kept(rig: PageRig, browser: Browser) -> None:
    with watched(browser, rig.url, color_scheme="dark") as seen:
        background = "() => getComputedStyle(document.body).backgroundColor"
        seen.page.wait_for_selector("#theme")
        dark = seen.page.evaluate(background)
        seen.page.get_by_role("button", name="Theme: system").press("Enter")
        light = seen.page.evaluate(background)
        assert light != dark
        seen.page.reload(wait_until="commit")
        seen.until(f"light => ({background})() === light", light)
