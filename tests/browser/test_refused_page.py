"""A page that gets nothing, or only the half, from a bridge with tokens."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, BrowserContext

from tests.browser.rig import watched
from tests.guarded_bridge import guarded_bridge
from vil_bridge.dashboard.tokens import Role

SAYS = "text => document.getElementById('lost').innerText.includes(text)"
WORLD = "text => document.querySelector('.world.old > .world-lost')?.innerText.includes(text)"


def without_feed(context: BrowserContext) -> None:
    context.route_web_socket("**/live", lambda socket: socket.close(code=1008, reason="no camera 'rear'"))


def test_it_says_that_a_token_is_needed_and_lives_once_it_has_one(browser: Browser, tmp_path: Path) -> None:
    with guarded_bridge(tmp_path) as bridge, watched(browser, f"{bridge.url}/") as seen:
        seen.until(SAYS, "refuses this page: a token is needed")
        seen.page.evaluate(
            """() => { window.said = 0; new MutationObserver(() => window.said++).observe(
                 document.getElementById('lost'), {childList: true, characterData: true, subtree: true}); }"""
        )
        attempts = len([url for url in seen.requests if url.endswith("updates")])
        while len([url for url in seen.requests if url.endswith("updates")]) < attempts + 4:
            seen.page.wait_for_timeout(100)
        assert seen.page.evaluate("window.said") == 0  # a screen reader says it once
        seen.page.context.set_extra_http_headers(bridge.headers(Role.VIEW))
        seen.until("() => document.getElementById('lost').hidden")


def test_a_world_without_poses_says_so_while_the_rest_lives(browser: Browser, tmp_path: Path) -> None:
    with guarded_bridge(tmp_path) as bridge:
        extra = {"extra_http_headers": bridge.headers(Role.VIEW)}
        with watched(browser, f"{bridge.url}/", without_feed, **extra) as seen:
            seen.until(WORLD, "no camera 'rear'")
            seen.until("() => document.getElementById('ready').textContent === 'not ready'")
            assert seen.page.locator("#lost").is_hidden()
