"""A page that gets nothing, or only the half, from a bridge with tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.rig import LIMIT_MS, watched
from tests.support.guarded_bridge import Guarded, guarded_bridge
from vil_bridge.runtime.access_tokens import Role

pytestmark = pytest.mark.browser


SAYS = "text => document.getElementById('lost').innerText.includes(text)"
WORLD = "text => document.querySelector('.world.old > .world-lost')?.innerText.includes(text)"
AGAIN_MS = 1000


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_bridge(tmp_path_factory.mktemp("guarded")) as bridge:
        yield bridge


def with_a_clock_of_its_own(context: BrowserContext) -> None:
    context.clock.install()


def without_feed(context: BrowserContext) -> None:
    context.route_web_socket(
        "**/live", lambda socket: socket.close(code=1008, reason="no camera 'rear'")
    )


def test_it_says_that_a_token_is_needed_and_lives_once_it_has_one(
    browser: Browser, bridge: Guarded
) -> None:
    with watched(browser, f"{bridge.url}/", with_a_clock_of_its_own) as seen:
        page = seen.page
        seen.until(SAYS, "refuses this page: a token is needed")
        page.evaluate(
            """() => { window.said = 0; new MutationObserver(() => window.said++).observe(
                 document.getElementById('lost'),
                     {childList: true, characterData: true, subtree: true}); }"""
        )
        for _ in range(2):  # each time a stream that fails, and the question why
            with page.expect_response(
                lambda answer: (
                    answer.url.endswith("updates") and answer.request.resource_type == "fetch"
                ),
                timeout=LIMIT_MS,
            ):
                page.clock.fast_forward(AGAIN_MS)
        assert page.evaluate("window.said") == 0  # a screen reader says it once
        page.context.set_extra_http_headers(bridge.headers(Role.VIEW))
        page.clock.fast_forward(AGAIN_MS)
        seen.until("() => document.getElementById('lost').hidden")


def test_a_world_without_poses_says_so_while_the_rest_lives(
    browser: Browser, bridge: Guarded
) -> None:
    extra = {"extra_http_headers": bridge.headers(Role.VIEW)}
    with watched(browser, f"{bridge.url}/", without_feed, **extra) as seen:
        seen.until(WORLD, "no camera 'rear'")
        seen.until("() => document.getElementById('ready').textContent === 'not ready'")
        assert seen.page.locator("#lost").is_hidden()


def test_who_may_only_look_sees_a_race_and_cannot_fly(browser: Browser, bridge: Guarded) -> None:
    with watched(
        browser, f"{bridge.url}/arcade", extra_http_headers=bridge.headers(Role.VIEW)
    ) as seen:
        seen.until("() => document.getElementById('why').textContent.startsWith('View only.')")
        seen.until("() => document.getElementById('leaders-of').textContent === 'slalom, 1 lap'")
        assert (
            seen.page.locator("#start").is_disabled() and seen.page.locator("#course").is_disabled()
        )
        seen.page.locator("#screen").press("Enter")
        seen.page.keyboard.press("w")
        sent = [request for request in seen.requests if request.endswith("/command")]
        assert sent == []
