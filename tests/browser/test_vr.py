"""The page for headsets, worn by an emulated one.

Two eyes, and a picture that follows the head and the mocap body.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext

from tests.browser.rig import LIMIT_MS, WEB, PageRig, Watched, watched
from vil_bridge.core.types import FloatArray

pytestmark = pytest.mark.browser


# The browser's own WebXR knows no headset, and three would mix its classes with the emulated ones.
NO_NATIVE = """
delete Navigator.prototype.xr;
for (const name of Object.getOwnPropertyNames(window))
    if (/^XR[A-Z]/.test(name)) delete window[name];
"""
HEADSET = """
window.headset = new IWER.XRDevice(IWER.metaQuest3);
headset.installRuntime();
headset.stereoEnabled = true;
headset.position.set(0, 1.6, 0);
"""
FACT = """name => [...document.querySelectorAll('#facts div')]
  .find(row => row.firstChild.textContent === name)?.lastChild.textContent ?? ''"""


def wear(context: BrowserContext) -> None:
    context.add_init_script(NO_NATIVE)
    context.add_init_script(path=WEB / "node_modules" / "iwer" / "build" / "iwer.min.js")
    context.add_init_script(HEADSET)


@pytest.fixture
def worn(rig: PageRig, browser: Browser) -> Iterator[Watched]:
    """All that it asks for comes from the bridge, and it complains of nothing."""
    with watched(
        browser, f"{rig.url}vr?actor=&at=0,0,0", wear, viewport={"width": 400, "height": 240}
    ) as seen:
        seen.until("() => document.querySelectorAll('#head option').length === 3")
        seen.page.get_by_role("button", name="Enter VR").click(timeout=LIMIT_MS)
        seen.until(f"() => ({FACT})('Views') === '2'")
        yield seen
        seen.assert_at_peace(rig.url)


def fact(worn: Watched, name: str) -> str:
    told = worn.page.evaluate(FACT, name)
    assert isinstance(told, str)
    return told


def eyes(worn: Watched) -> FloatArray:
    return np.array([float(c) for c in fact(worn, "Eyes at").removesuffix(" m").split(",")])


def halves(worn: Watched) -> tuple[FloatArray, FloatArray]:
    """What the left and the right eye see."""
    shot = Image.open(io.BytesIO(worn.page.screenshot(timeout=LIMIT_MS))).convert("L")
    pixels = np.asarray(shot, np.float64)
    middle = pixels.shape[1] // 2
    return pixels[:, :middle], pixels[:, middle : 2 * middle]


def shift_px(left: FloatArray, right: FloatArray) -> int:
    """Columns by which the left eye sees further right what is no line across the picture.

    People, not the floor.
    """
    offs = [np.abs(half - np.median(half, axis=1, keepdims=True)) for half in (left, right)]
    ours, theirs = (np.where(off < 40.0, 0.0, off) for off in offs)
    most = 30
    alike = [
        float((ours * np.roll(theirs, by, axis=1))[:, most:-most].sum())
        for by in range(-most, most + 1)
    ]
    return int(np.argmax(alike)) - most


def await_eyes(worn: Watched, x_m: float, y_m: float) -> None:
    condition = f"([x, y]) => {{ const p = ({FACT})('Eyes at').split(',').map(parseFloat);"
    worn.until(condition + " return Math.hypot(p[0] - x, p[1] - y) < 0.02; }", [x_m, y_m])


@pytest.mark.long
def test_both_eyes_see_a_picture_of_their_own_63_mm_apart(worn: Watched) -> None:
    assert fact(worn, "Eyes apart") == "63 mm"
    left, right = halves(worn)
    assert left.std() > 1.0 and right.std() > 1.0
    assert shift_px(left, right) >= 1  # what is near is further right for the left eye


@pytest.mark.long
def test_the_picture_follows_the_head_of_the_headset(worn: Watched) -> None:
    await_eyes(worn, *eyes(worn)[:2])
    before, picture = eyes(worn), halves(worn)[0]
    # Right and ahead; it faces along x.
    worn.page.evaluate("() => headset.position.set(0.5, 1.6, -1)")
    await_eyes(worn, before[0] + 1.0, before[1] - 0.5)
    assert eyes(worn)[2] == pytest.approx(1.6, abs=0.05)
    assert np.abs(halves(worn)[0] - picture).max() > 10.0


@pytest.mark.long
def test_a_headset_that_tracks_itself_begins_every_session_at_the_stated_place(
    worn: Watched,
) -> None:
    worn.page.evaluate("() => headset.position.set(2, 1.6, -3)")
    worn.page.evaluate("() => document.getElementById('recentre').click()")
    await_eyes(worn, 0.0, 0.0)
    worn.page.evaluate("() => void headset.activeSession.end()")
    worn.until(f"() => ({FACT})('Views') === '1'")
    await_eyes(worn, 0.0, 0.0)
    worn.page.evaluate("() => headset.position.set(0.4, 1.6, 0.2)")  # it was switched on elsewhere
    worn.page.get_by_role("button", name="Enter VR").click(timeout=LIMIT_MS)
    worn.until(f"() => ({FACT})('Views') === '2'")
    await_eyes(worn, 0.0, 0.0)


@pytest.mark.long
def test_the_picture_follows_the_mocap_body_while_the_headset_is_still(
    worn: Watched, rig: PageRig
) -> None:
    worn.page.get_by_label("Head tracked by").select_option("human")
    worn.until(f"() => ({FACT})('Head') === 'tracked'")
    before, picture = eyes(worn), halves(worn)[0]
    worn.until(
        f"([x, y]) => {{ const p = ({FACT})('Eyes at').split(',').map(parseFloat);"
        " return Math.hypot(p[0] - x, p[1] - y) > 0.3; }",
        before[:2].tolist(),
    )
    hips = rig.get()["actors"]["human"]["p_world_m"]
    now = eyes(worn)
    assert math.dist(now[:2], hips[:2]) < 1.0  # it walks on between the two questions
    assert 1.3 < now[2] < 2.0
    assert np.abs(halves(worn)[0] - picture).max() > 10.0


def test_without_a_headset_the_page_says_what_is_missing(rig: PageRig, browser: Browser) -> None:
    def none(context: BrowserContext) -> None:
        context.add_init_script(NO_NATIVE)

    with watched(browser, f"{rig.url}vr", none) as seen:
        seen.until("() => /no WebXR/.test(document.getElementById('why').textContent)")
        seen.until("() => document.getElementById('enter').disabled")
        # The picture on the page is there all the same.
        seen.until(f"() => ({FACT})('Head') === 'tracked'")


def test_a_page_that_is_refused_says_why(rig: PageRig, browser: Browser) -> None:
    def refuse(context: BrowserContext) -> None:
        context.route(
            "**/api/v1/updates",
            lambda route: route.fulfill(status=401, json={"detail": "a token is wanted"}),
        )

    with watched(browser, f"{rig.url}vr", refuse) as seen:
        seen.until(
            "() => /refuses this page.*: a token is "
            "wanted/.test(document.getElementById('feed').textContent)"
        )


@pytest.mark.long
def test_a_lost_bridge_is_told_and_the_headset_carries_on(worn: Watched, rig: PageRig) -> None:
    worn.page.get_by_label("Head tracked by").select_option("human")
    worn.until(f"() => ({FACT})('Head') === 'tracked'")
    rig.kill("daemon")
    worn.until(
        "() => /^connection to the bridge lost/.test(document.getElementById('feed').textContent)"
    )
    worn.until(f"() => ({FACT})('Head') === 'no connection: the headset carries on alone'")
    before = eyes(worn)
    worn.page.evaluate("() => { headset.position.y += 0.3; }")
    worn.until(f"(z) => ({FACT})('Eyes at').split(',').map(parseFloat)[2] > z + 0.25", before[2])
    assert all("net::ERR_" in error for error in worn.errors)  # the browser's own, of each attempt
    worn.errors.clear()
